import Testing
import ZeroMQ

@Suite struct ContextTests {
    @Test func `a context lives as long as its sockets`() throws {
        func socket() throws -> Socket { try Socket(.dealer, in: Context()) }
        let socket = try socket()
        try socket.bind(uniqueInproc())
    }

    @Test func `threads share a context, each with its own sockets`() throws {
        let context = try Context()
        let server = try Socket.bound(.rep, to: uniqueInproc(), in: context)
        let endpoint = try server.lastEndpoint
        let clients = (0..<4).map { number in
            Worker {
                let client = try Socket.connected(.req, to: endpoint, in: context)
                for turn in 0..<50 {
                    try client.send("\(number) \(turn)")
                    guard try client.receiveText() == "echo \(number) \(turn)" else { return turn }
                }
                return 50
            }
        }
        for _ in 0..<200 { try server.send("echo \(server.receiveText())") }
        #expect(try clients.map { try $0.join() } == [50, 50, 50, 50])
    }
}

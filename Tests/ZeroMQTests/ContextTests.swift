import Testing
import ZeroMQ

@Suite struct ContextTests {
    @Test func `every call on a socket that outlives its context throws terminated`() throws {
        func orphan() throws -> Socket {
            let context = try Context()
            return try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        }
        let socket = try orphan()
        let codes = [
            failure { () throws(ZeroMQError) in try socket.send("x") }?.code,
            failure { () throws(ZeroMQError) in _ = try socket.receive() }?.code,
            failure { () throws(ZeroMQError) in _ = try socket.tryReceive() }?.code,
            failure { () throws(ZeroMQError) in try socket.bind(uniqueInproc()) }?.code,
            failure { () throws(ZeroMQError) in try socket.setLinger(.zero) }?.code,
        ]
        #expect(codes.allSatisfy { $0 == ZeroMQError.terminated })
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

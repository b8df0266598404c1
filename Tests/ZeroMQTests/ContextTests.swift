import Testing
import ZeroMQ

@Suite struct ContextTests {
    @Test func `shutdown wakes a receive that is blocked in another thread`() throws {
        let context = try Context()
        let worker = Worker {
            let socket = try Socket.bound(.rep, to: uniqueInproc(), in: context)
            return failure { () throws(ZeroMQError) in _ = try socket.receive() }?.code
        }
        #expect(worker.waitUntilAsleep())
        #expect(worker.isRunning)
        context.shutdown()
        #expect(try worker.join() == .terminated)
    }

    @Test func `shutdown wakes a poll that is blocked in another thread`() throws {
        let context = try Context()
        let worker = Worker {
            let socket = try Socket.bound(.rep, to: uniqueInproc(), in: context)
            var poller = Poller()
            let item = poller.add(socket, for: .input)
            let code = failure { () throws(ZeroMQError) in _ = try poller.wait(timeout: patience) }?.code
            return (code, poller[item])
        }
        #expect(worker.waitUntilAsleep())
        context.shutdown()
        let (code, found) = try worker.join()
        #expect(code == .terminated)
        #expect(found == [])
    }

    @Test func `after shutdown every call on a socket throws terminated`() throws {
        let context = try Context()
        let socket = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        context.shutdown()
        context.shutdown()
        let codes = [
            failure { () throws(ZeroMQError) in try socket.send("x") }?.code,
            failure { () throws(ZeroMQError) in _ = try socket.receive() }?.code,
            failure { () throws(ZeroMQError) in _ = try socket.tryReceive() }?.code,
            failure { () throws(ZeroMQError) in try socket.bind(uniqueInproc()) }?.code,
            failure { () throws(ZeroMQError) in try socket.set(.linger, to: .zero) }?.code,
            failure { () throws(ZeroMQError) in _ = try socket.events }?.code,
            failure { () throws(ZeroMQError) in _ = try Socket(.dealer, in: context) }?.code,
        ]
        #expect(codes == Array(repeating: .terminated, count: codes.count))
    }

    @Test func `a socket that outlives its context is told so and ends in peace`() throws {
        func orphan() throws -> Socket {
            let context = try Context()
            return try Socket.bound(.rep, to: uniqueInproc(), in: context)
        }
        let socket = try orphan()
        let error = failure { () throws(ZeroMQError) in _ = try socket.receive() }
        #expect(error?.code == .terminated)
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

    @Test func `a context has room for maxSockets sockets`() throws {
        let context = try Context(maxSockets: 2)
        let first = try Socket(.pair, in: context)
        let second = try Socket(.pair, in: context)
        let third = failure { () throws(ZeroMQError) in _ = try Socket(.pair, in: context) }
        #expect(third == ZeroMQError(code: .tooManySockets, operation: "zmq_socket", subject: "pair"))
        #expect(try first.lastEndpoint == second.lastEndpoint)
    }

    @Test func `without I/O threads inproc works and tcp does not`() throws {
        let context = try Context(ioThreads: 0)
        let receiver = try Socket.bound(.pair, to: uniqueInproc(), in: context)
        let sender = try Socket.connected(.pair, to: receiver.lastEndpoint, in: context)
        try sender.send("x")
        #expect(try receiver.receiveText() == "x")
        let error = failure { () throws(ZeroMQError) in try sender.bind("tcp://127.0.0.1:*") }
        #expect(error?.code == .noIOThread)
    }

    @Test(arguments: [-1, Int.max])
    func `a number of I/O threads that makes no sense is refused`(number: Int) {
        let error = failure { () throws(ZeroMQError) in _ = try Context(ioThreads: number) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.subject == "ZMQ_IO_THREADS")
    }

    @Test func `the library is the one we know`() {
        let version = Library.version
        #expect(version.major == 4)
        #expect(version.minor >= 3)
        #expect(Library.has("ipc"))
        #expect(!Library.has("telepathy"))
    }
}

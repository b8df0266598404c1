import Testing
import ZeroMQ

@Suite struct SocketTests {
    @Test(arguments: Transport.allCases)
    func `a request and its reply arrive`(transport: Transport) throws {
        let context = try Context()
        let server = try Socket.bound(.rep, to: transport.wildcard, in: context)
        let client = try Socket.connected(.req, to: server.lastEndpoint, in: context)
        for number in 0..<10 {
            try client.send("request \(number)")
            #expect(try server.receiveText() == "request \(number)")
            try server.send("reply \(number)")
            #expect(try client.receiveText() == "reply \(number)")
        }
    }

    @Test(arguments: Transport.allCases)
    func `a router sees the sender's route, and its reply returns to the sender`(transport: Transport) throws
    {
        let context = try Context()
        let server = try Socket.bound(.router, to: transport.wildcard, in: context)
        let first = try Socket.patient(.req, in: context)
        let second = try Socket.patient(.req, in: context)
        try first.connect(server.lastEndpoint)
        try second.connect(server.lastEndpoint)
        func route(of text: String) throws -> Multipart {
            var request = Multipart()
            _ = try server.receive(into: &request)
            #expect(request.count == 3)
            let last = request.removeLast()
            #expect(last.text == text)
            return request
        }
        try first.send("a")
        var toFirst = try route(of: "a")
        try second.send("b")
        var toSecond = try route(of: "b")
        toSecond.append(try Message("to b"))
        try server.send(toSecond)
        toFirst.append(try Message("to a"))
        try server.send(toFirst)
        #expect(try first.receiveText() == "to a")
        #expect(try second.receiveText() == "to b")
    }

    @Test func `a wildcard port becomes a real port`() throws {
        let context = try Context()
        let socket = try Socket(.rep, in: context)
        #expect(try socket.lastEndpoint == "")
        try socket.bind("tcp://127.0.0.1:*")
        let endpoint = try socket.lastEndpoint
        let port = endpoint.split(separator: ":").last.flatMap { Int($0) }
        #expect(endpoint.hasPrefix("tcp://127.0.0.1:"))
        #expect(port.map { $0 > 0 } == true)
    }

    @Test func `a non-blocking receive gets nothing or the message`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        let nothing = try receiver.tryReceive()
        let isNothing = nothing == nil
        #expect(isNothing)
        try sender.send("something")
        let something = try receiver.tryReceive()
        #expect(something?.text == "something")
    }

    @Test func `a receive into a message empties it if no message has arrived`() throws {
        let context = try Context()
        let receiver = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        var message = try Message("old")
        let received = try receiver.tryReceive(into: &message)
        #expect(!received)
        #expect(message.size == 0)
    }

    @Test func `a non-blocking send empties a sent message and keeps an unsent one`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let sender = try Socket.bound(.dealer, to: endpoint, in: context)
        var message = try Message("patient")
        let early = try sender.trySend(&message)
        #expect(!early)
        #expect(message.text == "patient")

        let receiver = try Socket.connected(.dealer, to: endpoint, in: context)
        // The socket may take a millisecond to see the new peer.
        let late = try eventually { try sender.trySend(&message) }
        #expect(late)
        #expect(message.size == 0)
        #expect(try receiver.receiveText() == "patient")
    }

    /// With a limit, the large frame never arrives, and a later message arrives instead.
    @Test(arguments: [nil, 1000] as [Int64?])
    func `a frame above the maximum message size never arrives`(limit: Int64?) throws {
        let context = try Context()
        let server = try Socket.patient(.dealer, in: context)
        try server.setMaxMessageSize(limit)
        try server.bind("tcp://127.0.0.1:*")
        let client = try Socket.connected(.dealer, to: server.lastEndpoint, in: context)
        try client.send(Message(copying: [UInt8](repeating: 0, count: 1000)))
        #expect(try server.receive().size == 1000)
        try client.send(Message(copying: [UInt8](repeating: 0, count: 1001)))
        // The server disconnects. The client reconnects, and may lose messages that it sends before that.
        var size: Int?
        #expect(
            try eventually {
                var small = try Message("small")
                _ = try client.trySend(&small)
                size = try server.tryReceive()?.size
                return size != nil
            })
        #expect(size == (limit == nil ? 1001 : 5))
    }

    @Test(arguments: [nil, .milliseconds(500)] as [Duration?])
    func `a context waits for a peer as long as its sockets linger, by default not at all`(linger: Duration?)
        throws
    {
        let worker = Worker {
            let start = ContinuousClock.now
            do {
                let context = try Context()
                let sender = try Socket.connected(.dealer, to: nowhere, in: context)
                if let linger { try sender.setLinger(linger) }
                try sender.send("never read")
            }
            return ContinuousClock.now - start
        }
        // Without the module's default, libzmq would wait forever.
        try #require(eventually { !worker.isRunning })
        #expect(try worker.join() >= (linger ?? .zero) - slack)
    }
}

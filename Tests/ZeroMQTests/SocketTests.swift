import Testing
import ZeroMQ

@Suite struct SocketTests {
    @Test(arguments: Transport.allCases)
    func `a request and its reply go round`(transport: Transport) throws {
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
    func `a router sees who asks, and its reply finds the way`(transport: Transport) throws {
        let context = try Context()
        let server = try Socket.bound(.router, to: transport.wildcard, in: context)
        let first = try Socket.patient(.req, in: context)
        let second = try Socket.patient(.req, in: context)
        try first.setRoutingID(Array("first".utf8))
        try second.setRoutingID(Array("second".utf8))
        try first.connect(server.lastEndpoint)
        try second.connect(server.lastEndpoint)
        try first.send("a")
        #expect(try server.receiveTexts() == ["first", "", "a"])
        try second.send("b")
        #expect(try server.receiveTexts() == ["second", "", "b"])
        try server.send(["second", "", "to b"])
        try server.send(["first", "", "to a"])
        #expect(try first.receiveText() == "to a")
        #expect(try second.receiveText() == "to b")
    }

    @Test func `a wildcard port becomes a real one`() throws {
        let context = try Context()
        let socket = try Socket(.rep, in: context)
        #expect(try socket.lastEndpoint == "")
        try socket.bind("tcp://127.0.0.1:*")
        let endpoint = try socket.lastEndpoint
        let port = endpoint.split(separator: ":").last.flatMap { Int($0) }
        #expect(endpoint.hasPrefix("tcp://127.0.0.1:"))
        #expect(port.map { $0 > 0 } == true)
    }

    @Test func `an endpoint that is unbound can be bound by another`() throws {
        let context = try Context()
        let first = try Socket.bound(.rep, to: "tcp://127.0.0.1:*", in: context)
        let endpoint = try first.lastEndpoint
        try first.unbind(endpoint)
        let second = try Socket(.rep, in: context)
        // The port is freed in the background.
        #expect(eventually { failure { () throws(ZeroMQError) in try second.bind(endpoint) } == nil })
    }

    @Test func `after disconnect nothing is sent there`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.pull, to: endpoint, in: context)
        let sender = try Socket.connected(.push, to: endpoint, in: context)
        try sender.send("before")
        #expect(try receiver.receiveText() == "before")
        try sender.disconnect(endpoint)
        var message = try Message("after")
        let sent = try sender.trySend(&message)
        #expect(!sent)
    }

    @Test func `a receive without waiting finds nothing, then the message`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.pair, to: endpoint, in: context)
        let sender = try Socket.connected(.pair, to: endpoint, in: context)
        let nothing = try receiver.tryReceive()
        let isNothing = nothing == nil
        #expect(isNothing)
        try sender.send("something")
        let something = try receiver.tryReceive()
        #expect(something?.text == "something")
    }

    @Test func `a receive in place that finds nothing leaves an empty message`() throws {
        let context = try Context()
        let receiver = try Socket.bound(.pull, to: uniqueInproc(), in: context)
        var message = try Message("old")
        let received = try receiver.tryReceive(into: &message)
        #expect(!received)
        #expect(message.size == 0)
    }

    @Test func `a send without waiting empties the message when it goes and keeps it when not`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let sender = try Socket.bound(.dealer, to: endpoint, in: context)
        var message = try Message("patient")
        let early = try sender.trySend(&message)
        #expect(!early)
        #expect(message.text == "patient")

        let receiver = try Socket.connected(.dealer, to: endpoint, in: context)
        // It may take a millisecond until a send sees the new peer.
        let late = try eventually { try sender.trySend(&message) }
        #expect(late)
        #expect(message.size == 0)
        #expect(try receiver.receiveText() == "patient")
    }

    @Test func `a send says "not now" at the high water mark, and goes on when there is room`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.patient(.pull, in: context)
        try receiver.set(.receiveHighWaterMark, to: 2)
        try receiver.bind(endpoint)
        let sender = try Socket.patient(.push, in: context)
        try sender.set(.sendHighWaterMark, to: 3)
        try sender.connect(endpoint)
        // Over inproc both marks add up.
        for number in 1...5 {
            var message = try Message("\(number)")
            let sent = try sender.trySend(&message)
            #expect(sent)
        }
        var sixth = try Message("6")
        let early = try sender.trySend(&sixth)
        #expect(!early)
        #expect(sixth.text == "6")
        for number in 1...5 { #expect(try receiver.receiveText() == "\(number)") }
        let late = try eventually { try sender.trySend(&sixth) }
        #expect(late)
        #expect(try receiver.receiveText() == "6")
    }

    @Test func `receiveMore and hasMore say whether a frame follows`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.pair, to: endpoint, in: context)
        let sender = try Socket.connected(.pair, to: endpoint, in: context)
        try sender.send("one", more: true)
        try sender.send("two")
        let one = try receiver.receive()
        #expect(one.hasMore == true)
        #expect(try receiver.receiveMore == true)
        let two = try receiver.receive()
        #expect(two.hasMore == false)
        #expect(try receiver.receiveMore == false)
    }

    @Test func `events tell what can be done now`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.pair, to: endpoint, in: context)
        #expect(try receiver.events == [])
        let sender = try Socket.connected(.pair, to: endpoint, in: context)
        #expect(try receiver.events == .output)
        try sender.send("x")
        #expect(try receiver.events == [.input, .output])
    }

    @Test func `a SUB receives what it subscribed to`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let publisher = try Socket.bound(.pub, to: endpoint, in: context)
        let subscriber = try Socket.patient(.sub, in: context)
        try subscriber.subscribe(to: Array("yes".utf8))
        try subscriber.connect(endpoint)
        try publisher.send("no 1")
        try publisher.send("yes 2")
        #expect(try subscriber.receiveText() == "yes 2")
    }

    @Test(arguments: [false, true])
    func `a REQ that correlates drops a duplicated reply, a plain one takes it for the next`(
        correlates: Bool
    ) throws {
        let context = try Context()
        let server = try Socket.bound(.router, to: uniqueInproc(), in: context)
        let client = try Socket.patient(.req, in: context)
        try client.set(.reqCorrelate, to: correlates)
        try client.connect(server.lastEndpoint)
        /// Takes a request and gives its route: all frames but the last.
        func route() throws -> Multipart {
            var request = Multipart()
            let reception = try server.receive(into: &request)
            #expect(reception == .complete)
            #expect(request.count == (correlates ? 4 : 3))
            _ = request.removeLast()
            return request
        }
        func answer(_ route: inout Multipart, _ text: String) throws {
            var reply = route.copy()
            reply.append(try Message(text))
            try server.send(reply)
        }
        try client.send("a")
        var first = try route()
        try answer(&first, "to a")
        #expect(try client.receiveText() == "to a")
        try client.send("b")
        var second = try route()
        try answer(&first, "to a")
        try answer(&second, "to b")
        #expect(try client.receiveText() == (correlates ? "to b" : "to a"))
    }

    @Test(arguments: [false, true])
    func `a REQ that is relaxed may ask again before the reply`(relaxed: Bool) throws {
        let context = try Context()
        let server = try Socket.bound(.router, to: uniqueInproc(), in: context)
        let client = try Socket.patient(.req, in: context)
        try client.set(.reqRelaxed, to: relaxed)
        try client.set(.reqCorrelate, to: relaxed)
        try client.connect(server.lastEndpoint)
        try client.send("a")
        let error = failure { () throws(ZeroMQError) in try client.send("again") }
        #expect(error?.code == (relaxed ? nil : .wrongState))
    }

    @Test(arguments: [false, true])
    func `with handover a newcomer takes a routing id, without it is ignored`(handover: Bool) throws {
        let context = try Context()
        let server = try Socket.patient(.router, in: context)
        try server.set(.routerHandover, to: handover)
        let endpoint = uniqueInproc()
        try server.bind(endpoint)
        func peer() throws(ZeroMQError) -> Socket {
            let socket = try Socket.patient(.dealer, in: context)
            try socket.setRoutingID(Array("name".utf8))
            try socket.connect(endpoint)
            return socket
        }
        let old = try peer()
        try old.send("old")
        #expect(try server.receiveTexts() == ["name", "old"])
        let new = try peer()
        try new.send("new")
        if handover { #expect(try server.receiveTexts() == ["name", "new"]) }
        try server.send(["name", "hello"])
        #expect(try (handover ? new.receiveText() : old.receiveText()) == "hello")
    }

    /// With a limit, the next thing to arrive is not the large frame.
    @Test(arguments: [nil, 1000] as [Int64?])
    func `a frame above maxMessageSize never arrives`(limit: Int64?) throws {
        let context = try Context()
        let server = try Socket.patient(.pull, in: context)
        try server.set(.maxMessageSize, to: limit)
        try server.bind("tcp://127.0.0.1:*")
        let client = try Socket.connected(.push, to: server.lastEndpoint, in: context)
        try client.send(Message(size: 1000))
        #expect(try server.receive().size == 1000)
        try client.send(Message(size: 1001))
        // The server disconnects; the client comes back, and may lose what it sent meanwhile.
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
    func `linger zero ends at once, a linger waits that long for a peer`(linger: Duration?) throws {
        let clock = ContinuousClock()
        let start = clock.now
        do {
            let context = try Context()
            let sender = try Socket.connected(.push, to: nowhere, in: context)
            if let linger { try sender.set(.linger, to: linger) }
            try sender.send("never read")
        }
        let elapsed = clock.now - start
        #expect(elapsed >= (linger ?? .zero) - slack)
        #expect(elapsed < (linger ?? .zero) + .milliseconds(450))
    }

    @Test func `every kind of socket can be made`() throws {
        let context = try Context()
        for kind in Socket.Kind.allCases {
            let socket = try Socket(kind, in: context)
            try socket.bind(uniqueInproc())
        }
    }
}

import Testing
import ZeroMQ

@Suite struct ZeroCopyTests {
    /// Sizes of adopted buffers. libzmq never copies an adopted buffer into the message, however small it is.
    static let sizes = [1, 8, 33, 34, 1000, 1_000_000]

    @Test(arguments: sizes)
    func `a message uses the adopted buffer itself`(size: Int) throws {
        let buffer = Buffer(size: size)
        let message = try buffer.message()
        #expect(message.size == size)
        #expect(message.address == buffer.address)
    }

    @Test func `a zero-copy message releases its buffer once, at its end`() throws {
        let buffer = Buffer(size: 100)
        do {
            let message = try buffer.message()
            #expect(buffer.releases.value == 0)
            #expect(message.size == 100)
        }
        #expect(buffer.releases.value == 1)
    }

    @Test func `the last copy of a zero-copy message releases the buffer once`() throws {
        let buffer = Buffer(size: 100)
        do {
            var copies = Multipart()
            do {
                var message = try buffer.message()
                for _ in 0..<10 { copies.append(message.copy()) }
            }
            #expect(buffer.releases.value == 0)
            while copies.count > 1 { _ = copies.removeLast() }
            #expect(buffer.releases.value == 0)
            #expect(copies[0].address == buffer.address)
        }
        #expect(buffer.releases.value == 1)
    }

    @Test func `an adopted buffer of zero bytes is also released`() throws {
        let counter = Counter()
        do {
            let message = try Message(
                adopting: UnsafeMutableRawBufferPointer(start: nil, count: 0),
                keeping: AtTheEnd { counter.increment() })
            #expect(message.isEmpty == true)
            #expect(counter.value == 0)
        }
        #expect(counter.value == 1)
    }

    @Test func `replacing a message in place releases its buffer`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        let buffer = Buffer(size: 100)
        var message = try buffer.message()
        try sender.send("new")
        try receiver.receive(into: &message)
        #expect(message.text == "new")
        #expect(buffer.releases.value == 1)
    }

    @Test(arguments: sizes)
    func `an inproc peer receives the same buffer, and its message releases it`(size: Int) throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        let buffer = Buffer(size: size)
        try sender.send(buffer.message())
        #expect(buffer.releases.value == 0)
        do {
            let received = try receiver.receive()
            #expect(received.address == buffer.address)
            #expect(received.size == size)
            #expect(buffer.releases.value == 0)
        }
        #expect(buffer.releases.value == 1)
    }

    @Test(arguments: [Transport.tcp, .ipc])
    func `a buffer sent over the wire arrives complete and is released once`(transport: Transport) throws {
        let buffer = Buffer(size: 300_000)
        do {
            let context = try Context()
            let receiver = try Socket.bound(.dealer, to: transport.wildcard, in: context)
            let sender = try Socket.connected(.dealer, to: receiver.lastEndpoint, in: context)
            try sender.send(buffer.message())
            let received = try receiver.receive()
            let same = received.bytes == Array(buffer.bytes)
            #expect(same)
            #expect(received.address != buffer.address)
            #expect(eventually { buffer.releases.value == 1 })
        }
        #expect(buffer.releases.value == 1)
    }

    @Test func `a copy keeps the buffer of a sent message alive`() throws {
        let context = try Context()
        let receiver = try Socket.bound(.dealer, to: Transport.tcp.wildcard, in: context)
        let sender = try Socket.connected(.dealer, to: receiver.lastEndpoint, in: context)
        let buffer = Buffer(size: 300_000)
        do {
            var stored = try buffer.message()
            for _ in 0..<3 {
                try sender.send(stored.copy())
                let received = try receiver.receive()
                let same = received.bytes == Array(buffer.bytes)
                #expect(same)
            }
            #expect(buffer.releases.value == 0)
        }
        #expect(eventually { buffer.releases.value == 1 })
    }

    @Test func `a message that can't be sent in this state releases its buffer`() throws {
        let context = try Context()
        let socket = try Socket.bound(.rep, to: uniqueInproc(), in: context)
        let buffer = Buffer(size: 100)
        let error = failure { () throws(ZeroMQError) in try socket.send(buffer.message()) }
        #expect(error?.code == wrongState)
        #expect(buffer.releases.value == 1)
    }

    @Test func `a message that can't be sent now keeps its buffer`() throws {
        let context = try Context()
        let socket = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        let buffer = Buffer(size: 100)
        do {
            var message = try buffer.message()
            let sent = try socket.trySend(&message)
            #expect(!sent)
            #expect(message.address == buffer.address)
            #expect(buffer.releases.value == 0)
        }
        #expect(buffer.releases.value == 1)
    }

    @Test func `a reply to a missing peer releases its buffer`() throws {
        let context = try Context()
        let router = try Socket.bound(.router, to: uniqueInproc(), in: context)
        let buffer = Buffer(size: 100)
        var parts = try Multipart(["nobody", ""])
        parts.append(try buffer.message())
        try router.send(parts)
        #expect(buffer.releases.value == 1)
    }

    @Test func `a socket that closes with unsent messages releases their buffers`() throws {
        let buffers = (0..<10).map { _ in Buffer(size: 1000) }
        do {
            let context = try Context()
            let sender = try Socket.connected(.dealer, to: nowhere, in: context)
            for buffer in buffers { try sender.send(buffer.message()) }
            #expect(buffers.allSatisfy { $0.releases.value == 0 })
        }
        #expect(buffers.allSatisfy { $0.releases.value == 1 })
    }

    @Test func `a socket that closes with unread messages releases their buffers`() throws {
        let buffers = (0..<10).map { _ in Buffer(size: 1000) }
        do {
            let context = try Context()
            let endpoint = uniqueInproc()
            let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
            let sender = try Socket.connected(.dealer, to: endpoint, in: context)
            for buffer in buffers { try sender.send(buffer.message()) }
            var poller = Poller()
            _ = poller.add(receiver)
            let ready = try poller.wait(timeout: patience)
            #expect(ready == 1)
            #expect(buffers.allSatisfy { $0.releases.value == 0 })
        }
        #expect(buffers.allSatisfy { $0.releases.value == 1 })
    }

    @Test func `a message may be freed on another thread`() throws {
        let buffer = Buffer(size: 100)
        let releases = buffer.releases
        let worker = Worker {
            let message = try buffer.message()
            return message.size
        }
        #expect(try worker.join() == 100)
        #expect(releases.value == 1)
    }
}

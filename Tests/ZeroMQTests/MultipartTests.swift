import Testing
import ZeroMQ

@Suite struct MultipartTests {
    @Test(arguments: [0, 1, 2, 8, 9, 100])
    func `frames keep the order in which they were added`(count: Int) throws {
        let texts = (0..<count).map { "frame \($0)" }
        var parts = Multipart()
        for text in texts { parts.append(try Message(text)) }
        #expect(parts.count == count)
        #expect(parts.texts == texts)
    }

    @Test func `the last frame can be removed and another one added`() throws {
        var parts = try Multipart(["route", "", "request"])
        let last = parts.removeLast()
        #expect(last.text == "request")
        #expect(parts.texts == ["route", ""])
        parts.append(try Message("reply"))
        #expect(parts.texts == ["route", "", "reply"])
    }

    @Test func `truncation drops the frames after the length and no others`() throws {
        var parts = try Multipart(["a", "b", "c"])
        parts.truncate(to: 5)
        #expect(parts.texts == ["a", "b", "c"])
        parts.truncate(to: 1)
        #expect(parts.texts == ["a"])
        parts.removeAll()
        #expect(parts.count == 0)
    }

    @Test func `the delimiter is the first empty frame`() throws {
        let parts = try Multipart(["route", "number", "", "body", ""])
        let delimiter = parts.firstIndex { $0.isEmpty }
        let none = parts.firstIndex { $0.size == 100 }
        #expect(delimiter == 2)
        #expect(none == nil)
    }

    @Test func `a frame can be changed in place`() throws {
        var parts = try Multipart(["a", "b"])
        parts[1] = try Message("B")
        #expect(parts.texts == ["a", "B"])
    }

    @Test func `each frame is closed once, whichever way it is removed`() throws {
        let buffers = (0..<6).map { _ in Buffer(size: 50) }
        do {
            var parts = Multipart()
            for buffer in buffers { parts.append(try buffer.message()) }
            _ = parts.removeLast()
            #expect(buffers.map(\.releases.value) == [0, 0, 0, 0, 0, 1])
            parts.truncate(to: 3)
            #expect(buffers.map(\.releases.value) == [0, 0, 0, 1, 1, 1])
            parts[0] = Message()
            #expect(buffers.map(\.releases.value) == [1, 0, 0, 1, 1, 1])
        }
        #expect(buffers.map(\.releases.value) == [1, 1, 1, 1, 1, 1])
    }

    @Test func `an index without a frame is a precondition failure`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            var parts = Multipart()
            parts.append(try Message("a"))
            _ = parts[1].size
        }
        #expect(died(result, saying: "no such frame"))
    }

    @Test(arguments: Transport.allCases)
    func `a multipart message arrives as it was sent`(transport: Transport) throws {
        let context = try Context()
        let receiver = try Socket.bound(.dealer, to: transport.wildcard, in: context)
        let sender = try Socket.connected(.dealer, to: receiver.lastEndpoint, in: context)
        let messages = [["one"], ["", "two", ""], (0..<64).map { "frame \($0)" }, ["last"]]
        for texts in messages { try sender.send(texts) }
        var parts = Multipart()
        for texts in messages {
            let frameCount = try receiver.receive(into: &parts)
            #expect(frameCount == texts.count)
            #expect(parts.texts == texts)
        }
    }

    @Test func `a non-blocking multipart receive gets no message or a complete one`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        var parts = try Multipart(["old"])
        let nothing = try receiver.tryReceive(into: &parts)
        #expect(nothing == nil)
        #expect(parts.count == 0)
        // An incomplete message does not count.
        var first = try Message("a")
        let isSent = try sender.trySend(&first, more: true)
        #expect(isSent)
        let half = try receiver.tryReceive(into: &parts)
        #expect(half == nil)
        try sender.send("b")
        let whole = try receiver.tryReceive(into: &parts)
        #expect(whole == 2)
        #expect(parts.texts == ["a", "b"])
    }

    @Test func `a non-blocking multipart send sends all frames or none`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let sender = try Socket.bound(.dealer, to: endpoint, in: context)
        var parts = try Multipart(["a", "b", "c"])
        let early = try sender.trySend(&parts)
        #expect(!early)
        #expect(parts.texts == ["a", "b", "c"])
        let receiver = try Socket.connected(.dealer, to: endpoint, in: context)
        let late = try eventually { try sender.trySend(&parts) }
        #expect(late)
        #expect(parts.count == 0)
        #expect(try receiver.receiveTexts() == ["a", "b", "c"])
    }

    @Test(arguments: 7...9)
    func `at most maxFrames frames of a message are kept, and all are counted`(frames: Int) throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        try sender.send((1...frames).map { "\($0)" })
        var parts = Multipart()
        let frameCount = try receiver.receive(into: &parts, maxFrames: 8)
        #expect(frameCount == frames)
        #expect(parts.texts == (1...min(frames, 8)).map { "\($0)" })
    }

    @Test(arguments: Transport.allCases)
    func `ten thousand frames are read, dropped and counted, and the next message is complete`(
        transport: Transport
    ) throws {
        let context = try Context()
        let server = try Socket.bound(.router, to: transport.wildcard, in: context)
        let client = try Socket.patient(.dealer, in: context)
        try client.connect(server.lastEndpoint)
        try client.send((1...10_000).map { "\($0)" })
        try client.send(["", "next"])
        var parts = Multipart()
        let first = try server.receive(into: &parts, maxFrames: 4)
        #expect(first == 10_001)
        #expect(parts.texts.dropFirst() == ["1", "2", "3"])
        let second = try server.receive(into: &parts, maxFrames: 4)
        #expect(second == 3)
        #expect(parts.texts.dropFirst() == ["", "next"])
    }

    @Test func `frames beyond the limit are not kept`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        let buffers = (0..<10).map { _ in Buffer(size: 50) }
        var sent = Multipart()
        for buffer in buffers { sent.append(try buffer.message()) }
        try sender.send(sent)
        var parts = Multipart()
        _ = try receiver.receive(into: &parts, maxFrames: 3)
        #expect(buffers.map(\.releases.value) == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
        parts.removeAll()
        #expect(buffers.allSatisfy { $0.releases.value == 1 })
    }

    @Test func `sending a message without frames is a precondition failure`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let context = try Context()
            let socket = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
            var none = Multipart()
            _ = try socket.trySend(&none)
        }
        #expect(died(result, saying: "at least one frame"))
    }
}

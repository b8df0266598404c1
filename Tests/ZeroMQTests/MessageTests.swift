import Testing
import ZeroMQ

@Suite struct MessageTests {
    /// Sizes near the largest inline message (33 bytes), and near the points where ZMTP's length field grows.
    static let sizes = [0, 1, 7, 32, 33, 34, 64, 255, 256, 100_000]

    private func pattern(_ size: Int, from start: Int = 0) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: ($0 + start) * 31 + 5) }
    }

    @Test func `a new message is empty`() {
        let message = Message()
        #expect(message.size == 0)
        #expect(message.isEmpty == true)
        #expect(message.hasMore == false)
        #expect(message.bytes == [])
    }

    @Test(arguments: sizes)
    func `a message has the copied bytes`(size: Int) throws {
        var source = pattern(size)
        let message = try source.span.withUnsafeBytes { try Message(copying: $0) }
        for index in source.indices { source[index] = 0 }
        #expect(message.size == size)
        #expect(message.isEmpty == (size == 0))
        #expect(message.bytes == pattern(size))
    }

    /// The bytes of a small message move with the struct. A large message's bytes stay in place.
    @Test(arguments: sizes)
    func `a message keeps its bytes however often Swift moves it`(size: Int) throws {
        func through(_ message: consuming Message) -> Message { message }
        let patterns = (0..<20).map { pattern(size, from: $0) }
        var parts = Multipart()
        for pattern in patterns {
            let optional: Message? = through(try Message(copying: pattern))
            parts.append(through(optional!))
        }
        for (number, pattern) in patterns.enumerated() { #expect(parts[number].bytes == pattern) }
        for pattern in patterns.reversed() {
            let message = through(parts.removeLast())
            #expect(message.bytes == pattern)
        }
    }

    @Test(arguments: sizes)
    func `a copy has the same bytes and outlives its original`(size: Int) throws {
        func copyOfTemporary() throws -> Message {
            var original = try Message(copying: pattern(size))
            return original.copy()
        }
        let copy = try copyOfTemporary()
        #expect(copy.bytes == pattern(size))
    }

    @Test func `a copy of a large message shares its bytes`() throws {
        var original = try Message(copying: pattern(1000))
        let copy = original.copy()
        #expect(copy.address == original.address)
    }

    @Test func `an error in the closure is thrown unchanged`() throws {
        struct Unhappy: Error, Equatable {}
        let message = try Message("bytes")
        #expect(throws: Unhappy()) { try message.withUnsafeBytes { _ throws(Unhappy) in throw Unhappy() } }
        #expect(message.text == "bytes")
    }
}

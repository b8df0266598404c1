import Platform
import Testing

@Suite struct WakeupTests {
    @Test func `a bell is readable from its first ring until it is silenced`() throws {
        let bell = try Wakeup()
        #expect(!isReadable(bell.descriptor))
        bell.ring()
        bell.ring()
        #expect(isReadable(bell.descriptor))
        bell.silence()
        #expect(!isReadable(bell.descriptor))
        bell.silence()
        bell.ring()
        #expect(isReadable(bell.descriptor))
    }

    @Test(arguments: [64, 65, 1 << 17])
    func `ringing never waits, and any number of rings is silenced at once`(rings: Int) throws {
        let bell = try Wakeup()
        for _ in 0..<rings { bell.ring() }
        #expect(isReadable(bell.descriptor))
        bell.silence()
        #expect(!isReadable(bell.descriptor))
    }
}

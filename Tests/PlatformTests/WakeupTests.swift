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
    func `any number of rings never waits, and is silenced at once`(rings: Int) throws {
        let bell = try Wakeup()
        for _ in 0..<rings { bell.ring() }
        #expect(isReadable(bell.descriptor))
        bell.silence()
        #expect(!isReadable(bell.descriptor))
    }
}

@Suite struct SignalsTests {
    @Test func `a signal makes its descriptor readable until it is taken`() async {
        await #expect(processExitsWith: .success) {
            let (stop, reload) = (try Signals(SIGTERM, SIGINT), try Signals(SIGHUP))
            raise(SIGHUP)
            raise(SIGHUP)
            #expect(isReadable(reload.descriptor) && !isReadable(stop.descriptor))
            reload.take()
            #expect(!isReadable(reload.descriptor))
            raise(SIGINT)
            raise(SIGTERM)
            #expect(isReadable(stop.descriptor) && !isReadable(reload.descriptor))
        }
    }

    @Test func `a signal changes no errno, and a later one is ignored`() async {
        await #expect(processExitsWith: .success) {
            var signals: Signals? = try Signals(SIGTERM)
            errno = EDOM
            raise(SIGTERM)
            #expect(errno == EDOM && signals != nil)
            signals = nil
            raise(SIGTERM)
        }
    }
}

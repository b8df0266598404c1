import Platform
import Testing

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

    @Test func `a signal arrives even if the process started with it blocked`() async {
        await #expect(processExitsWith: .success) {
            var blocked = sigset_t()
            sigemptyset(&blocked)
            sigaddset(&blocked, SIGTERM)
            pthread_sigmask(SIG_BLOCK, &blocked, nil)
            raise(SIGTERM)
            let signals = try Signals(SIGTERM)
            #expect(isReadable(signals.descriptor))
        }
    }

    @Test func `an ignored signal stays ignored if the caller wants that`() async {
        await #expect(processExitsWith: .success) {
            signal(SIGHUP, SIG_IGN)
            signal(SIGINT, SIG_IGN)
            let signals = try Signals(SIGINT, unlessIgnored: SIGHUP, SIGTERM)
            raise(SIGHUP)
            #expect(!isReadable(signals.descriptor))
            for number in [SIGINT, SIGTERM] {
                raise(number)
                #expect(isReadable(signals.descriptor))
                signals.take()
            }
        }
    }

    @Test func `signals never change errno, and are ignored after their release`() async {
        await #expect(processExitsWith: .success) {
            var signals: Signals? = try Signals(SIGTERM)
            for _ in 0...1 << 16 { raise(SIGTERM) }
            // The pipe is full, so the handler's write fails.
            errno = EDOM
            raise(SIGTERM)
            #expect(errno == EDOM)
            #expect(isReadable(try #require(signals).descriptor))
            signals = nil
            raise(SIGTERM)
        }
    }
}

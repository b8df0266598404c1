import Testing
import TwofoldCore

@testable import TwofoldServer

@Suite struct IdleCheckTests {
    private let start = Moment(nanoseconds: 0)

    /// Returns a check that takes place every 2 s, with a timeout of 8 s.
    private func check() -> IdleCheck { IdleCheck(.seconds(8), at: start) }

    @Test func `a check happens once an interval, and ends sessions that were idle at the last check`() {
        var check = check()
        #expect(check.interval == .seconds(2))
        #expect(IdleCheck(.seconds(3600), at: start).interval == .seconds(60))
        #expect(check.turn(at: start + .seconds(1), hasReadAll: true) == .nothing)
        #expect(check.turn(at: start + .seconds(2), hasReadAll: true) == .idle(since: start - .seconds(8)))
        #expect(check.turn(at: start + .seconds(3), hasReadAll: true) == .nothing)
        #expect(check.turn(at: start + .seconds(4), hasReadAll: true) == .idle(since: start - .seconds(6)))
    }

    @Test
    func `a turn after more than two intervals is a pause, and the next check is an interval later`() {
        var check = check()
        func turn(at milliseconds: Int) -> IdleCheck.Finding {
            check.turn(at: start + .milliseconds(milliseconds), hasReadAll: true)
        }
        #expect(turn(at: 4000) == .idle(since: start - .seconds(8)))
        #expect(turn(at: 8001) == .pause(.milliseconds(4001)))
        #expect(turn(at: 10_000) == .nothing)
        #expect(turn(at: 10_001) == .idle(since: start + .milliseconds(1)))
    }

    @Test func `while messages wait, sessions are judged by the last moment without waiting messages`() {
        var check = check()
        #expect(check.turn(at: start + .seconds(2), hasReadAll: true) == .idle(since: start - .seconds(8)))
        for second in [4, 6, 8, 10] {
            #expect(
                check.turn(at: start + .seconds(second), hasReadAll: false)
                    == .idle(since: start - .seconds(6)))
        }
        // Even if some clients never stop sending, the idle sessions of other clients end after at most twice the
        // timeout.
        #expect(check.turn(at: start + .seconds(12), hasReadAll: false) == .idle(since: start - .seconds(4)))
    }
}

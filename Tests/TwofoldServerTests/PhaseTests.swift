import TwofoldCore
import Testing

@testable import TwofoldServer
@testable import TwofoldSessions

/// Tests a stop from phase to phase, at moments that the test chooses.
@Suite struct PhaseTests {
    private let stop = Stop(at: Moment(nanoseconds: 0))

    private func at(_ milliseconds: Int) -> Moment { Moment(nanoseconds: milliseconds * 1_000_000) }

    private func phase(_ milliseconds: Int, jobs: Int, refusalEnd: Int = 300) -> Phase {
        stop.phase(at: at(milliseconds), refusalEnd: at(refusalEnd), jobsInProgress: jobs).phase
    }

    @Test func `with nothing in progress it refuses for its time, and ends`() {
        #expect(phase(200, jobs: 0) == .refusing)
        #expect(phase(299, jobs: 0) == .refusing)
        #expect(phase(300, jobs: 0) == .ended)
    }

    @Test func `jobs that wait may begin for a second, and those in progress have five`() {
        #expect(phase(999, jobs: 1) == .refusing)
        #expect(phase(1000, jobs: 1) == .late)
        #expect(phase(4999, jobs: 1) == .late)
        #expect(phase(5000, jobs: 1) == .ended)
        #expect(phase(2000, jobs: 0) == .ended)
    }

    @Test func `a client that asks late in the drain still hears that it has to come back`() {
        #expect(phase(1050, jobs: 0, refusalEnd: 1100) == .late)
        #expect(phase(1100, jobs: 0, refusalEnd: 1100) == .ended)
    }

    @Test(arguments: [(200, 0, 300), (200, 1, 1000), (1000, 1, 5000)])
    func `a phase lasts until the moment at which the next begins`(now: Int, jobs: Int, until: Int) {
        #expect(
            stop.phase(at: at(now), refusalEnd: at(300), jobsInProgress: jobs).until == at(until))
    }
}

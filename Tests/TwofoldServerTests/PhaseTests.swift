import Testing
import TwofoldCore
import TwofoldService

/// Tests the phases of a shutdown, at times that the tests choose.
@Suite struct PhaseTests {
    private let stop = Stop(at: Moment(nanoseconds: 0))

    private func at(_ milliseconds: Int) -> Moment { Moment(nanoseconds: milliseconds * 1_000_000) }

    private func phase(_ milliseconds: Int, jobs: Int, refusalEnd: Int = 300) -> Phase {
        stop.phase(at: at(milliseconds), refusalEnd: at(refusalEnd), jobsInProgress: jobs).phase
    }

    @Test func `with nothing in progress, a stop refuses requests for a time and then ends`() {
        #expect(phase(200, jobs: 0) == .refusing)
        #expect(phase(299, jobs: 0) == .refusing)
        #expect(phase(300, jobs: 0) == .ended)
    }

    @Test func `waiting jobs may begin for one second, and jobs in progress may run for five`() {
        #expect(phase(999, jobs: 1) == .refusing)
        #expect(phase(1000, jobs: 1) == .late)
        #expect(phase(4999, jobs: 1) == .late)
        #expect(phase(5000, jobs: 1) == .ended)
        #expect(phase(2000, jobs: 0) == .ended)
    }

    @Test func `a request late in the drain is still refused with a retry time`() {
        #expect(phase(1050, jobs: 0, refusalEnd: 1100) == .late)
        #expect(phase(1100, jobs: 0, refusalEnd: 1100) == .ended)
    }

    @Test(arguments: [(200, 0, 300), (200, 1, 1000), (1000, 1, 5000)])
    func `a phase lasts until the next one begins`(now: Int, jobs: Int, until: Int) {
        #expect(
            stop.phase(at: at(now), refusalEnd: at(300), jobsInProgress: jobs).until == at(until))
    }
}

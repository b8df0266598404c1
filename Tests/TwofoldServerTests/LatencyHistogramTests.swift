import TwofoldCore
import Testing
import TwofoldProtocol
import TwofoldTestSupport

@testable import TwofoldServer
@testable import TwofoldSessions

@Suite struct LatencyHistogramTests {
    private let start = Moment(nanoseconds: 1_000_000_000_000)

    @Test func `without requests all quantiles are 0`() {
        var histogram = LatencyHistogram()
        #expect(histogram.quantiles([0.5, 0.99], now: start) == [0, 0])
    }

    @Test(arguments: [1000, 1001, 1124, 1125, 5000, 38_000, 999_999, 1_000_000, 123_456_789, 30_000_000_000])
    func `a quantile is at least the time, and at most an eighth more`(nanoseconds: Int) {
        var histogram = LatencyHistogram()
        histogram.add(nanoseconds, now: start)
        let reported = histogram.quantiles([0.5], now: start)[0] * 1e9
        #expect(reported >= Double(nanoseconds) && reported <= Double(nanoseconds) * 1.126, "\(reported)")
    }

    @Test func `times that are too short or too long count in the first or last bucket`() {
        var histogram = LatencyHistogram()
        for nanoseconds in [-5, 0, 1, 999] { histogram.add(nanoseconds, now: start) }
        #expect(histogram.quantiles([1], now: start)[0] <= 1.126e-6)
        histogram.add(.max, now: start)
        #expect(histogram.quantiles([1], now: start)[0] > 60)
    }

    @Test func `quantiles match the sorted times`() {
        var histogram = LatencyHistogram()
        var dice = Dice(seed: 1)
        let times = (0..<1000).map { _ in Int.random(in: 1000...50_000_000, using: &dice) }
        for time in times { histogram.add(time, now: start) }
        let sorted = times.sorted()
        for (share, reported) in zip(
            [0.01, 0.5, 0.99, 1], histogram.quantiles([0.01, 0.5, 0.99, 1], now: start))
        {
            let exact = Double(sorted[Int((1000 * share).rounded(.up)) - 1])
            #expect(reported * 1e9 >= exact && reported * 1e9 <= exact * 1.126, "\(share)")
        }
    }

    @Test func `statistics report the sum of the times, the median and the 99th percentile`() {
        var statistics = ServerStatistics()
        for request in 0..<100 {
            let end = Moment(nanoseconds: start.nanoseconds + (request < 90 ? 10_000 : 1_000_000))
            statistics.countExecuted(.step, arrived: start, at: end, steps: 1)
        }
        let stats = statistics.requestStats(at: start)
        #expect(abs(stats[0].seconds - (90 * 1e-5 + 10 * 1e-3)) < 1e-9)
        #expect((1e-5...1.13e-5).contains(stats[0].p50) && (1e-3...1.13e-3).contains(stats[0].p99))
    }

    @Test func `times from more than two windows ago are forgotten`() {
        var histogram = LatencyHistogram()
        histogram.add(1_000_000, now: start)
        #expect(histogram.quantiles([0.5], now: start + .seconds(9))[0] > 0)
        // These times are in the previous window.
        #expect(histogram.quantiles([0.5], now: start + .seconds(11))[0] > 0)
        histogram.add(2_000_000, now: start + .seconds(12))
        #expect(histogram.quantiles([0.5], now: start + .seconds(12))[0] < 1.2e-3)
        #expect(histogram.quantiles([0.5], now: start + .seconds(23))[0] > 1.9e-3, "the first is forgotten")
        #expect(histogram.quantiles([0.5], now: start + .seconds(60)) == [0])
    }
}

internal import TwofoldCore

/// A histogram of the recent latencies of one kind of request. Longer latencies have wider buckets:
///
///     1.00 1.12 1.25 … 1.87 | 2.00 2.25 … 3.75 | 4.00 …  microseconds
///     └──── 8 buckets ─────┘ └── 8 buckets ───┘
///
/// A quantile is reported as the upper end of its bucket, so it is at most one eighth too large. The histogram
/// covers two windows of ten seconds: the current window and the previous one.
struct LatencyHistogram: Sendable, Equatable {
    /// The length of a window in nanoseconds.
    private static let window = 10_000_000_000
    private static let perOctave = 8
    /// The number of buckets. They cover up to 2^27 microseconds, about two minutes.
    private static let count = 27 * perOctave

    private var current = [UInt32](repeating: 0, count: count)
    private var previous = [UInt32](repeating: 0, count: count)
    private var begin = 0

    /// Adds a request that took `nanoseconds` and has just ended.
    mutating func add(_ nanoseconds: Int, now: Moment) {
        rotate(now)
        current[Self.bucket(nanoseconds)] &+= 1
    }

    /// Returns quantiles of the recent latencies, in seconds. Returns zeros if there were no requests.
    mutating func quantiles(_ shares: [Double], now: Moment) -> [Double] {
        rotate(now)
        let total = current.reduce(0) { $0 + Int($1) } + previous.reduce(0) { $0 + Int($1) }
        return shares.map { share in
            guard total > 0 else { return 0 }
            var left = (Double(total) * share).rounded(.up)
            for bucket in 0..<Self.count {
                left -= Double(current[bucket]) + Double(previous[bucket])
                if left <= 0 { return Self.upperEnd(bucket) }
            }
            return Self.upperEnd(Self.count - 1)
        }
    }

    private mutating func rotate(_ now: Moment) {
        let age = now.nanoseconds - begin
        guard age >= Self.window else { return }
        if age < 2 * Self.window { swap(&previous, &current) } else { previous = Self.empty }
        current = Self.empty
        begin = now.nanoseconds
    }

    private static let empty = [UInt32](repeating: 0, count: count)

    private static func bucket(_ nanoseconds: Int) -> Int {
        // In eighths of a microsecond. All times below 1 microsecond share the first bucket.
        let eighths = max(8, nanoseconds / 125)
        let octave = Int.bitWidth - 1 - eighths.leadingZeroBitCount - 3
        return min(count - 1, octave * perOctave + (eighths >> octave) - 8)
    }

    private static func upperEnd(_ bucket: Int) -> Double {
        let octave = bucket / perOctave
        return Double((bucket % perOctave + 9) << octave) / 8e6
    }
}

internal import TwofoldTestSupport

/// The kinds of faults, numbered as in the C interface.
enum Fault: Int, CaseIterable {
    // Faults of a client, which the client asks for.
    case interrupt, killClient
    // Faults of a message.
    case dropRequest, dropReply, doubleRequest, doubleReply, delay, truncateRequest, truncateReply
    // Faults of connections and of the network.
    case cut, partition
    // Faults of servers.
    case killServer, stopServer, secondServer, stall, slowJob
    // Faults of time.
    case clockJump
    // Faults of the disk.
    case powerLoss, tornWrite, diskFull, flippedBit
}

/// The faults of a run. The seed decides which kinds happen and how often.
///
///     seed ──► kinds (about half of them) ──► rate of each ──► the n-th opportunity of a kind: yes or no
///
/// A decision depends only on the seed, the kind and the number of the opportunity. Each fault gets the next
/// ordinal. Faults with suppressed ordinals do not happen, so that a failing run can be reduced to the faults that
/// it needs.
struct Faults {
    /// Returns the maximum probability of a kind of fault per opportunity.
    private static func highest(_ fault: Fault) -> Double {
        switch fault {
        case .interrupt: 0.01
        case .killClient: 0.002
        case .dropRequest, .dropReply, .doubleRequest, .doubleReply: 0.1
        case .truncateRequest, .truncateReply: 0.02
        case .delay, .slowJob: 0.1
        // These kinds have one opportunity at each of the world's fault events.
        case .cut, .partition: 0.3
        case .killServer, .secondServer: 0.15
        case .stopServer, .powerLoss: 0.3
        case .stall, .clockJump: 0.1
        case .tornWrite, .diskFull, .flippedBit: 0.5
        }
    }

    private let seed: UInt64
    private var rates: [Double]
    private var opportunities = [UInt64](repeating: 0, count: Fault.allCases.count)
    private let suppressed: Set<Int>
    /// The number of faults of each kind so far.
    private(set) var counts = [Int](repeating: 0, count: Fault.allCases.count)
    /// The ordinal of the next fault: the number of faults so far, including suppressed ones.
    private(set) var ordinal = 0
    /// Whether all faults have stopped.
    private(set) var isCalm = false

    /// - Parameters:
    ///   - disabled: The kinds that must not happen, one bit each.
    ///   - suppressed: The ordinals of individual faults that must not happen.
    init(seed: UInt64, disabled: UInt64, suppressed: [UInt64]) {
        self.seed = seed
        self.suppressed = Set(suppressed.map { Int(clamping: $0) })
        var dice = Dice(seed: seed ^ 0x6d69_7866)
        rates = Fault.allCases.map { fault in
            let (isOn, size) = (dice.next() & 1 == 0, dice.fraction())
            return isOn && disabled >> UInt64(fault.rawValue) & 1 == 0
                ? Self.highest(fault) * size * size : 0
        }
    }

    func isPossible(_ fault: Fault) -> Bool { rates[fault.rawValue] > 0 }

    /// Returns true if this fault happens at this opportunity.
    mutating func strikes(_ fault: Fault) -> Bool {
        let rate = rates[fault.rawValue]
        guard rate > 0, !isCalm else { return false }
        opportunities[fault.rawValue] += 1
        var dice = Dice(
            seed: seed &+ opportunities[fault.rawValue] &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(fault.rawValue)
                << 56)
        guard dice.fraction() < rate else { return false }
        defer { ordinal += 1 }
        guard !suppressed.contains(ordinal) else { return false }
        counts[fault.rawValue] += 1
        return true
    }

    mutating func calm() { isCalm = true }
}

extension Dice {
    /// Draws a number in [0, 1).
    mutating func fraction() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// Draws a whole number below `count`.
    mutating func below(_ count: Int) -> Int { Int(next() % UInt64(count)) }

    /// Returns true with probability 1 / `count`.
    mutating func once(in count: Int) -> Bool { below(count) == 0 }
}

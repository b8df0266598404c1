/// Any number of boards of one game, stepped together: the state of a session.
///
/// Owned by one caller at a time; a call may spread over threads inside and returns when all lanes are
/// done. A call that throws has changed nothing.
public protocol VectorEnvironment: AnyObject {
    associatedtype Rules: Game

    /// The rules of the boards.
    var game: Rules { get }
    /// The options that the batch was made with.
    var options: BatchOptions { get }
    /// Estimated time for one lane on one thread. It decides into how many chunks a batch is cut, and
    /// whether the batch goes to another thread at all.
    var nanosecondsPerLane: Int { get }
    /// Estimated memory of a batch of this many lanes, otherwise like this one, without its replies.
    func bytes(lanes: Int) -> Int
    /// The arrays that ``reset(_:into:)`` and ``observe(into:)`` fill.
    var resetArrays: [ArraySpec] { get }
    /// The arrays that ``step(actions:into:skippingFinished:)`` fills.
    var stepArrays: [ArraySpec] { get }
    /// The arrays of each ended episode that ``restart(_:in:keeping:)`` fills: its lane, the arrays of a reset, and
    /// infos of the final board that a step also reports for the new one.
    var finalArrays: [ArraySpec] { get }
    /// The names of the reward's terms, in the order of `reward_terms`.
    var rewardTerms: [String] { get }
    /// The returns of the lanes' episodes; nil unless the extra info `episode_return` was requested.
    var returns: EpisodeReturns? { get }

    /// Starts new episodes in the lanes of the mask.
    func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError)

    /// Plays one action on each board; `actions` holds one byte per lane.
    ///
    /// With autoreset disabled a step of a finished lane is refused. With `skippingFinished` the lane waits
    /// instead: its rows repeat its last state, with reward 0, neither terminated nor truncated.
    func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool
    ) throws(EnvironmentError)

    /// Whether a lane's episode has ended and its next one has not begun.
    func isFinished(_ lane: Int) -> Bool

    /// Throws before the first reset.
    func checkSeeded() throws(EnvironmentError)

    /// Starts new episodes in single lanes, all different, after a step that has filled `arrays`; their
    /// streams continue. `finals`, the ``finalArrays`` with one row for each of `lanes`, gets the last rows of
    /// their old episodes. The reset arrays in `arrays`, and infos among the finals, get the first rows of the new
    /// ones; reward, flags and all other extra infos of the step stay.
    func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays)

    /// Writes the current state of all lanes again.
    func observe(into arrays: BatchArrays) throws(EnvironmentError)

    /// Writes each board's afterstate under each action.
    func afterstates(into arrays: BatchArrays) throws(EnvironmentError)

    /// Writes everything that the future of these lanes depends on, apart from ``returns``: ``recordSize`` bytes for
    /// each.
    func snapshot(_ lanes: [Int], into records: UnsafeMutableRawBufferPointer) throws(EnvironmentError)

    /// Puts records into lanes, and writes the current state of all lanes.
    func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError)
}

extension VectorEnvironment {
    /// Number of boards.
    public var lanes: Int { options.lanes }
    /// What happens to a lane whose episode has ended.
    public var autoreset: AutoresetMode { options.autoreset }
    /// The observations of one board.
    public var observationSpace: ObservationSpace { game.observationSpace }
    /// The board that ``ResetInput/boards`` has for one lane.
    public var boardSpace: ObservationSpace { game.boardSpace }
    /// The actions' names, in the order of their numbers.
    public var actions: [String] { game.actions }
    /// The arrays that ``afterstates(into:)`` fills; empty where the game has none.
    public var afterstateArrays: [ArraySpec] { game.afterstates }
    /// Bytes of one lane in a snapshot.
    public var recordSize: Int { game.recordSize }

    /// A step that refuses finished lanes where autoreset is disabled.
    public func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays
    ) throws(EnvironmentError) {
        try step(actions: actions, into: arrays, skippingFinished: false)
    }
}

// MARK: SAME_STEP

/// SAME_STEP autoreset follows the step instead of being a part of it, so that the kernel's loops and the
/// other modes know nothing of it:
///
///     step ──► ended lanes ──► keep their final rows, restart them, write their new rows ──► reply
extension VectorEnvironment {
    /// No infos but a reset's.
    public var finalArrays: [ArraySpec] { [ArraySpec("lanes", .uint64)] + resetArrays }

    /// The lanes of `range`, ascending, whose episode has ended in the step that has just filled `arrays`;
    /// ``restart(_:in:keeping:)`` takes them. All lanes without a range.
    public func endedLanes(in arrays: BatchArrays, among range: Range<Int>? = nil) -> [Int] {
        var ended: [Int] = []
        forEachEnded(in: arrays, among: range ?? 0..<lanes) { ended.append($0) }
        return ended
    }

    /// The number of all lanes that ``endedLanes(in:among:)`` returns.
    public func endedCount(in arrays: BatchArrays) -> Int {
        var count = 0
        forEachEnded(in: arrays, among: 0..<lanes) { _ in count += 1 }
        return count
    }

    /// Restarts all lanes that a step has ended, ``restart(_:in:keeping:)`` for some of them at a time, so that their
    /// list stays small. Returns their number.
    public func restartEnded(in arrays: BatchArrays, keeping finals: BatchArrays) -> Int {
        var count = 0
        for first in stride(from: 0, to: lanes, by: endedAtATime) {
            let ended = endedLanes(in: arrays, among: first..<min(lanes, first + endedAtATime))
            guard !ended.isEmpty else { continue }
            restart(ended, in: arrays, keeping: finals.dropping(arrays: 0, rows: count))
            count += ended.count
        }
        return count
    }

    @inline(__always)
    private func forEachEnded(in arrays: BatchArrays, among range: Range<Int>, _ body: (Int) -> Void) {
        let terminated = UnsafeRawPointer(arrays.address(array: resetArrays.count + 1, lane: 0))
        let truncated = UnsafeRawPointer(arrays.address(array: resetArrays.count + 2, lane: 0))
        var lane = range.lowerBound
        // Few episodes end at a time: look at eight lanes at once.
        while lane + 8 <= range.upperBound {
            let flags =
                terminated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
                | truncated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
            var rest = UInt64(littleEndian: flags)
            while rest != 0 {
                body(lane + rest.trailingZeroBitCount / 8)
                rest &= rest &- 1
            }
            lane += 8
        }
        while lane < range.upperBound {
            let flag =
                terminated.load(fromByteOffset: lane, as: UInt8.self)
                | truncated.load(fromByteOffset: lane, as: UInt8.self)
            if flag != 0 { body(lane) }
            lane += 1
        }
    }
}

/// Lanes that are listed at a time.
private let endedAtATime = 1 << 16

internal import Platform
internal import Synchronization
internal import TwofoldCore

/// The pass that finds the reachable boards, up to symmetry. It starts with the start boards and works in
/// layers of equal tile sum. A move preserves the tile sum, and a new tile raises it by 2 or 4.
///
///     layer s: every board ──move──► afterstates ──new tile──► boards of layers s + 2 and s + 4
///
/// One bit for each possible board records whether it was found before. When a layer is complete, its
/// playable boards are written to the log, and the bits of its other boards are cleared.
final class ForwardPass {
    private let rules: OptimumRules
    private let workers: Workers
    private let log: LayerLog
    /// The boards on which the game continues.
    let playable: BitSet
    /// The number of boards found, including terminal ones.
    private(set) var states = 0
    /// The number of boards without a legal action.
    private(set) var terminal = 0
    private var waiting: [Int: [UInt64]] = [:]

    /// The approximate time per board.
    private static let nanosecondsPerBoard = 500

    init(_ rules: OptimumRules, _ workers: Workers, _ log: LayerLog) throws(Reason) {
        self.rules = rules
        self.workers = workers
        self.log = log
        playable = try BitSet(numbers: rules.numbers.count)
    }

    /// Finds all boards that the log does not have yet, and calls `report` after each layer.
    func run(_ report: (_ tileSum: Int, _ states: Int) -> Void) throws {
        try resume()
        while let sum = waiting.keys.min() {
            var layer = expand(waiting.removeValue(forKey: sum)!, sum, beyond: sum)
            // Sorting makes the order independent of threads and interruptions, so all runs are bit-identical.
            layer.playable.sort()
            try log.append(tileSum: sum, ended: layer.ended, layer.playable)
            states += layer.playable.count + layer.ended
            terminal += layer.ended
            report(sum, states)
        }
        playable.seal()
    }

    /// Reads the layers of the log and marks their boards as found, then expands the last two layers again to
    /// find their successors. The last layers of a complete log have none. If a layer is missing, or its boards do not
    /// fit the problem, all layers from there on are cut off.
    private func resume() throws {
        let starts = rules.starts().map { (board: $0.board, tileSum: rules.tileSum($0.board)) }
        // No layer in between is empty: each board with a new 4 has a counterpart with a new 2.
        var expected = starts.map(\.tileSum).min()!
        let step = rules.problem.fourProbability < 1 ? 2 : 4
        for (index, layer) in log.layers.enumerated() {
            let boards = try log.boards(of: layer)
            guard layer.tileSum == expected, areValid(boards, layer.tileSum) else {
                try log.cut(to: index)
                break
            }
            expected += step
            let (numbers, playable) = (rules.numbers, playable)
            workers.run(lanes: boards.count, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
                for board in boards[range] { _ = playable.insert(numbers.number(board)) }
            }
            states += boards.count + layer.ended
            terminal += layer.ended
        }
        let last = log.layers.last?.tileSum ?? 0
        for (board, tileSum) in starts where tileSum > last {
            if playable.insert(rules.numbers.number(board)) { waiting[tileSum, default: []].append(board) }
        }
        for layer in log.layers.suffix(2) {
            _ = expand(try log.boards(of: layer), layer.tileSum, beyond: last)
        }
    }

    /// Returns true if these are canonical boards of this tile sum on which the game may continue.
    private func areValid(_ boards: [UInt64], _ tileSum: Int) -> Bool {
        let rules = rules
        let wrong = Atomic(false)
        workers.run(lanes: boards.count, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            if !boards[range].allSatisfy({ rules.isBoard($0, tileSum) }) {
                wrong.store(true, ordering: .relaxed)
            }
        }
        return !wrong.load(ordering: .relaxed)
    }

    /// The result of an expansion: the layer's playable boards, the number of its terminal boards, and its successors.
    private struct Layer {
        var playable: [UInt64] = []
        var ended = 0
        var following: [Int: [UInt64]] = [:]
    }

    /// Finds the successors of a layer's boards, and stores those with a tile sum above `beyond` in `waiting`.
    private func expand(_ boards: [UInt64], _ sum: Int, beyond: Int) -> Layer {
        let (rules, playable) = (rules, playable)
        let result = Mutex(Layer())
        workers.run(lanes: boards.count, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            var layer = Layer()
            var (byTwo, byFour): ([UInt64], [UInt64]) = ([], [])
            for board in boards[range] {
                var isOver = true
                rules.moves.forEachLegal(board) { _, afterstate, _ in
                    isOver = false
                    guard !rules.isEnd(afterstate) else { return }
                    rules.forEachNewTile(afterstate) { next, _, added in
                        guard sum + added > beyond else { return }
                        let next = rules.boards.canonical(next)
                        guard playable.insert(rules.numbers.number(next)) else { return }
                        if added == 2 { byTwo.append(next) } else { byFour.append(next) }
                    }
                }
                if isOver {
                    layer.ended += 1
                    playable.remove(rules.numbers.number(board))
                } else {
                    layer.playable.append(board)
                }
            }
            result.withLock {
                $0.playable += layer.playable
                $0.ended += layer.ended
                $0.following[sum + 2, default: []] += byTwo
                $0.following[sum + 4, default: []] += byFour
            }
        }
        let layer = result.withLock { $0 }
        for (sum, boards) in layer.following where !boards.isEmpty { waiting[sum, default: []] += boards }
        return layer
    }
}

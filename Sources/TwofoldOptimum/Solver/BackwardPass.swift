internal import Platform
internal import TwofoldCore

/// The pass that computes the optimal values, from the last layer back to the first:
///
///     value of an action = reward + Σ probability · value of the next board      (0 where play is over)
///     value of a board   = the largest value of its actions
///
/// The pass computes in Double. The table gets each action's value, rounded once to Float.
struct BackwardPass {
    let rules: OptimumRules
    let workers: Workers
    /// The boards of each layer, in ascending order of the tile sums.
    let log: LayerLog
    /// The table, whose records the pass writes.
    let table: OptimumTable

    /// The approximate time per board.
    private static let nanosecondsPerBoard = 1000

    /// Computes all values, and calls `report` after each layer. Returns the value of a new game.
    func run(_ report: (_ tileSum: Int, _ states: Int) -> Void) throws -> Double {
        let values = try BoardValues(count: table.records)
        var done = 0
        for layer in log.layers.reversed() {
            solve(try log.boards(of: layer), values)
            done += layer.count
            report(layer.tileSum, done)
        }
        return rules.starts().reduce(0) { sum, start in
            let rank = table.rank(rules.numbers.number(start.board))
            return rank < 0 ? sum : sum + start.probability * values[rank]
        }
    }

    private func solve(_ boards: [UInt64], _ values: BoardValues) {
        let (rules, table) = (rules, table)
        workers.run(lanes: boards.count, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            for board in boards[range] {
                var actions = SIMD4<Float>(repeating: -.infinity)
                var best = -Double.infinity
                rules.moves.forEachLegal(board) { action, afterstate, score in
                    let isEnd = rules.isEnd(afterstate)
                    var value = 0.0
                    if !isEnd {
                        rules.forEachNewTile(afterstate) { next, probability, _ in
                            let rank = table.rank(rules.numbers.number(rules.boards.canonical(next)))
                            if rank >= 0 { value += probability * values[rank] }
                        }
                    }
                    value += rules.reward(score: score, isEnd: isEnd)
                    actions[action] = Float(value)
                    best = max(best, value)
                }
                let rank = table.rank(rules.numbers.number(board))
                values[rank] = best
                table.setRecord(rank, to: actions)
            }
        }
    }
}

/// An array of numbers, one for each board, indexed by the board's rank.
///
/// This type holds the numbers' unsafe memory. `@unchecked Sendable` because workers write disjoint elements, and
/// read only elements of other layers.
final class BoardValues: @unchecked Sendable {
    private let memory: OwnedMemory
    private let values: UnsafeMutablePointer<Double>

    init(count: Int) throws(Reason) {
        memory = try OwnedMemory(byteCount: count * MemoryLayout<Double>.stride)
        values = memory.initialized(repeating: 0.0).baseAddress!
    }

    @inline(__always)
    subscript(rank: Int) -> Double {
        get { values[rank] }
        set { values[rank] = newValue }
    }
}

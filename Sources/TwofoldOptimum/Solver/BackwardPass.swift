internal import Platform
internal import TwofoldCore

/// The pass that computes the optimal values, from the last layer back to the first:
///
///     value of an action = reward + Σ probability · value of the next board      (0 where play is over)
///     value of a board   = the largest value of its actions
///
/// The pass computes in Double. The log stores each action's value, rounded once to Float, and the board's value.
struct BackwardPass {
    let rules: OptimumRules
    let workers: Workers
    /// The boards of each layer, in ascending order of the tile sums.
    let boards: LayerLog
    /// The boards' values, in the same order: four Floats and a Double for each board.
    let log: LayerLog
    let playable: BitSet
    /// The memory for the boards' values.
    let values: BoardValues

    static let rowBytes = 24
    /// The approximate time per board.
    private static let nanosecondsPerBoard = 1000

    /// Computes all values that the log does not have yet, and calls `report` after each layer. Returns the
    /// value of a new game.
    func run(_ report: (_ tileSum: Int, _ states: Int) -> Void) throws(SystemError) -> Double {
        var done = 0
        for (index, layer) in boards.layers.reversed().enumerated() {
            let states = try boards.rows(of: layer)
            if index < log.layers.count,
                log.layers[index].tileSum != layer.tileSum || log.layers[index].rows != layer.rows
            {
                // These values belong to other boards, and all later layers depend on them.
                try log.cut(to: index)
            }
            if index < log.layers.count {
                // The start boards are in several layers, so all values are needed.
                take(try log.rows(of: log.layers[index]), of: states)
            } else {
                let rows = try solve(states)
                try log.append(tileSum: layer.tileSum, rows: rows)
            }
            done += layer.rows
            report(layer.tileSum, done)
        }
        return rules.starts().reduce(0) { $0 + $1.probability * value($1.board) }
    }

    private func value(_ canonical: UInt64) -> Double {
        let rank = playable.ranked.rank(rules.numbers.number(canonical))
        return rank < 0 ? 0 : values[rank]
    }

    private func solve(_ states: LayerRows) throws(SystemError) -> LayerRows {
        let rows = try LayerRows(bytes: states.boardCount * Self.rowBytes)
        let (rules, ranked, values) = (rules, playable.ranked, values)
        workers.run(lanes: states.boardCount, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            for index in range {
                let board = states.board(index)
                var actions = SIMD4<Float>(repeating: -.infinity)
                var best = -Double.infinity
                rules.moves.forEachLegal(board) { action, afterstate, score in
                    let isEnd = rules.isEnd(afterstate)
                    var value = 0.0
                    if !isEnd {
                        rules.forEachNewTile(afterstate) { next, probability, _ in
                            let number = rules.numbers.number(rules.boards.canonical(next))
                            let rank = ranked.rank(number)
                            if rank >= 0 { value += probability * values[rank] }
                        }
                    }
                    value += rules.reward(score: score, isEnd: isEnd)
                    actions[action] = Float(value)
                    best = max(best, value)
                }
                values[ranked.rank(rules.numbers.number(board))] = best
                let row = rows.memory.baseAddress! + index * Self.rowBytes
                for action in 0..<4 {
                    row.storeBytes(of: actions[action], toByteOffset: 4 * action, as: Float.self)
                }
                row.storeBytes(of: best, toByteOffset: 16, as: Double.self)
            }
        }
        return rows
    }

    /// Copies a layer's values from the log into memory.
    private func take(_ rows: LayerRows, of states: LayerRows) {
        for index in 0..<states.boardCount {
            values[playable.ranked.rank(rules.numbers.number(states.board(index)))] =
                rows.memory.load(fromByteOffset: index * Self.rowBytes + 16, as: Double.self)
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

    init(count: Int) throws(SystemError) {
        memory = try OwnedMemory(count * MemoryLayout<Double>.stride)
        values = memory.initialized(repeating: 0.0).baseAddress!
    }

    @inline(__always)
    subscript(rank: Int) -> Double {
        get { values[rank] }
        set { values[rank] = newValue }
    }
}

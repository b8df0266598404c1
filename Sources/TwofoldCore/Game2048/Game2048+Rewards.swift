public import Kernel2048

extension KernelTerm: RewardTerm {
    public var isPotential: Bool {
        switch self {
        case .mergeScore, .mergeExponent, .mergeCount, .mergeTable, .newMaxTile, .goal, .survival,
            .illegalAction, .gameOver:
            false
        case .emptyCells, .monotonicity, .smoothness, .corner, .cellWeights, .tileSum: true
        }
    }
}

extension Game2048 {
    public typealias Term = KernelTerm

    /// The extra infos that a step reports if the user requests them.
    public enum ExtraInfo: String, CaseIterable, Sendable {
        /// The exponents of the merged tiles, each in its cell of the afterstate, with 0 in all other cells.
        case merges
        /// The spawn as one number: the cell of a new 2, the number of cells plus the cell of a new 4, or -1 if nothing
        /// spawned.
        case chance
        /// The board after slide and merge, before the spawn.
        case afterstates
    }

    /// One step: slide and merge, then the spawn.
    ///
    ///     before ──slide──► slide.afterstate ──spawn──► after
    public struct Transition: GameTransition {
        let direction: Direction
        let slide: Slide
        /// The new tile; nil for an illegal action.
        let spawn: Spawn?
        public let isTerminated: Bool

        public var reward: Float { Float(slide.mergeScore) }
    }

    /// The number of entries in a table with one entry per exponent. The last entry also applies to all larger
    /// exponents.
    static let exponentTableCount = 32

    public var defaultReward: RewardSpec { RewardSpec([.init(Term.mergeScore.rawValue)]) }

    public func table(of term: Term) -> RewardTable? {
        switch term {
        case .mergeTable: RewardTable(count: Game2048.exponentTableCount, isInteger: false, limit: 1e9)
        case .cellWeights: RewardTable(count: config.rows * config.columns, isInteger: true, limit: 10_000)
        default: nil
        }
    }

    // MARK: terms

    public func value(of term: Term, table: [Double], in move: Move<Game2048>) -> Double {
        let (slide, before, after) = (move.transition.slide, move.before.board, move.after.board)
        return switch term {
        case .mergeScore: Double(slide.mergeScore)
        case .mergeExponent: Double(slide.merges.exponentSum)
        case .mergeCount: Double(slide.mergeCount)
        case .mergeTable: tableSum(table, over: slide, towards: move.transition.direction)
        case .newMaxTile: after.maxExponent > before.maxExponent ? 1 : 0
        case .goal: after.maxExponent >= goalExponent && before.maxExponent < goalExponent ? 1 : 0
        case .survival: slide.moved && !move.transition.isTerminated ? 1 : 0
        case .illegalAction: slide.moved ? 0 : 1
        case .gameOver: move.transition.isTerminated ? 1 : 0
        case .emptyCells, .monotonicity, .smoothness, .corner, .cellWeights, .tileSum:
            preconditionFailure("\(term.rawValue) is a potential")
        }
    }

    /// Returns the sum of the table's entries for the merged tiles. Adds the entries line by line, each line starting
    /// at the wall. Every engine must add in this order, because the entries need not be integers and the rounding
    /// depends on the order.
    private func tableSum(_ table: [Double], over slide: Slide, towards direction: Direction) -> Double {
        var sum = 0.0
        for line in 0..<direction.lineCount(of: slide.merges) {
            for position in 0..<direction.lineLength(of: slide.merges) {
                let made = slide.merges[direction.cell(line: line, position: position, of: slide.merges)]
                if made != 0 { sum += table[min(Int(made), table.count - 1)] }
            }
        }
        return sum
    }

    public func potential(_ term: Term, table: [Double], of state: State) -> Double {
        let board = state.board
        let potential =
            switch term {
            case .emptyCells: board.emptyCount
            case .monotonicity: board.monotonicity
            case .smoothness: board.smoothness
            case .corner: board.cornerExponent
            case .cellWeights: board.weighted(by: table)
            case .tileSum: board.tileSum
            case .mergeScore, .mergeExponent, .mergeCount, .mergeTable, .newMaxTile, .goal, .survival,
                .illegalAction, .gameOver:
                preconditionFailure("\(term.rawValue) is not a potential")
            }
        return Double(potential)
    }

    // MARK: extra infos

    /// The key of an ``ExtraInfo``'s array.
    public enum ExtraKey: Sendable {
        case merges(ArrayKey<UInt8>)
        case chance(ArrayKey<Int32>)
        case afterstates(ArrayKey<UInt8>)
    }

    public func add(_ info: ExtraInfo, to arrays: inout ArrayList) -> ExtraKey {
        let board = [config.rows, config.columns]
        return switch info {
        case .merges: .merges(arrays.add(info.rawValue, shape: board))
        case .chance: .chance(arrays.add(info.rawValue))
        case .afterstates: .afterstates(arrays.add(info.rawValue, shape: board))
        }
    }

    public func write(_ key: ExtraKey, of move: Move<Game2048>?, to row: LaneRow) {
        switch key {
        case .merges(let key): write(move?.transition.slide.merges, to: row[key])
        case .afterstates(let key): write(move?.transition.slide.afterstate, to: row[key])
        case .chance(let key):
            let cells = config.rows * config.columns
            let spawn = move?.transition.spawn
            row.store(Int32(spawn.map { $0.exponent == 2 ? cells + $0.cell : $0.cell } ?? -1), key)
        }
    }

    private func write(_ board: Board?, to row: ArrayRow<UInt8>) {
        for cell in 0..<config.rows * config.columns { row.store(board?[cell] ?? 0, at: cell) }
    }
}

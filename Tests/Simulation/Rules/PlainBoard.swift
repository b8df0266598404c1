internal import TwofoldProtocol

/// One 2048 board.
struct PlainBoard: PlainGame {
    struct Rules: PlainRules {
        private(set) var rows = 4
        private(set) var columns = 4
        private(set) var startTiles = 2
        private(set) var goal = 2048
        private(set) var goalEnds = false
        private(set) var illegalEnds = false
        /// The threshold for new tiles: a random word below it gives a 4.
        private(set) var fours: UInt64
        /// The cells of each line for each action (0 up, 1 right, 2 down, 3 left), starting at the wall to
        /// which the tiles slide.
        private(set) var lines: [[[Int]]] = []

        init(_ create: CreateRequest) {
            let config = create.game2048
            if config.hasRows { rows = Int(config.rows) }
            if config.hasColumns { columns = Int(config.columns) }
            if config.hasGoal { goal = Int(config.goal) }
            if config.hasStartTiles { startTiles = Int(config.startTiles) }
            fours = UInt64((config.hasFourProbability ? config.fourProbability : 0.1) * 0x1p32 + 0.5)
            goalEnds = config.stopAtGoal
            illegalEnds = config.illegalAction == .terminate
            let (rows, columns) = (rows, columns)
            let across = (0..<rows).map { row in (0..<columns).map { row * columns + $0 } }
            let down = (0..<columns).map { column in (0..<rows).map { $0 * columns + column } }
            lines = [down, across.map { $0.reversed() }, down.map { $0.reversed() }, across]
        }

        var identity: [String] {
            [
                "2048", "\(rows)x\(columns)", "\(goal)", "\(goalEnds)", "\(fours)", "\(startTiles)",
                "\(illegalEnds)",
            ]
        }

        static let terms = [
            "merge_score", "merge_exponent", "merge_count", "merge_table", "new_max_tile", "goal", "survival",
            "illegal_action", "game_over", "empty_cells", "tile_sum", "cell_weights",
        ]
    }

    struct Move {
        let before: [UInt8]
        var after: [UInt8]
        let isLegal: Bool
        /// The exponents of the merged tiles, line by line, each line starting at the wall.
        let made: [UInt8]
    }

    /// A board after slide and merge, and its merged tiles.
    private struct Slid {
        var cells: [UInt8]
        var made: [UInt8] = []
        var reward: Int { made.reduce(0) { $0 + 1 << Int($1) } }
    }

    var rules: Rules
    private var cells: [UInt8] = []
    /// The board after each action, before the new tile.
    private var slid: [Slid] = []
    private var score = 0
    private var moves = 0

    init(_ rules: Rules) { self.rules = rules }

    let actionCount = 4
    var legalActions: [Int] { (0..<4).filter { slid[$0].cells != cells } }

    mutating func begin(_ stream: inout PlainStream) {
        cells = Array(repeating: 0, count: rules.rows * rules.columns)
        for _ in 0..<rules.startTiles { spawn(&stream) }
        begin(from: cells)
    }

    mutating func begin(from given: [UInt8]) {
        cells = given
        (score, moves) = (0, 0)
        slide()
    }

    mutating func play(_ action: Int, _ stream: inout PlainStream) -> Move {
        let (before, slid) = (cells, slid[action])
        guard slid.cells != before else {
            return Move(before: before, after: before, isLegal: false, made: [])
        }
        cells = slid.cells
        score += slid.reward
        moves += 1
        spawn(&stream)
        slide()
        return Move(before: before, after: cells, isLegal: true, made: slid.made)
    }

    func isTerminated(by move: Move) -> Bool {
        legalActions.isEmpty || (!move.isLegal && rules.illegalEnds) || (rules.goalEnds && isGoalReached)
    }

    func afterstate(_ action: Int) -> (cells: [UInt8], reward: Int)? {
        (slid[action].cells, slid[action].reward)
    }

    func bytes(of array: String) -> [UInt8]? {
        switch array {
        case "observation": cells
        case "score": plainBytes(Int32(score))
        case "max_exponent": [cells.max()!]
        case "moves": plainBytes(Int32(moves))
        case "goal_reached": [isGoalReached ? 1 : 0]
        default: nil
        }
    }

    private var isGoalReached: Bool { 1 << Int(cells.max()!) >= rules.goal }

    private mutating func spawn(_ stream: inout PlainStream) {
        let empty = cells.indices.filter { cells[$0] == 0 }
        let cell = empty[stream.next(below: empty.count)]
        cells[cell] = UInt64(stream.next()) < rules.fours ? 2 : 1
    }

    private mutating func slide() {
        slid = rules.lines.map { lines in
            var after = Slid(cells: [UInt8](repeating: 0, count: cells.count))
            for line in lines {
                // The next place in the line, and the tile before it if that tile can still merge.
                var (next, last) = (0, UInt8(0))
                for cell in line where cells[cell] > 0 {
                    if cells[cell] == last {
                        after.cells[line[next - 1]] = last + 1
                        after.made.append(last + 1)
                        last = 0
                    } else {
                        last = cells[cell]
                        after.cells[line[next]] = last
                        next += 1
                    }
                }
            }
            return after
        }
    }

    // MARK: rewards

    static let reward = [PlainTerm(name: "merge_score")]

    static func value(of term: PlainTerm, in move: Move, isTerminated: Bool, _ rules: Rules) -> Double? {
        func isAtGoal(_ cells: [UInt8]) -> Bool { 1 << Int(cells.max()!) >= rules.goal }
        func potential(_ rate: ([UInt8]) -> Double) -> Double {
            (isTerminated ? 0 : term.gamma * rate(move.after)) - rate(move.before)
        }
        switch term.name {
        case "merge_score": return move.made.reduce(0) { $0 + Double(1 << Int($1)) }
        case "merge_exponent": return move.made.reduce(0) { $0 + Double($1) }
        case "merge_count": return Double(move.made.count)
        case "merge_table": return move.made.reduce(0) { $0 + term.table[min(Int($1), 31)] }
        case "new_max_tile": return move.after.max()! > move.before.max()! ? 1 : 0
        case "goal": return isAtGoal(move.after) && !isAtGoal(move.before) ? 1 : 0
        case "survival": return move.isLegal && !isTerminated ? 1 : 0
        case "illegal_action": return move.isLegal ? 0 : 1
        case "game_over": return isTerminated ? 1 : 0
        case "empty_cells": return potential { Double($0.count { $0 == 0 }) }
        case "tile_sum": return potential { $0.reduce(0) { $0 + ($1 > 0 ? Double(1 << Int($1)) : 0) } }
        case "cell_weights":
            return potential { zip($0, term.table).reduce(0) { $0 + Double($1.0) * $1.1 } }
        default: return nil
        }
    }
}

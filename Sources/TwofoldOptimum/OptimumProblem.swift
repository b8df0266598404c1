public import TwofoldCore

/// An optimisation problem: a small 2048 board, the probabilities of new tiles, and the quantity to maximise.
public struct OptimumProblem: Hashable, Sendable {
    /// The quantity to maximise.
    public enum Objective: String, CaseIterable, Sendable {
        /// The expected score: the sum of the merged values.
        case score
        /// The expected number of legal moves.
        case moves
        /// The probability that a merge makes the goal tile.
        case goal
    }

    /// The numbers of rows and columns; the board has at most nine cells.
    public let rows: Int
    public let columns: Int
    /// The probability that a new tile is a 4.
    public let fourProbability: Double
    /// The number of tiles on a new board.
    public let startTiles: Int
    public let objective: Objective
    /// The exponent of the tile that ends the game: the goal of the objective `goal`, or the tile at which
    /// the game stops; 0 if no tile ends the game.
    public let endExponent: Int

    /// Makes the problem for a game. Throws if the game's optimum is not supported; the error names the argument.
    public init(_ config: Game2048.Config, _ objective: Objective) throws(EnvironmentError) {
        let cells = config.rows * config.columns
        guard cells <= PackedBoards.maxCells else {
            throw .invalid(
                "size",
                "size is \(config.rows) x \(config.columns); optimal play is available for at most "
                    + "\(PackedBoards.maxCells) cells")
        }
        let goal = config.goal.trailingZeroBitCount
        let isReachable = goal <= cells + 1
        guard objective != .goal || isReachable else {
            throw .invalid(
                "goal",
                "goal is \(config.goal); on \(config.rows) x \(config.columns) the highest tile is \(2 << cells)"
            )
        }
        let hasEnd = objective == .goal || (config.stopAtGoal && isReachable)
        guard !hasEnd || goal >= 3 else {
            throw .invalid(
                "goal",
                "goal is \(config.goal), which a start tile can already reach; it must be at least 8")
        }
        rows = config.rows
        columns = config.columns
        fourProbability = config.fourProbability
        startTiles = config.startTiles
        self.objective = objective
        endExponent = hasEnd ? goal : 0
    }

    var cells: Int { rows * columns }

    /// The largest exponent on a board where the game continues. With n cells, the maximum is n + 1: a tile with
    /// exponent k needs two tiles with exponent k - 1, and the smallest tile in such a chain can be a 4.
    var largestExponent: Int { endExponent == 0 ? cells + 1 : endExponent - 1 }

    /// The name of the table's file, and of the solver's working folder.
    var name: String {
        let end =
            switch objective {
            case .goal: "-goal\(1 << endExponent)"
            case .score, .moves:
                "-\(objective.rawValue)" + (endExponent == 0 ? "" : "-stop\(1 << endExponent)")
            }
        return "optimum-\(rows)x\(columns)\(end)-four\(fourProbability)-start\(startTiles)"
    }
}

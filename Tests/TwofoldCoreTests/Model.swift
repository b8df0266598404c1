@testable import TwofoldCore

/// A simple model of one lane of `twofold/Game2048-v0`. It implements slides, draws, reset, step and autoreset, and
/// shares only the generator with the engine.
struct Model {
    /// The lane's results from one call, under the names that users see.
    struct Results: Equatable {
        var observation: [UInt8]
        var mask: [UInt8]
        var episodeLength: Int
        var score: Int
        var maxExponent: Int
        var moves: Int
        var isGoalReached: Bool
        var reward: Float = 0
        var isTerminated = false
        var isTruncated = false
    }

    let config: Game2048.Config
    let maxEpisodeSteps: Int?
    private(set) var generator: Generator
    private(set) var board: [UInt8]
    private(set) var score = 0
    private(set) var moves = 0
    private(set) var episodeLength = 0
    private(set) var isTerminated = false
    private(set) var isTruncated = false

    var isFinished: Bool { isTerminated || isTruncated }

    /// Creates a lane and resets it.
    init(_ config: Game2048.Config, maxEpisodeSteps: Int? = nil, seed: UInt64) {
        self.config = config
        self.maxEpisodeSteps = maxEpisodeSteps
        generator = Generator(seed: seed)
        board = []
        reset()
    }

    mutating func reset(seed: UInt64? = nil, board given: [UInt8]? = nil) {
        if let seed { generator = Generator(seed: seed) }
        board = given ?? [UInt8](repeating: 0, count: config.rows * config.columns)
        (score, moves, episodeLength, isTerminated, isTruncated) = (0, 0, 0, false, false)
        if given == nil {
            for _ in 0..<config.startTiles { spawn() }
        }
    }

    /// Plays one step with NEXT_STEP autoreset, or with DISABLED while the episode has not ended.
    mutating func step(_ action: Int) -> Results {
        if isFinished {
            reset()
            return results
        }
        let slide = slide(action)
        episodeLength += 1
        if slide.moved {
            board = slide.exponents
            spawn()
            score += slide.score
            moves += 1
            isTerminated = mask.allSatisfy { $0 == 0 } || (config.stopAtGoal && isGoalReached)
        } else {
            isTerminated = config.illegalAction == .terminate
        }
        isTruncated = maxEpisodeSteps.map { episodeLength >= $0 } ?? false
        var results = results
        results.reward = slide.moved ? Float(slide.score) : 0
        return results
    }

    /// Plays one step with SAME_STEP autoreset. Returns its results, and the final results if the episode ended.
    mutating func sameStep(_ action: Int) -> (results: Results, final: Results?) {
        let last = step(action)
        guard isFinished else { return (last, nil) }
        reset()
        var results = results
        (results.reward, results.isTerminated, results.isTruncated) =
            (last.reward, last.isTerminated, last.isTruncated)
        return (results, last.state)
    }

    /// The results of the last call, with reward 0.
    var results: Results {
        Results(
            observation: board, mask: isTerminated ? [0, 0, 0, 0] : mask, episodeLength: episodeLength,
            score: score, maxExponent: Int(board.max()!), moves: moves, isGoalReached: isGoalReached,
            isTerminated: isTerminated, isTruncated: isTruncated)
    }

    func slide(_ action: Int) -> NaiveSlide {
        NaiveSlide(board, rows: config.rows, columns: config.columns, action: action)
    }

    private var mask: [UInt8] { (0..<4).map { slide($0).moved ? 1 : 0 } }
    private var isGoalReached: Bool { board.contains { 1 << Int($0) >= config.goal } }

    /// Spawns a tile as documented: the first word of the stream chooses the cell, the second word the value.
    private mutating func spawn() {
        let empty = board.indices.filter { board[$0] == 0 }
        let cellWord = UInt64(generator.next())
        let valueWord = Double(generator.next())
        let cell = empty[Int(cellWord * UInt64(empty.count) / 4_294_967_296)]
        board[cell] = valueWord < (config.fourProbability * 4_294_967_296).rounded() ? 2 : 1
    }
}

extension TestBatch {
    /// Returns a lane's results from the last step.
    func results(lane: Int = 0) -> Model.Results {
        var results = stateResults(lane: lane)
        results.reward = reward(lane: lane)
        results.isTerminated = isTerminated(lane: lane)
        results.isTruncated = isTruncated(lane: lane)
        return results
    }

    /// Returns the final results of the episode that the last step ended; SAME_STEP only.
    func final(lane: Int = 0) -> Model.Results? {
        guard let arrays = finals[lane] else { return nil }
        func integer(_ name: String) -> Int {
            arrays[name]!.enumerated().reduce(0) { $0 | Int($1.1) << ($1.0 * 8) }
        }
        return Model.Results(
            observation: arrays["observation"]!, mask: arrays["action_mask"]!,
            episodeLength: integer("episode_length"), score: integer("score"),
            maxExponent: integer("max_exponent"), moves: integer("moves"),
            isGoalReached: integer("goal_reached") == 1)
    }

    /// Returns a lane's results from the last call, without the results that only a step reports.
    func stateResults(lane: Int = 0) -> Model.Results {
        Model.Results(
            observation: observation(lane: lane), mask: mask(lane: lane),
            episodeLength: integer("episode_length", lane: lane), score: integer("score", lane: lane),
            maxExponent: byte("max_exponent", lane: lane), moves: integer("moves", lane: lane),
            isGoalReached: flag("goal_reached", lane: lane))
    }
}

extension Model.Results {
    /// The results, except the ones that only a step reports.
    var state: Model.Results {
        var state = self
        (state.reward, state.isTerminated, state.isTruncated) = (0, false, false)
        return state
    }
}

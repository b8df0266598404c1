public import Platform

/// The game 2048. Each move slides all tiles and merges equal tiles. Then a new tile spawns. The episode ends when no
/// action is legal.
public struct Game2048: Game {
    /// The arguments of the environment, with Twofold's defaults.
    public struct Config: Equatable, Sendable {
        /// The number of rows, 2 ... 8.
        public var rows = 4
        /// The number of columns, 2 ... 8.
        public var columns = 4
        /// The tile value that makes `goal_reached` true: a power of two in 4 ... 2^31.
        public var goal = 2048
        /// Whether reaching the goal terminates the episode.
        public var stopAtGoal = false
        /// The probability that a new tile is a 4, in 0 ... 1.
        public var fourProbability = 0.1
        /// The number of tiles on a new board, 1 ... cells - 1.
        public var startTiles = 2
        public var illegalAction = IllegalAction.noop

        public init() {}
    }

    /// The effect of an illegal action (one that would move no tile).
    public enum IllegalAction: Sendable {
        /// Nothing moves, no tile spawns and the reward is 0.
        case noop
        /// The episode terminates; the board does not change.
        case terminate
    }

    /// The state of one board.
    public struct State: Equatable, Sendable {
        public internal(set) var board: Board
        /// The sum of the values of all merged tiles in this episode.
        public internal(set) var score = 0
        /// The number of legal moves in this episode.
        public internal(set) var moves: Int32 = 0
        public internal(set) var legalActions = LegalActions()
    }

    /// The largest exponent that a start board from the client may have.
    public static let maxGivenExponent: UInt8 = 20

    public let config: Config
    let spawnLaw: SpawnLaw
    let goalExponent: UInt8

    /// Makes the game with these arguments. Throws if an argument is out of range. The error names the argument.
    public init(_ config: Config) throws(EnvironmentError) {
        guard Board.sides.contains(config.rows), Board.sides.contains(config.columns) else {
            throw .invalid("size", "size is \(config.rows) x \(config.columns); each side must be in 2...8")
        }
        guard config.goal >= 4, config.goal <= 1 << 31, config.goal.nonzeroBitCount == 1 else {
            throw .invalid("goal", "goal is \(config.goal); it must be a power of two in 4...2^31")
        }
        guard (0...1).contains(config.fourProbability) else {
            throw .invalid(
                "four_probability", "four_probability is \(config.fourProbability); it must be in 0...1")
        }
        guard (1...config.rows * config.columns - 1).contains(config.startTiles) else {
            throw .invalid(
                "start_tiles",
                "start_tiles is \(config.startTiles); on \(config.rows) x \(config.columns) it must be in "
                    + "1...\(config.rows * config.columns - 1)")
        }
        self.config = config
        spawnLaw = SpawnLaw(fourProbability: config.fourProbability)
        goalExponent = UInt8(config.goal.trailingZeroBitCount)
    }

    // MARK: the rules

    public func makeState() -> State {
        State(board: Board(rows: config.rows, columns: config.columns))
    }

    public func start(_ state: inout State, generator: inout Generator) {
        state = makeState()
        for _ in 0..<config.startTiles {
            state.board.place(spawnLaw.draw(on: state.board, generator: &generator))
        }
        state.legalActions = state.board.legalActions
    }

    public func step(_ state: inout State, action: Int, generator: inout Generator) -> Transition {
        let direction = Direction(rawValue: UInt8(action))!
        guard state.legalActions.contains(direction) else {
            return Transition(
                direction: direction, slide: Slide(staying: state.board), spawn: nil,
                isTerminated: config.illegalAction == .terminate || stopsAtGoal(state))
        }
        let slide = Slide(state.board, towards: direction)
        state.board = slide.afterstate
        let spawn = spawnLaw.draw(on: state.board, generator: &generator)
        state.board.place(spawn)
        // In an episode from a client's start board, the score can exceed Int32. It then saturates, as in the kernel.
        state.score = min(state.score + slide.mergeScore, Int(Int32.max))
        state.moves &+= 1
        state.legalActions = state.board.legalActions
        return Transition(
            direction: direction, slide: slide, spawn: spawn,
            isTerminated: state.legalActions.isEmpty || stopsAtGoal(state))
    }

    private func isGoalReached(_ state: State) -> Bool { state.board.maxExponent >= goalExponent }

    /// Returns true if the board has reached a goal that ends the episode. If the goal is 4, a start board may already
    /// hold it. In this case any step ends the episode, even one with an illegal action.
    private func stopsAtGoal(_ state: State) -> Bool { config.stopAtGoal && isGoalReached(state) }

    public func start(_ state: inout State, from observation: UnsafeRawBufferPointer) throws(Reason) {
        var fresh = makeState()
        for (cell, exponent) in observation.enumerated() {
            guard exponent <= Game2048.maxGivenExponent else {
                throw Reason(
                    "has exponent \(exponent) in cell \(cell); at most \(Game2048.maxGivenExponent) "
                        + "is allowed")
            }
            fresh.board[cell] = exponent
        }
        fresh.legalActions = fresh.board.legalActions
        guard !fresh.legalActions.isEmpty else { throw Reason("has no legal action") }
        guard !stopsAtGoal(fresh) else {
            throw Reason("already holds the goal, and stop_at_goal is set")
        }
        state = fresh
    }

    // MARK: observations and infos

    public var observationSpace: ObservationSpace {
        ObservationSpace(shape: [config.rows, config.columns], range: 0...31)
    }

    /// The names of the actions, in the order of their numbers: "up", "right", "down", "left". This order never
    /// changes.
    public static let actionNames = Direction.allCases.map { String(describing: $0) }

    public var actions: [String] { Game2048.actionNames }

    /// The keys of the info arrays.
    public struct Infos: Sendable {
        package let score: ArrayKey<Int32>
        package let maxExponent: ArrayKey<UInt8>
        package let moves: ArrayKey<Int32>
        package let goalReached: ArrayKey<Bool>
    }

    public func addInfos(to arrays: inout ArrayList) -> Infos {
        Infos(
            score: arrays.add("score"), maxExponent: arrays.add("max_exponent"), moves: arrays.add("moves"),
            goalReached: arrays.add("goal_reached"))
    }

    public var afterstates: AfterstateArrays? {
        AfterstateArrays(actions: 4, shape: [config.rows, config.columns])
    }

    public func write(
        _ state: State, isTerminated: Bool, _ keys: BatchKeys, _ infos: Infos, to row: LaneRow
    ) {
        let (observation, mask) = (row[keys.observation], row[keys.actionMask])
        for cell in 0..<state.board.count { observation.store(state.board[cell], at: cell) }
        let legal = isTerminated ? LegalActions() : state.legalActions
        for direction in Direction.allCases {
            mask.store(legal.contains(direction) ? 1 : 0, at: Int(direction.rawValue))
        }
        row.store(Int32(clamping: state.score), infos.score)
        row.store(state.board.maxExponent, infos.maxExponent)
        row.store(state.moves, infos.moves)
        row.store(isGoalReached(state), infos.goalReached)
    }

    /// Writes the afterstate of each action. An illegal action leaves the board unchanged, with reward 0. The mask is 0
    /// for illegal actions, and for all actions once the episode has terminated.
    public func writeAfterstates(
        of state: State, isTerminated: Bool, _ arrays: AfterstateArrays, to row: LaneRow
    ) {
        let boards = row[arrays.boards]
        for direction in Direction.allCases {
            let action = Int(direction.rawValue)
            let slide = Slide(state.board, towards: direction)
            for cell in 0..<state.board.count {
                boards.store(slide.afterstate[cell], at: action * state.board.count + cell)
            }
            row.store(Float(slide.mergeScore), arrays.rewards, at: action)
            row.store(slide.moved && !isTerminated ? 1 : 0, arrays.mask, at: action)
        }
    }
}

extension Game2048 {
    /// Makes a batch of boards with the engine that `options` selects. By default, this is the kernel for boards up to
    /// 4 x 4, and the readable rules for larger boards. Each of the additional `passes` writes infos that users can
    /// request.
    ///
    /// Throws if the reward or the extra infos are invalid.
    package func makeBatch(
        _ options: BatchOptions, passes: [any StepPass] = []
    ) throws(EnvironmentError) -> Batch {
        let kernel = Kernels.kernel(options.engine, rows: config.rows, columns: config.columns)
        return try Batch(self, options, passes: passes) { (plan) throws(EnvironmentError) in
            if let kernel { try KernelEngine(plan, kernel) } else { try GameEngine(plan) }
        }
    }
}

/// What a step reports of its transition on request: a declared reward, its terms, and the game's extra infos.
///
/// A lane that waits or starts an episode has no transition: reward and terms are 0, and each extra info has its value
/// for "nothing happened". Each engine writes them in its own way, as a ``StepPass``.
struct TransitionReport<Rules: Game>: Sendable {
    let program: RewardProgram<Rules>
    /// Each term's weighted part of the reward, before scale and clip; nil where it was not requested.
    private(set) var terms: ArrayKey<Float>?
    /// The game's requested infos, and the indices of their arrays.
    private(set) var infos: [(info: Rules.ExtraInfo, array: Int)] = []

    /// Throws with the name of the wrong part of the reward.
    init(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        program = try RewardProgram(options.reward, of: game)
    }

    /// Adds an info's array to those of a step. Returns false if the game has no such info.
    mutating func declare(_ name: String, _ game: Rules, in arrays: inout ArrayList) -> Bool {
        if name == Self.rewardTerms {
            terms = arrays.add(name, shape: [program.lines.count])
            return true
        }
        guard let info = Rules.ExtraInfo(rawValue: name) else { return false }
        infos.append((info, arrays.specs.count))
        arrays.add(game.array(of: info))
        return true
    }

    /// Whether there is nothing to report of a transition beyond the game's own reward.
    var isPlain: Bool { program.isDefault && terms == nil && infos.isEmpty }

    /// The extra info that every game has.
    private static var rewardTerms: String { "reward_terms" }

    /// All extra infos of the game.
    static var names: [String] {
        [rewardTerms, EpisodeReturns.name] + Rules.ExtraInfo.allCases.map(\.rawValue)
    }

    /// Writes the reward and the extra infos of a move.
    @inline(__always)
    func write(_ game: Rules, _ move: Move<Rules>, to row: LaneRow, reward: ArrayKey<Float>) {
        for (info, array) in infos { game.write(info, of: move, to: InfoRow(row: row, array: array)) }
        let value = program.reward(game, move) { term, value in
            if let terms { row.store(value, terms, at: term) }
        }
        row.store(value, reward)
    }

    /// Writes the extra infos of a lane that has not played its action.
    @inline(__always)
    func writeNone(_ game: Rules, to row: LaneRow) {
        for (info, array) in infos { game.write(info, of: nil, to: InfoRow(row: row, array: array)) }
        guard let terms else { return }
        for term in program.lines.indices { row.store(0, terms, at: term) }
    }
}

/// A played action: the board before it, the transition, and the board after it.
public struct Move<Rules: Game>: Sendable {
    let before: Rules.State
    let transition: Rules.Transition
    let after: Rules.State
}

/// The row of one lane in one extra info, to which a game writes it.
public struct InfoRow {
    let row: LaneRow
    let array: Int

    /// One element of the array.
    @inline(__always)
    public func store<Value: BitwiseCopyable>(_ value: Value, at element: Int = 0) {
        row.store(value, array: array, at: element)
    }
}

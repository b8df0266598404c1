/// The requested report on a step's transition: a declared reward, its terms, and the game's extra infos.
///
/// A lane that waits or starts an episode has no transition: its reward and terms are 0, and each extra info
/// has its value for "nothing happened".
struct TransitionReport<Rules: Game>: Sendable {
    let program: RewardProgram<Rules>
    /// The key of each term's weighted part of the reward, before scale and clip; nil if it was not
    /// requested.
    private(set) var terms: ArrayKey<Float>?
    /// The game's requested infos.
    private(set) var infos: [Rules.ExtraKey] = []

    /// Compiles the reward. Throws with the name of its invalid part.
    init(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        program = try RewardProgram(options.reward, of: game)
    }

    /// Adds an info's array to a step's arrays. Returns false if the game has no such info.
    mutating func declare(_ name: String, _ game: Rules, in arrays: inout ArrayList) -> Bool {
        if name == Self.rewardTerms {
            terms = arrays.add(name, shape: [program.lines.count])
            return true
        }
        guard let info = Rules.ExtraInfo(rawValue: name) else { return false }
        infos.append(game.add(info, to: &arrays))
        return true
    }

    /// Whether the report has only the game's own reward.
    var isPlain: Bool { program.isDefault && terms == nil && infos.isEmpty }

    /// The extra info that every game has.
    private static var rewardTerms: String { "reward_terms" }

    /// All extra infos of the game.
    static var names: [String] {
        [rewardTerms, EpisodeReturns.name] + Rules.ExtraInfo.allCases.map(\.rawValue)
    }

    /// Writes the terms and the extra infos of a move, and returns its reward.
    @inline(__always)
    func write(_ game: Rules, _ move: Move<Rules>, to row: LaneRow) -> Float {
        for key in infos { game.write(key, of: move, to: row) }
        return program.reward(game, move) { term, value in
            if let terms { row.store(value, terms, at: term) }
        }
    }

    /// Writes the extra infos of a lane that has not played its action.
    @inline(__always)
    func writeNone(_ game: Rules, to row: LaneRow) {
        for key in infos { game.write(key, of: nil, to: row) }
        guard let terms else { return }
        for term in program.lines.indices { row.store(0, terms, at: term) }
    }
}

/// A played action with the board before it, the transition, and the board after it.
public struct Move<Rules: Game>: Sendable {
    let before: Rules.State
    let transition: Rules.Transition
    let after: Rules.State
}

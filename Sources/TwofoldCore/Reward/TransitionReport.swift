/// The requested report on a step's transition: a declared reward, its terms, and the game's extra infos.
///
/// A lane that waits or starts an episode has no transition: its reward and terms are 0, and each extra info
/// has the value that means "nothing happened".
struct TransitionReport<Rules: Game>: Sendable {
    let program: RewardProgram<Rules>
    /// The key of the extra info `reward_terms`, the weighted value of each term before scaling and clipping; nil if
    /// the info was not requested.
    private(set) var terms: ArrayKey<Float>?
    /// The keys of the requested game-specific extra infos.
    private(set) var infos: [Rules.ExtraKey] = []

    /// Compiles the reward. Throws if a part of it is invalid; the error names this part.
    init(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        program = try RewardProgram(options.reward, of: game)
    }

    /// Adds the array of an extra info to the arrays of a step. Returns false if the game has no such info.
    mutating func declare(_ name: String, _ game: Rules, in arrays: inout ArrayList) -> Bool {
        if name == Self.rewardTerms {
            terms = arrays.add(name, shape: [program.lines.count])
            return true
        }
        guard let info = Rules.ExtraInfo(rawValue: name) else { return false }
        infos.append(game.add(info, to: &arrays))
        return true
    }

    /// Whether the report has only the game's default reward, without extra infos.
    var isPlain: Bool { program.isDefault && terms == nil && infos.isEmpty }

    /// The name of the extra info that reports the weighted value of each term.
    private static var rewardTerms: String { "reward_terms" }

    /// The names of all extra infos of the game.
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

    /// Writes the extra infos of a lane that did not play its action in this step.
    @inline(__always)
    func writeNone(_ game: Rules, to row: LaneRow) {
        for key in infos { game.write(key, of: nil, to: row) }
        guard let terms else { return }
        for term in program.lines.indices { row.store(0, terms, at: term) }
    }
}

/// The board before an action, the transition that the action caused, and the board after it.
public struct Move<Rules: Game>: Sendable {
    let before: Rules.State
    let transition: Rules.Transition
    let after: Rules.State
}

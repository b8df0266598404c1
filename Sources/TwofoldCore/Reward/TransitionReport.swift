/// The requested report on a step's transition: a declared reward, its terms, and the game's extra infos.
///
/// It runs only on request. A lane that waits or starts an episode has no transition: reward and terms are
/// 0, and each extra info has its value for "nothing happened".
struct TransitionReport<Rules: Game>: Sendable {
    /// One array of `extra_infos`.
    enum Info: Sendable {
        case rewardTerms
        /// Not of the transition alone: ``EpisodeReturns`` fills it.
        case episodeReturn
        case ofGame(Rules.ExtraInfo)
    }

    let program: RewardProgram<Rules>
    /// The arrays of the extra infos, in the requested order, behind the usual arrays of a step.
    let arrays: [ArraySpec]
    /// The source of each of them.
    let infos: [Info]

    /// Throws with the name of the wrong part of the reward or of the extra infos.
    init(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        program = try RewardProgram(options.reward, of: game)
        var infos: [Info] = []
        var arrays: [ArraySpec] = []
        for name in options.extraInfos {
            guard !arrays.contains(where: { $0.name == name }) else {
                throw .invalid("extra_infos", "extra_infos has '\(name)' twice")
            }
            if name == Self.rewardTerms {
                infos.append(.rewardTerms)
                arrays.append(ArraySpec(name, .float32, shape: [program.lines.count]))
            } else if name == EpisodeReturns.name {
                infos.append(.episodeReturn)
                arrays.append(EpisodeReturns.spec)
            } else if let info = Rules.ExtraInfo(rawValue: name) {
                infos.append(.ofGame(info))
                arrays.append(game.array(of: info))
            } else {
                throw .invalid(
                    "extra_infos",
                    "extra_infos has '\(name.prefix(100))', which this environment does not have; it has "
                        + Self.names.joined(separator: ", "))
            }
        }
        self.infos = infos
        self.arrays = arrays
    }

    /// Whether there is nothing to report of a transition beyond the game's own reward.
    var isPlain: Bool {
        program.isDefault && infos.allSatisfy { if case .episodeReturn = $0 { true } else { false } }
    }

    /// The extra info that every game has: each term's weighted part of the reward, before scale and clip.
    static var rewardTerms: String { "reward_terms" }

    /// All extra infos of the game.
    static var names: [String] {
        [rewardTerms, EpisodeReturns.name] + Rules.ExtraInfo.allCases.map(\.rawValue)
    }

    /// Writes the extra infos of one step, from array `first` on, and returns the reward.
    @inline(__always)
    func write(
        _ game: Rules, from before: Rules.State, action: Int, to after: Rules.State, isTerminated: Bool,
        row: LaneRow, first: Int
    ) -> Float {
        let transition = game.transition(
            from: before, action: action, to: after, isTerminated: isTerminated)
        var terms: Int?
        for (index, info) in infos.enumerated() {
            switch info {
            case .rewardTerms: terms = first + index
            case .episodeReturn: break
            case .ofGame(let info):
                game.write(info, of: transition, to: InfoRow(row: row, array: first + index))
            }
        }
        return program.reward(game, transition, from: before, to: after, isTerminated: isTerminated) {
            term, value in
            if let terms { row.store(value, array: terms, at: term) }
        }
    }

    /// Writes the extra infos of a lane that has not played its action.
    @inline(__always)
    func writeNone(_ game: Rules, row: LaneRow, first: Int) {
        for (index, info) in infos.enumerated() {
            switch info {
            case .rewardTerms:
                for term in program.lines.indices { row.store(Float(0), array: first + index, at: term) }
            case .episodeReturn: break
            case .ofGame(let info):
                game.write(info, of: nil, to: InfoRow(row: row, array: first + index))
            }
        }
    }
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

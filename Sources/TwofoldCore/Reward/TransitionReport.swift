/// What a step tells of its transition on request: a declared reward, its terms, and the game's extra infos.
///
/// A step that asks for none of it does not come here at all. A lane that only waits for its autoreset has
/// no transition: reward and terms are 0, and each extra info has the value that stands for "none".
struct TransitionReport<Rules: Game>: Sendable {
    /// One array of `extra_infos`.
    enum Info: Sendable {
        case rewardTerms
        case ofGame(Rules.ExtraInfo)
    }

    let program: RewardProgram<Rules>
    /// The arrays of the extra infos, which a step tells after all others, in the order asked for.
    let arrays: [ArraySpec]
    /// What each of them is.
    let infos: [Info]

    /// Throws with the name of what is wrong in the reward or in the extra infos.
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
            } else if let info = Rules.ExtraInfo(rawValue: name) {
                infos.append(.ofGame(info))
                arrays.append(game.array(of: info))
            } else {
                throw .invalid(
                    "extra_infos",
                    "extra_infos has '\(name.prefix(100))', which this environment does not tell; it has "
                        + Self.names.joined(separator: ", "))
            }
        }
        self.infos = infos
        self.arrays = arrays
    }

    /// Whether a step tells nothing that it does not tell anyway.
    var isPlain: Bool { program.isDefault && infos.isEmpty }

    /// The extra info that every game has: each term's weighted part of the reward, before scale and clip.
    static var rewardTerms: String { "reward_terms" }

    /// All extra infos of the game.
    static var names: [String] { [rewardTerms] + Rules.ExtraInfo.allCases.map(\.rawValue) }

    /// Writes the extra infos of one step, from array `first` on, and returns the reward.
    @inline(__always)
    func tell(
        _ game: Rules, from before: Rules.State, action: Int, to after: Rules.State, isTerminated: Bool,
        row: LaneRow, first: Int
    ) -> Float {
        let transition = game.transition(
            from: before, action: action, to: after, isTerminated: isTerminated)
        var terms: Int?
        for (index, info) in infos.enumerated() {
            switch info {
            case .rewardTerms: terms = first + index
            case .ofGame(let info):
                game.write(info, of: transition, to: InfoRow(row: row, array: first + index))
            }
        }
        return program.reward(game, transition, from: before, to: after, isTerminated: isTerminated) {
            term, value in
            if let terms { row.store(value, array: terms, at: term) }
        }
    }

    /// Writes the extra infos of a lane that began a new episode instead of playing its action.
    @inline(__always)
    func tellNone(_ game: Rules, row: LaneRow, first: Int) {
        for (index, info) in infos.enumerated() {
            switch info {
            case .rewardTerms:
                for term in program.lines.indices { row.store(Float(0), array: first + index, at: term) }
            case .ofGame(let info):
                game.write(info, of: nil, to: InfoRow(row: row, array: first + index))
            }
        }
    }
}

/// The row of one lane in one extra info: what a game writes it to.
public struct InfoRow {
    let row: LaneRow
    let array: Int

    /// One element of the array.
    @inline(__always)
    public func store<Value: BitwiseCopyable>(_ value: Value, at element: Int = 0) {
        row.store(value, array: array, at: element)
    }
}

/// The maximum number of terms in a spec.
private let maxTerms = 32
/// The largest allowed magnitude of a number in a spec. It keeps rewards within the range of Float.
private let limit = 1e9

/// A ``RewardSpec`` compiled for one game. The initialiser checks the spec's names and numbers once.
struct RewardProgram<Rules: Game>: Sendable {
    /// One compiled term.
    struct Line: Sendable {
        let term: Rules.Term
        let weight: Double
        /// The discount of a potential term; 1 for other terms.
        let gamma: Double
        /// The term's table; empty for a term without a table.
        let table: [Double]
    }

    let lines: [Line]
    let scale: Double
    let low: Double
    let high: Double
    /// Whether this is the default reward of the game.
    let isDefault: Bool

    /// Compiles a spec; nil means the default reward of the game. Throws if a part of the spec is invalid. The error
    /// names this part, for example "reward.empty_cells.gamma".
    init(_ spec: RewardSpec?, of game: Rules) throws(EnvironmentError) {
        let defaultSpec = game.defaultReward
        let spec = spec ?? defaultSpec
        guard (1...maxTerms).contains(spec.terms.count) else {
            throw .invalid(
                "reward", "the reward has \(spec.terms.count) terms; it must have 1...\(maxTerms)")
        }
        var lines: [Line] = []
        for term in spec.terms { lines.append(try Line(term, of: game)) }
        self.lines = lines
        scale = try checked(spec.scale, "reward.scale", of: "the reward")
        low = try spec.clipLow.checkedClip(or: -.infinity)
        high = try spec.clipHigh.checkedClip(or: .infinity)
        guard low <= high else {
            throw .invalid(
                "reward.clip",
                "the reward's clip is \(low) ... \(high); the lower bound must not exceed the upper bound")
        }
        isDefault = spec == defaultSpec
    }

    /// The names of the terms, in the order of the columns of `reward_terms`.
    var names: [String] { lines.map(\.term.rawValue) }

    /// Returns the reward of one move, and calls `report` with the weighted value of each term.
    ///
    /// Adding 0.0 turns -0.0 into 0.0, so that equal rewards have equal bytes.
    @inline(__always)
    func reward(
        _ game: Rules, _ move: Move<Rules>, report: (_ term: Int, _ value: Float) -> Void
    ) -> Float {
        var sum = 0.0
        for index in lines.indices {
            let line = lines[index]
            let value: Double
            if line.term.isPotential {
                let next =
                    move.transition.isTerminated
                    ? 0 : game.potential(line.term, table: line.table, of: move.after)
                value = line.gamma * next - game.potential(line.term, table: line.table, of: move.before)
            } else {
                value = game.value(of: line.term, table: line.table, in: move)
            }
            let weighted = line.weight * value + 0.0
            sum += weighted
            report(index, Float(weighted))
        }
        let scaled = sum * scale + 0.0
        return Float(scaled < low ? low : scaled > high ? high : scaled)
    }
}

extension RewardProgram.Line {
    fileprivate init(_ declared: RewardSpec.Term, of game: Rules) throws(EnvironmentError) {
        let name = declared.name
        guard let term = Rules.Term(rawValue: name) else {
            let known = Rules.Term.allCases.map(\.rawValue).joined(separator: ", ")
            throw .invalid(
                "reward.\(name.prefix(100))",
                "this environment has no reward term '\(name.prefix(100))'; it has \(known)")
        }
        self.term = term
        weight = try checked(declared.weight, "reward.\(name).weight", of: name)
        let shape = game.table(of: term)
        let taken = ["weight"] + (term.isPotential ? ["gamma"] : []) + (shape == nil ? [] : ["table"])
        var given: [String: [Double]] = [:]
        for parameter in declared.parameters {
            guard taken.contains(parameter.name), parameter.name != "weight" else {
                throw .invalid(
                    "reward.\(name).\(parameter.name.prefix(100))",
                    "\(name) takes no '\(parameter.name.prefix(100))'; it takes "
                        + taken.joined(separator: ", "))
            }
            guard given.updateValue(parameter.values, forKey: parameter.name) == nil else {
                throw .invalid("reward.\(name).\(parameter.name)", "\(name) has '\(parameter.name)' twice")
            }
        }
        gamma = term.isPotential ? try Self.gamma(given["gamma"], of: name) : 1
        table =
            try shape.map { (shape) throws(EnvironmentError) in
                try Self.table(given["table"], shape, of: name)
            } ?? []
    }

    private static func gamma(_ given: [Double]?, of name: String) throws(EnvironmentError) -> Double {
        guard let given else {
            throw .invalid(
                "reward.\(name).gamma",
                "\(name) is a potential and needs gamma, the learner's discount, in 0...1")
        }
        guard given.count == 1, (0...1).contains(given[0]) else {
            let shown = given.count == 1 ? "\(given[0])" : "a list of \(given.count) numbers"
            throw .invalid(
                "reward.\(name).gamma", "gamma of \(name) is \(shown); it must be one number in 0...1")
        }
        return given[0]
    }

    private static func table(
        _ given: [Double]?, _ shape: RewardTable, of name: String
    ) throws(EnvironmentError) -> [Double] {
        let field = "reward.\(name).table"
        guard let given, given.count == shape.count else {
            throw .invalid(
                field, "the table of \(name) has \(given?.count ?? 0) entries; it must have \(shape.count)")
        }
        for (index, entry) in given.enumerated() {
            guard abs(entry) <= shape.limit, !shape.isInteger || entry == entry.rounded() else {
                let kind = shape.isInteger ? "an integer" : "a number"
                throw .invalid(
                    field,
                    "entry \(index) of the table of \(name) is \(entry); it must be \(kind) in "
                        + "-\(Int(shape.limit))...\(Int(shape.limit))")
            }
        }
        return given
    }
}

/// Returns `value`. Throws if it is NaN or outside -`limit` ... `limit`.
private func checked(_ value: Double, _ field: String, of owner: String) throws(EnvironmentError) -> Double {
    guard abs(value) <= limit else {
        let name = field.split(separator: ".").last!
        throw .invalid(
            field,
            "\(name) of \(owner) is \(value); it must be a number in -\(Int(limit))...\(Int(limit))")
    }
    return value
}

extension Double? {
    /// Returns this clipping bound, or `open` if it is nil. Throws if the bound is invalid.
    fileprivate func checkedClip(or open: Double) throws(EnvironmentError) -> Double {
        guard let self else { return open }
        return try checked(self, "reward.clip", of: "the reward") + 0.0
    }
}

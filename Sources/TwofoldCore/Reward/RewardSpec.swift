/// A declared reward: a weighted sum of terms, which is then scaled and clipped.
///
///     reward = clip(scale · (weight₁ · term₁ + weight₂ · term₂ + …))
///
/// The terms are summed in declared order in Double. The sum is scaled, clipped and then rounded once to Float, so
/// every engine gives the same bytes. Each game has its own terms; docs/environments/rewards.md has their formulas.
public struct RewardSpec: Equatable, Sendable {
    /// One term of the reward.
    public struct Term: Equatable, Sendable {
        /// The term's name, for example "merge_score".
        public var name: String
        /// The factor by which the term's value is multiplied.
        public var weight: Double
        /// The term's other arguments: "gamma" for a potential, and "table" for a term with a table.
        public var parameters: [Parameter]

        public init(_ name: String, weight: Double = 1, parameters: [Parameter] = []) {
            self.name = name
            self.weight = weight
            self.parameters = parameters
        }

        /// Makes a potential term. `gamma` is the learner's discount. `table` is the term's table, if it has one.
        public init(_ name: String, weight: Double = 1, gamma: Double, table: [Double]? = nil) {
            self.init(name, weight: weight, parameters: [Parameter("gamma", [gamma])])
            if let table { parameters.append(Parameter("table", table)) }
        }
    }

    /// One named argument of a term.
    public struct Parameter: Equatable, Sendable {
        public var name: String
        /// The argument's numbers. A single number is a one-element list.
        public var values: [Double]

        public init(_ name: String, _ values: [Double]) {
            self.name = name
            self.values = values
        }
    }

    /// The terms, in the order in which they are summed.
    public var terms: [Term]
    /// The factor by which the weighted sum is multiplied.
    public var scale = 1.0
    /// The lower bound of the scaled reward; nil means no bound.
    public var clipLow: Double?
    /// The upper bound of the scaled reward; nil means no bound.
    public var clipHigh: Double?

    /// Makes a reward from these terms, without scaling or clipping.
    public init(_ terms: [Term]) { self.terms = terms }
}

/// The reward terms of a game: an enum whose raw values are the names that users write.
public protocol RewardTerm: RawRepresentable<String>, CaseIterable, Equatable, Sendable {
    /// Whether the term has the form F = gamma · phi(s') - phi(s) with a potential phi. Such a term does not change the
    /// optimal policy (Ng, Harada, Russell: Policy invariance under reward transformations, ICML 1999).
    var isPotential: Bool { get }
}

/// The shape and range of a reward term's table.
public struct RewardTable: Equatable, Sendable {
    public let count: Int
    /// Whether the entries must be integers.
    public let isInteger: Bool
    /// The largest allowed magnitude of an entry.
    public let limit: Double
}

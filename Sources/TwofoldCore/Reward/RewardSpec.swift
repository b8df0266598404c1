/// A declared reward: terms that add up, then a scale, then a clip.
///
///     reward = clip(scale · (weight₁ · term₁ + weight₂ · term₂ + …))
///
/// Terms never overwrite each other. They are summed in declared order in Double, scaled, clipped and then
/// rounded once to Float, so every engine gives the same bytes. Each game has its own terms;
/// docs/environments/rewards.md has their formulas.
public struct RewardSpec: Equatable, Sendable {
    /// One term of the declaration.
    public struct Term: Equatable, Sendable {
        /// The term's name: "merge_score".
        public var name: String
        /// The factor of the term's value.
        public var weight: Double
        /// The term's other arguments by name: "gamma" of a potential, "table" of a term with a table. A
        /// number is a list of one element.
        public var parameters: [Parameter]

        /// Makes a term with its weight and parameters.
        public init(_ name: String, weight: Double = 1, parameters: [Parameter] = []) {
            self.name = name
            self.weight = weight
            self.parameters = parameters
        }

        /// Makes a potential term with the learner's discount, and its table if it has one.
        public init(_ name: String, weight: Double = 1, gamma: Double, table: [Double]? = nil) {
            self.init(name, weight: weight, parameters: [Parameter("gamma", [gamma])])
            if let table { parameters.append(Parameter("table", table)) }
        }
    }

    /// One named argument of a term.
    public struct Parameter: Equatable, Sendable {
        /// Its name.
        public var name: String
        /// Its numbers.
        public var values: [Double]

        /// Makes a parameter with its numbers.
        public init(_ name: String, _ values: [Double]) {
            self.name = name
            self.values = values
        }
    }

    /// The terms, in the order in which they are summed.
    public var terms: [Term]
    /// The factor of the sum.
    public var scale = 1.0
    /// The lower bound of the scaled reward; nil for none.
    public var clipLow: Double?
    /// The upper bound of the scaled reward; nil for none.
    public var clipHigh: Double?

    /// Makes a reward of these terms without scale or clip.
    public init(_ terms: [Term]) { self.terms = terms }
}

/// The reward terms of a game: an enum whose raw values are the names that users write.
public protocol RewardTerm: RawRepresentable<String>, CaseIterable, Equatable, Sendable {
    /// Whether the term is F = gamma · phi(s') - phi(s) of a potential phi. Such a term does not change the
    /// optimal policy (Ng, Harada, Russell: Policy invariance under reward transformations, ICML 1999).
    var isPotential: Bool { get }
}

/// The shape and range of a reward term's table.
public struct RewardTable: Equatable, Sendable {
    /// Its length.
    public let count: Int
    /// Whether its entries must be integers in -`limit` ... `limit`.
    public let isInteger: Bool
    /// The largest magnitude of an entry.
    public let limit: Double
}

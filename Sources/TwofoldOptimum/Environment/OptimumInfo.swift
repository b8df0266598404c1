/// The infos of a step that come from a table of the optimum.
public enum OptimumInfo: String, CaseIterable, Sendable {
    /// The value of the board that the step returns, float32: what optimal play still gets on average; 0 once the
    /// episode has terminated, NaN for a board that no game reaches.
    case value = "optimal_value"
    /// The value of each action there, float32 (4): optimal play after it; -infinity for an illegal one.
    case actions = "action_values"
    /// What the step's action has cost, float32: the value of the board before, less that of the action. 0 where no
    /// action was played.
    case regret

    /// The names that users write.
    public static let names = allCases.map(\.rawValue)
}

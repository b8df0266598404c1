/// The infos of a step that come from a table of optimal values.
public enum OptimumInfo: String, CaseIterable, Sendable {
    /// The value of the returned board, float32: the average result of optimal play from it. It is 0 once the
    /// episode has terminated, and NaN for a board that no game reaches.
    case value = "optimal_value"
    /// The value of each action on the returned board, float32 (4): the average result of the action followed by
    /// optimal play. It is -infinity for an illegal action.
    case actions = "action_values"
    /// The cost of the step's action, float32: the value of the board before the step minus the action's
    /// value. It is 0 if no action was played.
    case regret

    /// The names of the infos, as users write them.
    public static let names = allCases.map(\.rawValue)
}

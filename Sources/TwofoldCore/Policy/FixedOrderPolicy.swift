/// A policy that takes the legal action with the lowest number. If no action is legal, it takes action 0.
public final class FixedOrderPolicy: Policy {
    /// Makes the policy. It has no state and ignores the random words.
    public init() {}

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        for lane in 0..<view.lanes {
            let mask = view.masks + lane * view.actionCount
            var action = 0
            while action < view.actionCount, mask.load(fromByteOffset: action, as: UInt8.self) == 0 {
                action += 1
            }
            view.choose(action < view.actionCount ? action : 0, lane: lane)
        }
    }
}

/// The policy that takes the legal action with the lowest number; 0 if none is legal.
public final class FixedOrderPolicy: Policy {
    /// Makes a policy without state, which ignores the drawn words.
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

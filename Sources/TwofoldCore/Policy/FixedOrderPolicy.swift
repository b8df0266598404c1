/// The legal action with the lowest number; 0 where none is legal.
public final class FixedOrderPolicy: Policy {
    /// A policy without state; it leaves the drawn words unused.
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

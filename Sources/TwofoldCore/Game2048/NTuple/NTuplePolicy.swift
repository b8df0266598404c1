/// A policy that maximises the reward plus the value of the afterstate, as given by an n-tuple network. If several
/// actions are equally good, it takes the one with the lowest number.
public final class NTuplePolicy: Policy {
    private let network: NTupleNetwork
    private let afterstates: AfterstateMemory
    private let workers: Workers

    /// Makes the policy. Throws if the game has no afterstates, or the network is incomplete.
    public init(
        _ batch: Batch, _ network: NTupleNetwork, workers: Workers
    ) throws(EnvironmentError) {
        guard network.isComplete else {
            throw .precondition(
                "policy",
                "\(network.received) of \(network.bytes) bytes of the network's weights have arrived: send the rest"
            )
        }
        self.network = network
        afterstates = try AfterstateMemory(batch, policy: "ntuple", for: "policy")
        self.workers = workers
    }

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        try afterstates.fill(from: view.batch)
        let (network, afterstates) = (network, afterstates)
        // A lane takes less than a microsecond, so the search runs groups of 64 lanes.
        let groups = (view.lanes + 63) / 64
        try workers.search(lanes: groups, until: deadline) { group, _ in
            NTupleBlock.with(network.features) { block in
                let lanes = group * 64..<min(view.lanes, group * 64 + 64)
                block.forEachBest(lanes, of: afterstates, with: network.values) { lane, best in
                    view.choose(best?.action ?? 0, lane: lane)
                }
            }
            return true
        }
    }
}

/// A policy that maximises the reward of the next move. Among n equally good actions, it takes the k-th, counted from
/// 0, where k = (word x n) >> 32. `word` is the lane's random word.
public final class GreedyPolicy: Policy {
    private let afterstates: AfterstateMemory

    /// Makes the policy. Throws if the game has no afterstates.
    public init(_ batch: Batch) throws(EnvironmentError) {
        afterstates = try AfterstateMemory(batch, policy: "greedy", for: "policy")
    }

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        try afterstates.fill(from: view.batch)
        for lane in 0..<view.lanes {
            var best = -Float.infinity
            var ties = 0
            view.forEachLegal(lane) { action in
                let reward = afterstates.reward(lane, action)
                if reward > best { ties = 0 }
                if reward >= best { ties += 1 }
                best = max(best, reward)
            }
            var skip = pick(view.words[lane], of: ties)
            var chosen = 0
            view.forEachLegal(lane) { action in
                guard afterstates.reward(lane, action) == best else { return }
                if skip == 0 { chosen = action }
                skip -= 1
            }
            view.choose(chosen, lane: lane)
        }
    }
}

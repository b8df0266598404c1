internal import CLinux
internal import UniformChoice

#if canImport(UniformChoiceAVX2)
internal import UniformChoiceAVX2
#endif

/// Uniform legal actions: the k-th legal one, k = (word x legal actions) >> 32; 0 where none is legal.
public final class RandomPolicy: Policy {
    /// A policy without state: all randomness comes from the lanes' streams.
    public init() {}

    public func choose(_ view: PolicyView, until deadline: SearchDeadline?) throws(EnvironmentError) {
        guard view.actionCount == 4 else { return chooseOfMany(view) }
        #if canImport(UniformChoiceAVX2)
        if twofold_has_avx2() {
            return UniformChoiceAVX2.chooseUniformly(
                lanes: view.lanes, words: view.words, masks: view.masks, actions: view.actions)
        }
        #endif
        UniformChoice.chooseUniformly(
            lanes: view.lanes, words: view.words, masks: view.masks, actions: view.actions)
    }

    /// The same for any number of actions.
    private func chooseOfMany(_ view: PolicyView) {
        for lane in 0..<view.lanes {
            var count = 0
            view.forEachLegal(lane) { _ in count += 1 }
            var skip = pick(view.words[lane], of: count)
            var chosen = 0
            view.forEachLegal(lane) { action in
                if skip == 0 { chosen = action }
                skip -= 1
            }
            view.choose(chosen, lane: lane)
        }
    }
}

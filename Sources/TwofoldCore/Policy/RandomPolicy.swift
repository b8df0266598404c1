/// Uniform legal actions: the k-th legal one, k = (word x legal actions) >> 32; 0 where none is legal.
public final class RandomPolicy: Policy {
    private let scratch = UnsafeMutableRawPointer.allocate(byteCount: 2048, alignment: 64)

    /// A policy without state: all randomness comes from the lanes' streams.
    public init() {}

    deinit { scratch.deallocate() }

    public func choose(_ view: PolicyView, until deadline: SearchDeadline?) throws(EnvironmentError) {
        // The kernel has four actions, and whole blocks.
        let whole = view.actionCount == 4 ? view.lanes / 64 * 64 : 0
        for first in stride(from: 0, to: whole, by: 64) {
            KernelOperations.avx2.chooseUniformly(
                view.words + first, view.masks + first * 4, view.actions + first, scratch)
        }
        for lane in whole..<view.lanes {
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

internal import Dispatch
internal import Synchronization

/// Runs a choice that takes long over the lanes, one after the other on a few threads, until all have
/// chosen or the time is up.
struct Search: Sendable {
    let workers: Workers

    /// Calls `body` once for each lane; `worker`, below the workers' number, tells those apart that run at the same
    /// time, and false says that the time was up. Throws, some lanes left out, when it is.
    func run(
        lanes: Int, until end: SearchEnd?,
        _ body: @Sendable (_ lane: Int, _ worker: Int) -> Bool
    ) throws(EnvironmentError) {
        let next = Atomic(0)
        let isLate = Atomic(false)
        DispatchQueue.concurrentPerform(iterations: min(workers.threads, lanes)) { worker in
            while true {
                let lane = next.wrappingAdd(1, ordering: .relaxed).oldValue
                guard lane < lanes, !isLate.load(ordering: .relaxed) else { return }
                let isOver = end?.hasCome ?? false
                guard !isOver, body(lane, worker) else {
                    isLate.store(true, ordering: .relaxed)
                    return
                }
            }
        }
        guard !isLate.load(ordering: .relaxed) else {
            throw .exhausted(
                "policy",
                "a step of all boards did not fit into the time that this server gives a request's "
                    + "search (--max-search-milliseconds): take fewer boards or a smaller depth")
        }
    }
}

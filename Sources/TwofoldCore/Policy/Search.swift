internal import Dispatch
internal import Synchronization

/// A search for actions, lane after lane on a few threads, until all have one or the time is up.
struct Search: Sendable {
    let workers: Workers

    /// Calls `body` once for each lane. `worker`, below the workers' number, differs between calls that run at the
    /// same time; `body` returns false when the time is up. Throws then, with some lanes left out.
    func run(
        lanes: Int, until deadline: Deadline?,
        _ body: @Sendable (_ lane: Int, _ worker: Int) -> Bool
    ) throws(EnvironmentError) {
        let next = Atomic(0)
        let isLate = Atomic(false)
        DispatchQueue.concurrentPerform(iterations: min(workers.threads, lanes)) { worker in
            while true {
                let lane = next.wrappingAdd(1, ordering: .relaxed).oldValue
                guard lane < lanes, !isLate.load(ordering: .relaxed) else { return }
                let isOver = deadline?.hasPassed ?? false
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

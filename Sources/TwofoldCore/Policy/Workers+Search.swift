internal import Synchronization

extension Workers {
    /// Searches for the actions of all lanes: calls `body` once for each lane. `worker` is less than ``threads``, and
    /// differs between calls that run at the same time. `body` returns false if the deadline has passed. This function
    /// then throws, and some lanes have no action.
    func search(
        lanes: Int, until deadline: Deadline?,
        _ body: @Sendable (_ lane: Int, _ worker: Int) -> Bool
    ) throws(EnvironmentError) {
        let next = Atomic(0)
        let isLate = Atomic(false)
        run(most: lanes) { worker in
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
                "the search for one step of all boards did not fit into the time that this server allows per request "
                    + "(--max-search-milliseconds): use fewer boards or a smaller depth")
        }
    }
}

internal import Dispatch
internal import Glibc
internal import Synchronization

/// Threads that help with a batch: a Dispatch queue's, each of which looks for another batch for a moment
/// before it goes back.
///
/// A thread that sleeps takes 20 to 50 microseconds to come, a good part of a step. Steps often follow each
/// other at once (a rollout, several sessions), and then the helpers of the last one are still awake.
enum Helpers {
    /// For how long a helper looks for more: about twice what it takes to wake one up, so that looking never
    /// costs much more than it can save.
    private static let patience = 100_000

    private static let queue = DispatchQueue(label: "twofold.helpers", attributes: .concurrent)
    /// Those who look for a batch.
    private static let awake = Mutex<[Helper]>([])

    /// Calls `body` on this thread and at the same time on up to `count` helpers; `worker`, at most `count`, tells
    /// them apart. Returns when all who have begun are done. A helper that comes only then is sent away, so
    /// whoever is there has to do what is to be done.
    static func perform(with count: Int, _ body: @Sendable (_ worker: Int) -> Void) {
        withoutActuallyEscaping(body) { body in
            let batch = Batch(body)
            let ready = awake.withLock { helpers in
                let ready = Array(helpers.suffix(count))
                helpers.removeLast(ready.count)
                return ready
            }
            for helper in ready { helper.take(batch) }
            for _ in ready.count..<count {
                queue.async { Helper().help(batch) }
            }
            batch.join()
            batch.close()
        }
    }

    /// One thread that helps, from when it is woken up until it finds nothing more to do.
    private final class Helper: Sendable {
        private let next = Mutex<Batch?>(nil)
        /// Whether `next` is there: it is looked for without the mutex.
        private let hasNext = Atomic(false)

        func help(_ batch: Batch) {
            batch.join()
            while let next = look() { next.join() }
        }

        /// Hands over the next batch; whoever calls this has taken the helper out of those who look.
        func take(_ batch: Batch) {
            next.withLock { $0 = batch }
            hasNext.store(true, ordering: .releasing)
        }

        /// The next batch; nil when the time is up.
        private func look() -> Batch? {
            awake.withLock { $0.append(self) }
            let begin = DispatchTime.now().uptimeNanoseconds
            while !hasNext.load(ordering: .acquiring) {
                if DispatchTime.now().uptimeNanoseconds - begin > patience, leave() { return nil }
                // Somebody else may need this processor.
                sched_yield()
            }
            hasNext.store(false, ordering: .relaxed)
            return next.withLock { next in
                defer { next = nil }
                return next
            }
        }

        /// Stops looking; false when somebody is about to hand something over.
        private func leave() -> Bool {
            awake.withLock { helpers in
                guard let index = helpers.firstIndex(where: { $0 === self }) else { return false }
                helpers.remove(at: index)
                return true
            }
        }
    }

    /// One call of `perform`, from its first worker to its last.
    private final class Batch: Sendable {
        private struct Entrance: Sendable {
            /// Nil once nobody may come in any more.
            var body: (@Sendable (Int) -> Void)?
            var workers = 0
        }
        private let entrance: Mutex<Entrance>
        /// Who has come in and not gone.
        private let inside = Atomic(0)

        init(_ body: @escaping @Sendable (Int) -> Void) {
            entrance = Mutex(Entrance(body: body))
        }

        /// Takes part, unless it is too late for that.
        func join() {
            if work() { inside.subtract(1, ordering: .releasing) }
        }

        /// Lets nobody in any more, and waits for those who are still at work.
        func close() {
            entrance.withLock { $0.body = nil }
            while inside.load(ordering: .acquiring) > 0 { sched_yield() }
        }

        /// Not inlined because `body` must have been let go of when this returns: it ends with `perform`.
        @inline(never)
        private func work() -> Bool {
            guard let (body, worker) = enter() else { return false }
            body(worker)
            return true
        }

        private func enter() -> (body: @Sendable (Int) -> Void, worker: Int)? {
            entrance.withLock { entrance in
                guard let body = entrance.body else { return nil }
                defer { entrance.workers += 1 }
                inside.add(1, ordering: .relaxed)
                return (body, entrance.workers)
            }
        }
    }
}

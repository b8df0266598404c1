internal import Dispatch
internal import Glibc
internal import Synchronization

/// Threads that help with a batch: a Dispatch queue's, each of which looks for another batch for a moment
/// before it goes back.
///
/// A thread that sleeps takes 20 to 50 microseconds to come, a good part of a step. Steps often follow each
/// other at once (a rollout, several sessions), and then the helpers of the last one are still awake.
///
/// This is the room for handing work to threads without a lock, in atomic words that ThreadSanitizer understands.
enum Helpers {
    /// For how long a helper looks for more: about twice what it takes to wake one up, so that looking never
    /// costs much more than it can save.
    private static let patience = 100_000
    /// After how long a helper goes back all the same: Dispatch may have others' work for its thread.
    private static let longestStay = 2_000_000

    private static let queue = DispatchQueue(label: "twofold.helpers", attributes: .concurrent)
    /// Where helpers look for a batch; who finds no seat does not look.
    private static let seats = (0..<64).map { _ in Seat() }

    /// Calls `body` on this thread and at the same time on up to `count` helpers; `worker`, at most `count`, tells
    /// them apart. Returns when all who have begun are done. A helper that comes only then is sent away, so
    /// whoever is there has to do what is to be done.
    static func perform(with count: Int, _ body: @Sendable (_ worker: Int) -> Void) {
        withoutActuallyEscaping(body) { body in
            // because: nobody uses the pointer after `close`.
            withUnsafePointer(to: body) { body in
                let batch = Batch(body)
                var missing = count
                for seat in seats where missing > 0 && seat.hand(batch) { missing -= 1 }
                for _ in 0..<missing { queue.async { help(batch) } }
                _ = batch.join()
                batch.close()
            }
        }
    }

    /// What a helper does from when it is woken up until it finds nothing more to do.
    private static func help(_ batch: Batch) {
        let begin = DispatchTime.now().uptimeNanoseconds
        // Who comes too late is not needed.
        guard batch.join(), let seat = seats.first(where: { $0.sitDown() }) else { return }
        while let next = seat.look(for: patience) {
            _ = next.join()
            if DispatchTime.now().uptimeNanoseconds - begin > longestStay { return seat.getUp() }
        }
    }

    /// Where one helper at a time looks for its next batch.
    private final class Seat: Sendable {
        private static let free: UInt = 0
        private static let looking: UInt = 1
        private static let working: UInt = 2

        /// One of these, or the address of a batch that was handed over, retained.
        private let state = Atomic<UInt>(free)

        /// Takes the seat, if it is free.
        func sitDown() -> Bool { change(Self.free, to: Self.working) }

        /// Leaves it; only for who does not look.
        func getUp() { state.store(Self.free, ordering: .releasing) }

        /// Hands a batch to who looks here; false where nobody does.
        func hand(_ batch: Batch) -> Bool {
            guard state.load(ordering: .relaxed) == Self.looking else { return false }
            let batch = Unmanaged.passRetained(batch)
            guard change(Self.looking, to: UInt(bitPattern: batch.toOpaque())) else {
                batch.release()
                return false
            }
            return true
        }

        /// The next batch; nil, and the seat is free again, when there is none for so many nanoseconds.
        func look(for nanoseconds: Int) -> Batch? {
            state.store(Self.looking, ordering: .releasing)
            let begin = DispatchTime.now().uptimeNanoseconds
            while state.load(ordering: .relaxed) == Self.looking {
                if DispatchTime.now().uptimeNanoseconds - begin > nanoseconds,
                    change(Self.looking, to: Self.free)
                {
                    return nil
                }
                // Somebody else may need this processor.
                sched_yield()
            }
            let handed = state.exchange(Self.working, ordering: .acquiringAndReleasing)
            return Unmanaged<Batch>.fromOpaque(UnsafeRawPointer(bitPattern: handed)!).takeRetainedValue()
        }

        private func change(_ old: UInt, to new: UInt) -> Bool {
            state.compareExchange(expected: old, desired: new, ordering: .acquiringAndReleasing).exchanged
        }
    }

    /// One call of `perform`, from its first worker to its last.
    ///
    /// `@unchecked Sendable` because of `body`: it is used by those who came in before `close`, which waits for them.
    private final class Batch: @unchecked Sendable {
        private static let closed = 1
        private static let one = 2

        private let body: UnsafePointer<@Sendable (Int) -> Void>
        private let workers = Atomic(0)
        /// Whether nobody may come in any more, and how many are inside.
        private let state = Atomic(0)

        init(_ body: UnsafePointer<@Sendable (Int) -> Void>) { self.body = body }

        /// Takes part, unless it is too late for that; whether it did.
        func join() -> Bool {
            let before = state.wrappingAdd(Self.one, ordering: .acquiringAndReleasing).oldValue
            let isOpen = before & Self.closed == 0
            if isOpen { body.pointee(workers.wrappingAdd(1, ordering: .relaxed).oldValue) }
            state.wrappingSubtract(Self.one, ordering: .acquiringAndReleasing)
            return isOpen
        }

        /// Lets nobody in any more, and waits for those who are still at work.
        func close() {
            state.bitwiseOr(Self.closed, ordering: .acquiringAndReleasing)
            while state.load(ordering: .acquiring) != Self.closed { sched_yield() }
        }
    }
}

internal import Dispatch
internal import Platform
internal import Synchronization

/// The threads among which the lanes of a batch are divided, in chunks of whole 64-lane blocks.
///
/// The results of a lane never depend on its chunk.
public struct Workers: Sendable {
    /// The intended time for the work of one chunk. It is many times the cost of waking another thread.
    private static let nanosecondsPerChunk = 80_000

    /// The number of threads that one batch may use, including the calling thread.
    public let threads: Int
    /// The number of lanes in a chunk; if nil, it is computed from the time per lane.
    public let chunk: Int?

    /// Makes workers with at most `threads` threads. `chunk` is rounded up to whole blocks of 64 lanes. Tests set
    /// `chunk` to show that results do not depend on it.
    public init(threads: Int, chunk: Int? = nil) {
        precondition(threads >= 1 && (chunk ?? 1) >= 1)
        self.threads = threads
        self.chunk = chunk.map(Workers.wholeBlocks)
    }

    private static func wholeBlocks(_ lanes: Int) -> Int { (lanes + 63) / 64 * 64 }

    /// Calls `body` for consecutive ranges that together cover `0 ..< lanes`. Returns when all calls have returned.
    /// With one thread or one chunk, everything runs on the calling thread. `worker` is less than ``threads`` and
    /// differs between calls that run at the same time.
    public func run(
        lanes: Int, nanosecondsPerLane: Int, _ body: @Sendable (_ range: Range<Int>, _ worker: Int) -> Void
    ) {
        let chunk = chunk ?? Workers.wholeBlocks(Workers.nanosecondsPerChunk / nanosecondsPerLane)
        let chunks = (lanes + chunk - 1) / chunk
        guard threads > 1, chunks > 1 else { return body(0..<lanes, 0) }
        let next = Atomic(0)
        run(most: chunks) { worker in
            while true {
                let mine = next.wrappingAdd(1, ordering: .relaxed).oldValue
                guard mine < chunks else { return }
                body(mine * chunk..<min(lanes, (mine + 1) * chunk), worker)
            }
        }
    }

    /// Calls `body` on at most `most` threads at the same time, each with a different number below ``threads``. Each
    /// call takes work until none is left. If the process can't start threads, calls `body` once, on this thread.
    func run(most: Int, _ body: @Sendable (_ worker: Int) -> Void) {
        let workers = min(threads, most)
        guard workers > 1, canStartThreads(workers - 1) else { return body(0) }
        DispatchQueue.concurrentPerform(iterations: workers, execute: body)
    }
}

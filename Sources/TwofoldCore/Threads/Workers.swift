internal import Dispatch
internal import Synchronization

/// Spreads the lanes of a batch over threads, in chunks of whole 64-lane blocks.
///
/// What a lane computes never depends on the chunk that it falls into.
public struct Workers: Sendable {
    /// Work for a thread at a time: many times the cost of waking another one.
    private static let nanosecondsPerChunk = 80_000

    /// Threads that one batch may use, the calling one included.
    public let threads: Int
    /// Lanes in a chunk; nil to derive it from the time that a lane takes.
    public let chunk: Int?

    /// At most `threads` threads. A given chunk is rounded up to whole blocks of 64 lanes; tests use it to
    /// show that the chunk makes no difference.
    public init(threads: Int, chunk: Int? = nil) {
        precondition(threads >= 1 && (chunk ?? 1) >= 1)
        self.threads = threads
        self.chunk = chunk.map(Workers.wholeBlocks)
    }

    private static func wholeBlocks(_ lanes: Int) -> Int { (lanes + 63) / 64 * 64 }

    /// Calls `body` for consecutive ranges that together are `0 ..< lanes`, and returns when all are done.
    /// A batch of one chunk stays on the calling thread. `worker`, below ``threads``, differs between calls
    /// that run at the same time.
    public func run(
        lanes: Int, nanosecondsPerLane: Int, _ body: @Sendable (_ range: Range<Int>, _ worker: Int) -> Void
    ) {
        let chunk = chunk ?? Workers.wholeBlocks(Workers.nanosecondsPerChunk / nanosecondsPerLane)
        let chunks = (lanes + chunk - 1) / chunk
        let workers = min(threads, chunks)
        guard workers > 1 else { return body(0..<lanes, 0) }
        let next = Atomic(0)
        DispatchQueue.concurrentPerform(iterations: workers) { worker in
            while true {
                let mine = next.wrappingAdd(1, ordering: .relaxed).oldValue
                guard mine < chunks else { return }
                body(mine * chunk..<min(lanes, (mine + 1) * chunk), worker)
            }
        }
    }
}

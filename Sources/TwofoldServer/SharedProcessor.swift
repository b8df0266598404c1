internal import CLinux
internal import FoundationEssentials
internal import Glibc
internal import ZeroMQ

/// Keeps the socket thread and libzmq's I/O thread on one processor while there is one conversation at a
/// time.
///
/// In a conversation of requests and replies the two never have work at once, and what a step writes goes
/// from the one to the other: on two processors each cache line of the reply would have to travel between
/// them, which takes longer than the step itself. (4096 boards over ipc, two processors: a bare client gets
/// 85 to 89 % of what an echo server gives with this, 65 to 70 % without.)
///
/// Which processor that is, the scheduler decides: once a second both threads may run anywhere again, and
/// they meet where the next request wakes the socket thread up. As soon as requests come side by side they
/// stay apart, so that both can work.
struct SharedProcessor {
    private static let term = Duration.seconds(1)

    /// The I/O threads of all contexts of this process; looked for when they are first needed, since each
    /// names itself only once it runs.
    private var ioThreads: [pid_t] = []
    private var isPinned = false
    private var nextChoice = ContinuousClock.now
    /// Of the last message since the last wait; nil when there was none.
    private var turnSender: UInt64?
    /// Whether the last wait brought messages of several senders.
    private var isCrowded = false

    /// To be told of each message, by its first frame, which is its sender's.
    mutating func received(from sender: borrowing Message) {
        guard Self.allCount > 1 else { return }
        let sender = sender.withUnsafeBytes { $0.reduce(into: 0) { $0 = $0 &* 31 &+ UInt64($1) } }
        if let one = turnSender, one != sender { isCrowded = true }
        turnSender = sender
    }

    /// To be told when all messages that a wait brought have been handled.
    mutating func endTurn() {
        guard turnSender != nil else { return }
        let now = ContinuousClock.now
        if isPinned {
            if isCrowded || now >= nextChoice { release() }
            if isCrowded { nextChoice = now + Self.term }
        } else if !isCrowded, now >= nextChoice {
            pin(to: twofold_processor())
            nextChoice = now + Self.term
        }
        turnSender = nil
        isCrowded = false
    }

    /// Lets both run anywhere again.
    mutating func release() {
        guard isPinned else { return }
        for thread in [0] + ioThreads { _ = twofold_unpin(thread, Self.all) }
        isPinned = false
    }

    private mutating func pin(to processor: CInt) {
        if ioThreads.isEmpty { ioThreads = Self.findIOThreads() }
        guard !ioThreads.isEmpty else { return }
        for thread in [0] + ioThreads { _ = twofold_pin(thread, processor) }
        isPinned = true
    }

    /// libzmq names its threads.
    private static func findIOThreads() -> [pid_t] {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return threads.compactMap { thread in
            let name = try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8)
            return name?.hasPrefix("ZMQbg/IO/") == true ? pid_t(thread) : nil
        }
    }

    // MARK: workers

    /// Lets the calling thread run wherever the process may. For Dispatch's workers: a thread inherits where
    /// it may run from the one that first needed it, which may be the socket thread.
    @Sendable static func leave() {
        if twofold_count(twofold_affinity(0)) < allCount { _ = twofold_unpin(0, all) }
    }

    // MARK: brisk conversations

    /// Moves the calling thread to another processor, and keeps it from this one.
    static func leaveThisOne() { _ = twofold_leave_processor(all) }

    /// Whether there is another processor than the one that this thread runs on.
    static var hasAnother: Bool { allCount > 1 }

    /// Where the process may run: what its main thread had before anything was pinned.
    private static let all = twofold_affinity(getpid())
    private static let allCount = twofold_count(all)
}

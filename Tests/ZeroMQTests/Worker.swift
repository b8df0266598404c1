import Platform
import Synchronization

/// A separate thread. A test can wait for its end, observe it and send it signals.
final class Worker<Value: Sendable>: Sendable {
    private enum State {
        case running
        case ended(Result<Value, any Error>)
    }

    private let state = Mutex(State.running)
    /// The descriptor of the thread's stat file in /proc, or -1 until the thread has opened it.
    private let status = Atomic<CInt>(-1)
    private let thread = Atomic<UInt>(0)

    /// Starts `body` on a new thread.
    init(_ body: @escaping @Sendable () throws -> Value) {
        let start: @Sendable () -> Void = {
            // Tests run on Dispatch threads, which block signals. New threads inherit the signal mask.
            var none = sigset_t()
            sigemptyset(&none)
            pthread_sigmask(SIG_SETMASK, &none, nil)
            self.status.store(open("/proc/thread-self/stat", O_RDONLY), ordering: .releasing)
            let result = Result(catching: body)
            self.state.withLock { $0 = .ended(result) }
        }
        var thread: pthread_t = 0
        let box = Unmanaged.passRetained(Start(start))
        let status = pthread_create(
            &thread, nil,
            { box in
                Unmanaged<Start>.fromOpaque(box!).takeRetainedValue().body()
                return nil
            }, box.toOpaque())
        precondition(status == 0, "pthread_create")
        self.thread.store(thread, ordering: .releasing)
    }

    /// Waits for the thread to end and returns the result of `body`. Call it only once.
    func join() throws -> Value {
        pthread_join(thread.load(ordering: .acquiring), nil)
        guard case .ended(let result) = state.withLock({ $0 }) else { fatalError("joined but running") }
        return try result.get()
    }

    /// Sends the thread a signal. Do not call it after `join`.
    func kill(_ signal: CInt) {
        pthread_kill(thread.load(ordering: .acquiring), signal)
    }

    var isRunning: Bool {
        state.withLock { if case .running = $0 { true } else { false } }
    }

    deinit { close(status.load(ordering: .acquiring)) }

    /// Waits until five checks in a row, two milliseconds apart, find the thread asleep in the kernel. Returns false
    /// if the thread has ended.
    func waitUntilAsleep() -> Bool {
        var looks = 0
        return eventually {
            usleep(2000)
            looks = isAsleep ? looks + 1 : 0
            return looks == 5 || !isRunning
        } && isRunning
    }

    private var isAsleep: Bool {
        // The state is the letter after the last parenthesis: "4711 (a name) S 1 …".
        var line = [UInt8](repeating: 0, count: 512)
        let count = pread(status.load(ordering: .acquiring), &line, line.count, 0)
        guard count > 0, let end = line[..<count].lastIndex(of: UInt8(ascii: ")")), end + 2 < count else {
            return false
        }
        return line[end + 2] == UInt8(ascii: "S")
    }
}

private final class Start: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

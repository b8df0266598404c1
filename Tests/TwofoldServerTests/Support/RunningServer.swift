import Dispatch
import Foundation
import Logging
import Synchronization
import TwofoldServer
import TwofoldSessions

/// Long enough that only a defect takes it: no test hangs.
let patience = Duration.seconds(300)

/// A server on a thread of its own.
final class RunningServer: Sendable {
    /// Where it listens, as it said.
    let endpoints: [String]
    private let bell: Bell
    private let serving: Background<ServerStatistics>

    /// Starts a server and waits until it listens; throws what it refused to start with. With a gate it
    /// listens, but doesn't serve before it is let through.
    init(
        _ endpoints: String..., threads: Int = 2, gate: DispatchSemaphore? = nil,
        configure: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration(endpoints: endpoints, ServiceSettings(threads: threads))
        configure(&configuration)
        let bell = Bell()
        let listening = Listening(expected: endpoints.count)
        let serving = Background { [configuration] in
            // Whether it has come up or not, there is nothing more to wait for.
            defer { listening.end() }
            return try serve(
                configuration, stopDescriptor: bell.descriptor,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) {
                listening.add($0)
                gate?.wait()
            }
        }
        self.bell = bell
        self.serving = serving
        self.endpoints = try listening.wait()
        // All of them, or it has ended and says why.
        if self.endpoints.count < endpoints.count { _ = try serving.value }
    }

    var endpoint: String { endpoints[0] }

    /// Asks it to stop, and doesn't wait.
    func ring() { bell.ring() }

    /// Stops it; what it has counted. Once.
    @discardableResult
    func stop() throws -> ServerStatistics {
        bell.ring()
        return try serving.value
    }

    deinit { bell.ring() }
}

/// Holds up the jobs of a server's queues while it is closed: they have begun, and do nothing yet.
final class Latch: Sendable {
    private let isOpen = DispatchSemaphore(value: 1)
    private let waiting = Atomic(0)

    /// The jobs that wait for it now.
    var held: Int { waiting.load(ordering: .relaxed) }

    func close() { isOpen.wait() }

    func open() { isOpen.signal() }

    /// Returns once the latch is open. To be the server's `jobDidBegin`.
    @Sendable func pass() {
        // A test that fails before it opens the latch must not hang.
        waiting.add(1, ordering: .relaxed)
        _ = isOpen.wait(timeout: .now() + patience.dispatched)
        waiting.subtract(1, ordering: .relaxed)
        isOpen.signal()
    }
}

/// A pipe that becomes readable when somebody rings.
private final class Bell: Sendable {
    private let pipe = Pipe()

    var descriptor: Int32 { pipe.fileHandleForReading.fileDescriptor }

    func ring() { try? pipe.fileHandleForWriting.write(contentsOf: [0]) }
}

/// The endpoints that a server has reported so far.
private final class Listening: Sendable {
    private let expected: Int
    private let reported = Mutex<[String]>([])
    private let isDone = DispatchSemaphore(value: 0)

    init(expected: Int) { self.expected = expected }

    func add(_ endpoint: String) {
        let count = reported.withLock { reported in
            reported.append(endpoint)
            return reported.count
        }
        if count == expected { end() }
    }

    func end() { isDone.signal() }

    /// Waits for all of them, or for the server's end.
    func wait() throws -> [String] {
        guard isDone.wait(timeout: .now() + patience.dispatched) == .success else { throw StillRunning() }
        return reported.withLock { $0 }
    }
}

/// A piece of work on a thread of its own.
final class Background<Value: Sendable>: Sendable {
    private let outcome = Mutex<Result<Value, any Error>?>(nil)
    private let end = DispatchSemaphore(value: 0)

    init(_ body: @escaping @Sendable () throws -> Value) {
        Thread.detachNewThread {
            let result = Result(catching: body)
            self.outcome.withLock { $0 = result }
            self.end.signal()
        }
    }

    /// Waits for what comes of it; asked for once.
    var value: Value {
        get throws {
            guard end.wait(timeout: .now() + patience.dispatched) == .success else { throw StillRunning() }
            return try outcome.withLock { $0! }.get()
        }
    }
}

extension Duration {
    /// Whole seconds, for Dispatch.
    fileprivate var dispatched: DispatchTimeInterval { .seconds(Int(components.seconds)) }
}

/// Something didn't end when it should have.
struct StillRunning: Error {}

import Dispatch
import Foundation
import Logging
import Synchronization
import TwofoldCore
import TwofoldSessions

@testable import TwofoldServer

/// A timeout that only a defect exceeds. It keeps tests from hanging.
let patience = Duration.seconds(300)

/// A server on a separate thread.
final class RunningServer: Sendable {
    /// The endpoints that the server has reported.
    let endpoints: [String]
    private let bell: Bell
    private let serving: Background<ServerStatistics>

    /// Starts a server and waits until it listens. Throws the server's error if it does not start. With a gate, the
    /// server listens but does not serve until the gate opens.
    init(
        _ endpoints: String..., threads: Int = 2, gate: DispatchSemaphore? = nil,
        configure: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration(endpoints: endpoints, ServiceSettings(threads: threads))
        configure(&configuration)
        let bell = Bell()
        let listening = Listening(expected: endpoints.count)
        let serving = Background { [configuration] in
            // After this, the server reports no further endpoints, even if it has not started.
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
        // If an endpoint is missing, the server has ended, and `value` throws its error.
        if self.endpoints.count < endpoints.count { _ = try serving.value }
    }

    var endpoint: String { endpoints[0] }

    /// Asks the server to stop, without waiting.
    func ring() { bell.ring() }

    /// Stops the server and returns its counts. Call it only once.
    @discardableResult
    func stop() throws -> ServerStatistics {
        bell.ring()
        return try serving.value
    }

    deinit { bell.ring() }
}

/// A latch that delays the rollouts of a server. A rollout reads the clock before its first step, and a closed latch
/// stops the clock. The socket thread reads it only for hello and resume requests.
final class Latch: Sendable {
    private let isOpen = DispatchSemaphore(value: 1)
    private let waiting = Atomic(0)

    /// The number of rollouts that wait for the latch.
    var held: Int { waiting.load(ordering: .relaxed) }

    func close() { isOpen.wait() }

    func open() { isOpen.signal() }

    /// The system's clock while the latch is open.
    var clock: Clock {
        Clock { [self] in
            pass()
            return .now
        }
    }

    private func pass() {
        // A test that fails before it opens the latch must not hang.
        waiting.add(1, ordering: .relaxed)
        _ = isOpen.wait(timeout: .now() + patience.dispatched)
        waiting.subtract(1, ordering: .relaxed)
        isOpen.signal()
    }
}

/// A pipe that becomes readable when a thread rings.
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

    /// Waits for all endpoints or for the server's end.
    func wait() throws -> [String] {
        guard isDone.wait(timeout: .now() + patience.dispatched) == .success else { throw StillRunning() }
        return reported.withLock { $0 }
    }
}

/// A piece of work on a separate thread.
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

    /// The result of the work. Reading it waits for the end of the work. Read it only once.
    var value: Value {
        get throws {
            guard end.wait(timeout: .now() + patience.dispatched) == .success else { throw StillRunning() }
            return try outcome.withLock { $0! }.get()
        }
    }
}

extension Duration {
    /// The duration in whole seconds, for Dispatch.
    fileprivate var dispatched: DispatchTimeInterval { .seconds(Int(components.seconds)) }
}

/// The error thrown by an operation that does not end in time.
struct StillRunning: Error {}

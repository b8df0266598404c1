import Platform
import Synchronization

/// Standard error that never blocks a logging thread. A line that would have to wait is dropped and counted.
///
/// It does not use O_NONBLOCK: that flag belongs to the pipe or terminal, so it would affect every process
/// that shares it.
final class StandardError: Sendable {
    static let shared = StandardError(descriptor: STDERR_FILENO)

    private let descriptor: Int32
    /// The number of lines dropped since the last written line. Locked during a write, to keep the order.
    private let dropped = Mutex(0)

    init(descriptor: Int32) { self.descriptor = descriptor }

    /// Writes a line if there is room for it, at most its first 4 KB. If lines were dropped before, `report`
    /// makes the line that precedes it.
    func write(_ line: String, reportingDropped report: (Int) -> String) {
        dropped.withLock { dropped in
            if dropped > 0, writeIfThereIsRoom(report(dropped)) { dropped = 0 }
            if dropped > 0 || !writeIfThereIsRoom(line) { dropped += 1 }
        }
    }

    /// Writes in one call, so that lines of different processes do not mix. Returns false if the write would
    /// have to wait.
    private func writeIfThereIsRoom(_ line: String) -> Bool {
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        // A writable pipe or socket accepts this many bytes without waiting. A pipe without readers also
        // counts as ready; the write then fails.
        guard poll(&room, 1, 0) == 1 else { return false }
        let bytes = Array(line.utf8.prefix(Int(PIPE_BUF) - 1)) + [UInt8(ascii: "\n")]
        return Platform.write(descriptor, bytes, bytes.count) == bytes.count
    }
}

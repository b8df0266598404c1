import Platform
import Synchronization

/// Standard error, which never holds up a thread that logs: a line for which there is no room is dropped and counted.
///
/// Not by O_NONBLOCK: that flag belongs to the pipe or terminal, and every process that shares it would get it, too.
final class StandardError: Sendable {
    static let shared = StandardError(descriptor: STDERR_FILENO)

    private let descriptor: Int32
    /// Lines dropped since the last one that was written. Locked while a line is written, so that the order holds.
    private let dropped = Mutex(0)

    init(descriptor: Int32) { self.descriptor = descriptor }

    /// Writes a line if there is room for it; of a very long one the first 4 KB. `report` makes the line that goes
    /// before it when lines were dropped.
    func write(_ line: String, reportingDropped report: (Int) -> String) {
        dropped.withLock { dropped in
            if dropped > 0, writeIfThereIsRoom(report(dropped)) { dropped = 0 }
            if dropped > 0 || !writeIfThereIsRoom(line) { dropped += 1 }
        }
    }

    /// Writes in one call, so that lines of different processes don't mix; false when that would have to wait.
    private func writeIfThereIsRoom(_ line: String) -> Bool {
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        // A pipe or socket that is writable takes this many bytes without waiting. One without readers
        // is reported as an error, and so is its write.
        guard poll(&room, 1, 0) == 1 else { return false }
        let bytes = Array(line.utf8.prefix(Int(PIPE_BUF) - 1)) + [UInt8(ascii: "\n")]
        return Platform.write(descriptor, bytes, bytes.count) == bytes.count
    }
}

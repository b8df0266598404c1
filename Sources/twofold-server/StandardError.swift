import Platform
import Synchronization

/// Standard error for log lines. A write never blocks the calling thread: a line that would have to wait is dropped.
///
/// The flag O_NONBLOCK would not work here. It belongs to the pipe or terminal, so it would affect every process
/// that shares it.
final class StandardError: Sendable {
    static let shared = StandardError()

    /// The number of lines dropped since the last complete line, and whether the last write ended within a line, for
    /// example because the disk is full. The lock is held during a write, so that lines stay in order.
    private let state = Mutex((dropped: 0, isCut: false))

    /// Writes a line if that is possible without waiting. A line longer than 4 KB is cut off. If earlier lines were
    /// dropped, first writes the line that `report` returns for their number.
    func write(_ line: String, reportingDropped report: (Int) -> String) {
        state.withLock { state in
            if state.dropped > 0, writeIfThereIsRoom(report(state.dropped), &state.isCut) {
                state.dropped = 0
            }
            if state.dropped > 0 || !writeIfThereIsRoom(line, &state.isCut) { state.dropped += 1 }
        }
    }

    /// Writes the line with a single call, so that lines of different processes do not mix. First ends the previous line
    /// if it was cut. Returns false if the write would have to wait, or cuts this line.
    private func writeIfThereIsRoom(_ line: String, _ isCut: inout Bool) -> Bool {
        var room = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        // A writable pipe or socket accepts this many bytes without waiting. A pipe without readers also
        // counts as ready; the write then fails.
        guard poll(&room, 1, 0) == 1 else { return false }
        let newline = UInt8(ascii: "\n")
        let start: [UInt8] = isCut ? [newline] : []
        let bytes = start + line.utf8.prefix(Int(PIPE_BUF) - 2) + [newline]
        let written = Platform.write(STDERR_FILENO, bytes, bytes.count)
        if written > 0 { isCut = bytes[written - 1] != newline }
        return written == bytes.count
    }
}

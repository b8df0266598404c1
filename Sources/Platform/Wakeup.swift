/// A bell that any thread can ring to wake the thread that polls the bell's descriptor.
///
/// Several rings before the next `silence()` count as one.
package final class Wakeup: Sendable {
    /// The two ends of a pipe that contains a byte for each ring.
    private let reader: Descriptor
    private let writer: Descriptor

    /// A descriptor that is readable between a `ring()` and the next `silence()`.
    package var descriptor: Int32 { reader.number }

    /// The descriptor to which a signal handler writes a byte instead of calling `ring()`.
    var writingEnd: Int32 { writer.number }

    package init() throws(SystemError) {
        var ends: [Int32] = [-1, -1]
        try system(named: "pipe") { pipe(&ends) }
        reader = try Descriptor { ends[0] }
        writer = try Descriptor { ends[1] }
        try reader.neverWait()
        try writer.neverWait()
    }

    /// Wakes the polling thread, immediately or at its next poll. Never waits.
    package func ring() {
        // because: it fails only if the pipe is full, and then the descriptor is readable anyway.
        _ = try? system { write(writer.number, "", 1) }
    }

    /// Clears all rings received so far. Call it before looking for new work, so that a later ring is not lost.
    package func silence() {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { rings in
            // because: it fails only if there are no rings to clear.
            while let count = try? system({ read(reader.number, rings.baseAddress, rings.count) }),
                count == rings.count
            {}
        }
    }
}

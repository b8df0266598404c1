/// A file descriptor, which closes itself when it goes.
package struct Descriptor: ~Copyable, Sendable {
    /// Valid until deinit, which alone closes it.
    package let number: Int32

    /// Owns the descriptor that a call makes; the name is the call's, as in ``system(named:_:)``.
    init(named name: String? = nil, _ make: () -> Int32) throws(SystemError) {
        number = try system(named: name, make)
    }

    /// Opens a file, never through a link and never for a child process.
    ///
    /// The corresponding C function is `open`.
    package init(opening path: String, _ flags: Int32, mode: mode_t = 0) throws(SystemError) {
        try self.init { open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode) }
    }

    deinit { close(number) }

    /// Locks the file, for as long as the descriptor is open; throws at once when another process has it locked.
    ///
    /// The corresponding C function is `flock`.
    package func lock() throws(SystemError) { try system { flock(number, LOCK_EX | LOCK_NB) } }

    /// Writes all of it, however many calls that takes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = try system {
                Platform.write(number, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Returns once what was written (or, in a directory, named) outlives a loss of power.
    ///
    /// The corresponding C function is `fsync`.
    package func flush() throws(SystemError) { try system { fsync(number) } }

    /// Makes a file of these bytes, which is on the disk when this returns. There must be none in its place, and none
    /// stays behind when it can't be made.
    package static func makeFile(
        at path: String, mode: mode_t, _ bytes: UnsafeRawBufferPointer
    ) throws(SystemError) {
        let file = try Descriptor(opening: path, O_WRONLY | O_CREAT | O_EXCL, mode: mode)
        do throws(SystemError) {
            try file.write(bytes)
            try file.flush()
        } catch {
            unlink(path)
            throw error
        }
    }
}

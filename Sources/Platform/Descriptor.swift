/// A file descriptor that is closed when its owner releases it.
package struct Descriptor: ~Copyable, Sendable {
    /// The descriptor's number, valid until `deinit` closes it.
    package let number: Int32

    /// Takes ownership of the descriptor that `make` returns.
    init(_ make: () -> Int32) throws(SystemError) { number = try system(make) }

    /// Opens a file. Follows a link at the end of the path only if `followsLinks` is true. Child processes do not
    /// inherit the descriptor.
    package init(
        opening path: String, _ flags: Int32, mode: mode_t = 0, followsLinks: Bool = false
    ) throws(SystemError) {
        try self.init { open(path, flags | O_CLOEXEC | (followsLinks ? 0 : O_NOFOLLOW), mode) }
    }

    deinit { close(number) }

    /// Makes calls on a pipe or socket fail with EAGAIN instead of waiting. Child processes do not inherit it.
    func neverWait() throws(SystemError) {
        try system(named: "fcntl") { fcntl(number, F_SETFL, O_NONBLOCK) }
        try system(named: "fcntl") { fcntl(number, F_SETFD, FD_CLOEXEC) }
    }

    /// Opens or creates a file, and locks it until the descriptor is closed. Returns nil if another process holds
    /// the lock. The process that holds the lock may remove the file; the next caller then locks a new file.
    package static func locking(_ path: String, mode: mode_t) throws(SystemError) -> Descriptor? {
        while true {
            let file = try Descriptor(opening: path, O_RDWR | O_CREAT, mode: mode)
            do throws(SystemError) {
                try system(named: "flock") { [number = file.number] in flock(number, LOCK_EX | LOCK_NB) }
            } catch {
                guard error.code == EWOULDBLOCK else { throw error }
                return nil
            }
            // because: the lock is useless if the owner has removed the file between open and flock.
            var held = stat()
            var there = stat()
            if fstat(file.number, &held) == 0, stat(path, &there) == 0, held.st_ino == there.st_ino {
                return file
            }
        }
    }

    /// Writes all bytes to the file, starting at `offset`.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            done += try system {
                pwrite(number, bytes.baseAddress! + done, bytes.count - done, offset + done)
            }
        }
    }

    /// Fills `memory` with the file's bytes, starting at `offset`. Returns the number of bytes read, which is less
    /// than `memory.count` only at the end of the file.
    package func read(into memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(SystemError) -> Int {
        var done = 0
        while done < memory.count {
            let count = try system(named: "pread") {
                pread(number, memory.baseAddress! + done, memory.count - done, offset + done)
            }
            guard count > 0 else { break }
            done += count
        }
        return done
    }

    /// The number of bytes in the file. Throws EINVAL for a FIFO, a directory or a device.
    package var regularFileSize: Int {
        get throws(SystemError) {
            var status = stat()
            try system(named: "fstat") { fstat(number, &status) }
            guard status.st_mode & S_IFMT == S_IFREG else { throw SystemError(code: EINVAL) }
            return Int(status.st_size)
        }
    }

    /// Forces the file's bytes, or a directory's entries, to disk, so that they survive a power failure.
    package func flush() throws(SystemError) { try system { fsync(number) } }

    /// Reads a whole file of any type, following links. Throws EFBIG if the file has more than `limit` bytes.
    package static func contents(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
        let file = try Descriptor { open(path, O_RDONLY | O_CLOEXEC) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= limit {
            let count = try system { Platform.read(file.number, &part, part.count) }
            if count == 0 { return bytes }
            bytes += part[..<count]
        }
        throw SystemError(code: EFBIG)
    }

    /// Creates a file with these bytes. On return, the bytes are on disk. Throws if the path already exists. Leaves
    /// no file behind on failure.
    package static func makeFile(
        at path: String, mode: mode_t, _ bytes: UnsafeRawBufferPointer
    ) throws(SystemError) {
        let file = try Descriptor(opening: path, O_WRONLY | O_CREAT | O_EXCL, mode: mode)
        do throws(SystemError) {
            try file.write(bytes, at: 0)
            try file.flush()
        } catch {
            unlink(path)
            throw error
        }
    }
}

/// Returns true if the descriptor is readable or its peer has hung up. Never waits.
package func isReadable(_ descriptor: Int32) -> Bool {
    var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&item, 1, 0) > 0
}

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

    /// Opens a file, or makes it, and locks it for as long as the descriptor is open; nil if another process has it
    /// locked. Its owner may remove the file while it is locked.
    ///
    /// The corresponding C function is `flock`.
    package static func locking(_ path: String, mode: mode_t) throws(SystemError) -> Descriptor? {
        while true {
            let file = try Descriptor(opening: path, O_RDWR | O_CREAT, mode: mode)
            do throws(SystemError) {
                try system(named: "flock") { [number = file.number] in flock(number, LOCK_EX | LOCK_NB) }
            } catch {
                guard error.code == EWOULDBLOCK else { throw error }
                return nil
            }
            // because: between open and flock its owner may have removed the file, and then the lock means nothing.
            var held = stat()
            var there = stat()
            if fstat(file.number, &held) == 0, stat(path, &there) == 0, held.st_ino == there.st_ino {
                return file
            }
        }
    }

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

    /// Fills memory with the file's bytes from `offset` on; returns how many there were, fewer at the file's end.
    ///
    /// The corresponding C function is `pread`.
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

    /// Bytes in the file; throws EINVAL for a FIFO, a directory or a device.
    package var regularFileSize: Int {
        get throws(SystemError) {
            var status = stat()
            try system(named: "fstat") { fstat(number, &status) }
            guard status.st_mode & S_IFMT == S_IFREG else { throw SystemError(code: EINVAL) }
            return Int(status.st_size)
        }
    }

    /// Returns once what was written (or, in a directory, named) outlives a loss of power.
    ///
    /// The corresponding C function is `fsync`.
    package func flush() throws(SystemError) { try system { fsync(number) } }

    /// The bytes of any file, also behind a link; throws EFBIG if there are more than `limit`.
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

/// The names of all files in a directory, in no order.
///
/// The corresponding C function is `readdir`.
package func fileNames(in directory: String) throws(SystemError) -> [String] {
    guard let stream = opendir(directory) else { throw SystemError(code: errno, name: "opendir") }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        names.append(
            withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            })
    }
    return names
}

/// Whether there is something to read from a descriptor, or it hung up; it does not wait.
///
/// The corresponding C function is `poll`.
package func isReadable(_ descriptor: Int32) -> Bool {
    var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&item, 1, 0) > 0
}

internal import Platform

/// The file of a problem's table: a regular file, open for reading.
struct TableSource: ~Copyable {
    let size: Int
    /// The version of the file, which changes with its content: the file's identity, its size, and the time of its last
    /// change (ctime). Programs can set back mtime, but not ctime.
    let version: [Int]
    private let problem: OptimumProblem
    private let path: String
    private let descriptor: Descriptor

    /// Opens a file. Refuses a FIFO without waiting for its writer.
    init(_ path: String, of problem: OptimumProblem) throws(OptimumFailure) {
        let file = try Self.open(path, of: problem)
        var status = stat()
        do throws(SystemError) { try system { [number = file.number] in fstat(number, &status) } } catch {
            throw OptimumFailure("can't read '\(path)': \(error)")
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw OptimumFailure("'\(path)' is not a regular file; a table must be one")
        }
        self.path = path
        self.problem = problem
        size = Int(status.st_size)
        version = [
            Int(truncatingIfNeeded: status.st_dev), Int(truncatingIfNeeded: status.st_ino),
            size, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
        ]
        descriptor = file
    }

    private static func open(
        _ path: String, of problem: OptimumProblem
    ) throws(OptimumFailure) -> Descriptor {
        do throws(SystemError) {
            return try Descriptor(opening: path, O_RDONLY | O_NONBLOCK, followsLinks: true)
        } catch {
            guard error.code == ENOENT else { throw OptimumFailure("can't read '\(path)': \(error)") }
            throw OptimumFailure(
                "the table of optimal values '\(path)' does not exist. Make it with "
                    + "`\(problem.command(making: path))`")
        }
    }

    /// Reads the header. Throws if it belongs to another problem.
    func header() throws(OptimumFailure) -> TableHeader {
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: min(TableHeader.size, size), alignment: 8)
        defer { bytes.deallocate() }
        try read(bytes)
        do throws(Reason) { return try TableHeader(UnsafeRawBufferPointer(bytes), of: problem) } catch {
            throw damaged(error.description)
        }
    }

    /// Reads the whole file into reserved memory.
    func content(_ reserve: TableDirectory.Reserve) throws(OptimumFailure) -> TableFile {
        let file: TableFile
        do { file = try TableFile(size: size, reserve: reserve) } catch {
            throw OptimumFailure(
                kind: .outOfMemory, "there is not enough memory for the table '\(path)': \(error)")
        }
        try read(file.bytes)
        return file
    }

    private func read(_ memory: UnsafeMutableRawBufferPointer) throws(OptimumFailure) {
        let count: Int
        do throws(SystemError) { count = try descriptor.read(into: memory, at: 0) } catch {
            throw OptimumFailure("can't read '\(path)': \(error)")
        }
        guard count == memory.count else { throw damaged("it has fewer than \(size) bytes") }
    }

    /// Returns the error for a damaged table.
    func damaged(_ damage: String) -> OptimumFailure {
        OptimumFailure(
            kind: .damagedTable,
            "'\(path)' can't be used: \(damage). Remove it and make it again with "
                + "`\(problem.command(making: path))`")
    }
}

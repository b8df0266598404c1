internal import FoundationEssentials
internal import Platform
internal import TwofoldServer

/// A disk with one directory, like a journaling file system. Flushing a file makes its bytes safe, and flushing the
/// directory makes names safe. A power loss may undo unsafe changes, starting with the newest.
final class SimulatedDisk {
    fileprivate enum Change {
        case append(String, Data)
        case overwrite(String, Int, Data)
        case remove(String)

        /// The file whose bytes the change writes; nil for a removal.
        var written: String? {
            switch self {
            case .append(let name, _), .overwrite(let name, _, _): name
            case .remove: nil
            }
        }
    }

    fileprivate var files: [String: Data] = [:]
    /// The safe state of the files.
    private var safe: [String: Data] = [:]
    /// All changes since the safe state, in order.
    fileprivate var unsettled: [Change] = []
    /// The safe bytes of each file that also has unsafe changes.
    private var flushed: [String: Data] = [:]

    fileprivate func apply(_ change: Change) {
        if let name = change.written {
            if flushed[name] == nil { flushed[name] = files[name] ?? Data() }
        } else if case .remove(let name) = change {
            flushed[name] = nil
        }
        Self.apply(change, to: &files)
        unsettled.append(change)
    }

    /// Makes the bytes of a file safe. A power loss then keeps or undoes the file's changes as a whole.
    fileprivate func flush(_ name: String) {
        flushed[name] = nil
        let first = unsettled.firstIndex { $0.written == name }
        unsettled.removeAll { $0.written == name }
        if safe[name] != nil {
            safe[name] = files[name]
        } else if let first {
            unsettled.insert(.append(name, files[name]!), at: first)
        }
    }

    /// Makes the names and the flushed bytes of all files safe.
    fileprivate func settle() {
        safe = files
        for (name, bytes) in flushed { safe[name] = bytes }
        unsettled = []
    }

    private static func apply(_ change: Change, to files: inout [String: Data]) {
        switch change {
        case .append(let name, let bytes): files[name, default: Data()] += bytes
        case .overwrite(let name, let offset, let bytes):
            guard var file = files[name], offset + bytes.count <= file.count else { return }
            file.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            files[name] = file
        case .remove(let name): files[name] = nil
        }
    }

    /// Simulates a power loss, after which only the first `kept` unsettled changes are on the disk.
    func losePower(keeping kept: Int) {
        for change in unsettled.prefix(kept) { Self.apply(change, to: &safe) }
        files = safe
        unsettled = []
        flushed = [:]
    }

    var unsettledCount: Int { unsettled.count }

    /// The names of all files in order.
    var names: [String] { files.keys.sorted() }
}

/// The disk as seen by the process of one server.
final class SimulatedFiles: StateFiles {
    private let disk: SimulatedDisk
    private let world: World
    /// Whether the process was killed during a write. Its later calls have no effect.
    private(set) var isKilled = false

    init(_ disk: SimulatedDisk, _ world: World) {
        self.disk = disk
        self.world = world
    }

    var names: [String] { disk.names }

    func size(_ name: String) -> Int? {
        guard var bytes = disk.files[name] else { return nil }
        if !bytes.isEmpty, world.faults.strikes(.flippedBit) {
            let place = world.dice.below(bytes.count)
            bytes[bytes.startIndex + place] ^= 1 << UInt8(world.dice.below(8))
            disk.files[name] = bytes
            world.reach(.damagedFile)
        }
        return bytes.count
    }

    func read(_ name: String, at offset: Int, count: Int) -> Data? {
        disk.files[name].map { Data($0.dropFirst(offset).prefix(count)) }
    }

    func append(_ parts: [Data], to name: String) throws {
        guard !isKilled else { return }
        let bytes = parts.reduce(Data(), +)
        if world.faults.strikes(.diskFull) {
            world.reach(.fullDisk)
            throw SystemError(code: ENOSPC)
        }
        guard !world.faults.strikes(.tornWrite) else {
            disk.apply(.append(name, bytes.prefix(world.dice.below(bytes.count))))
            isKilled = true
            return world.reach(.tornFile)
        }
        disk.apply(.append(name, bytes))
    }

    func overwrite(_ bytes: Data, at offset: Int, in name: String) throws {
        guard !isKilled else { return }
        guard !world.faults.strikes(.tornWrite) else {
            isKilled = true
            return world.reach(.tornFile)
        }
        disk.apply(.overwrite(name, offset, bytes))
    }

    func flush(_ name: String) throws { if !isKilled { disk.flush(name) } }

    func remove(_ name: String) -> Bool {
        guard !isKilled else { return true }
        guard disk.files[name] != nil else { return false }
        disk.apply(.remove(name))
        return true
    }

    func settle() { if !isKilled { disk.settle() } }
}

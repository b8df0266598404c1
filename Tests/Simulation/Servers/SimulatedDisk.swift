internal import FoundationEssentials
internal import Platform
internal import TwofoldServer

/// A disk with one directory, as a journaling file system keeps it: bytes are safe when they are flushed, names when the
/// directory is. Whatever is not safe may be gone after a loss of power, the newest changes first.
final class SimulatedDisk {
    fileprivate enum Change {
        case make(String, Data)
        case rename(String, String)
        case remove(String)
    }

    fileprivate var files: [String: Data] = [:]
    /// The names as they are on the disk for sure, and what has happened since.
    private var safe: [String: Data] = [:]
    fileprivate var unsettled: [Change] = []

    fileprivate func apply(_ change: Change) {
        Self.apply(change, to: &files)
        unsettled.append(change)
    }

    fileprivate func settle() {
        safe = files
        unsettled = []
    }

    private static func apply(_ change: Change, to files: inout [String: Data]) {
        switch change {
        case .make(let name, let bytes): files[name] = bytes
        case .rename(let name, let other):
            files[other] = files[name]
            files[name] = nil
        case .remove(let name): files[name] = nil
        }
    }

    /// The power fails: of the unsettled changes the first `kept` are on the disk.
    func losePower(keeping kept: Int) {
        for change in unsettled.prefix(kept) { Self.apply(change, to: &safe) }
        files = safe
        unsettled = []
    }

    var unsettledCount: Int { unsettled.count }

    /// The names of all files, sorted.
    var names: [String] { files.keys.sorted() }
}

/// The disk as one server's process sees it, until that ends.
final class SimulatedFiles: StateFiles {
    private let disk: SimulatedDisk
    private let world: World
    /// The process was killed while it wrote: nothing that it seems to do afterwards happens.
    private(set) var isKilled = false

    init(_ disk: SimulatedDisk, _ world: World) {
        self.disk = disk
        self.world = world
    }

    var names: [String] { disk.names }

    func read(_ name: String) -> Data? {
        guard var bytes = disk.files[name] else { return nil }
        if !bytes.isEmpty, world.faults.strikes(.flippedBit) {
            let place = world.dice.below(bytes.count)
            bytes[bytes.startIndex + place] ^= 1 << UInt8(world.dice.below(8))
            disk.files[name] = bytes
            world.reach(.damagedFile)
        }
        return bytes
    }

    func make(_ name: String, _ bytes: Data) throws {
        guard !isKilled else { return }
        if world.faults.strikes(.diskFull) {
            world.reach(.fullDisk)
            throw SystemError(code: ENOSPC)
        }
        guard !world.faults.strikes(.tornWrite) else {
            disk.apply(.make(name, bytes.prefix(world.dice.below(bytes.count))))
            isKilled = true
            return world.reach(.tornFile)
        }
        disk.apply(.make(name, bytes))
    }

    func rename(_ name: String, _ other: String) throws {
        if !isKilled { disk.apply(.rename(name, other)) }
    }

    func remove(_ name: String) -> Bool {
        guard !isKilled else { return true }
        guard disk.files[name] != nil else { return false }
        disk.apply(.remove(name))
        return true
    }

    func settle() { if !isKilled { disk.settle() } }
}

internal import CLinux
internal import Glibc
internal import Synchronization
internal import TwofoldProtocol

/// Memory that this process writes, and that others of the same user on this machine can read: where a
/// client finds a large payload, in place of having it sent through a socket.
///
///     byte 0    the stamp: changes before anything new is written
///     byte 64   the payload
///
/// A memfd, opened by others as /proc/<process>/fd/<descriptor>. It is sealed: it never shrinks, so no reader
/// can be stopped by that, and nobody else can write to it, so what the ledger keeps there stays what it was.
///
/// This is the room for memory that others see. `@unchecked Sendable` because only one request writes it, while
/// no message refers to it; afterwards it is only read.
final class SharedMemory: @unchecked Sendable {
    private static let payloadOffset = 64
    /// Each takes a descriptor, and these are needed for connections too.
    private static let maxCount = min(256, ProcessUsage.descriptorLimit / 4)
    private static let count = Atomic(0)

    let payload: UnsafeMutableRawBufferPointer
    private let memory: UnsafeMutableRawBufferPointer
    private let descriptor: Int32
    private let name = UInt64.random(in: .min ... .max)
    private var stamp = UInt64.random(in: .min ... .max)

    /// Memory with room for a payload of so many bytes; nil where the system gives none.
    init?(payload size: Int) {
        let (bytes, overflow) = size.addingReportingOverflow(Self.payloadOffset)
        guard !overflow, Self.count.add(1, ordering: .relaxed).newValue <= Self.maxCount,
            case let descriptor = twofold_sealed_memory("twofold-\(name.hexadecimal)", bytes), descriptor >= 0
        else {
            Self.count.subtract(1, ordering: .relaxed)
            return nil
        }
        guard let address = Self.map(descriptor, bytes) else {
            close(descriptor)
            Self.count.subtract(1, ordering: .relaxed)
            return nil
        }
        self.descriptor = descriptor
        memory = UnsafeMutableRawBufferPointer(start: address, count: bytes)
        payload = UnsafeMutableRawBufferPointer(rebasing: memory[Self.payloadOffset...])
        renew()
    }

    deinit {
        munmap(memory.baseAddress, memory.count)
        close(descriptor)
        Self.count.subtract(1, ordering: .relaxed)
    }

    /// Says that what lies here is about to go. A reader that still copies the last payload finds another stamp
    /// afterwards, and knows.
    func renew() {
        stamp &+= 1
        memory.storeBytes(of: stamp.littleEndian, as: UInt64.self)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
    }

    /// What a client has to know to read the first `size` bytes of the payload.
    func holding(size: Int) -> PayloadInMemory {
        var wire = PayloadInMemory()
        wire.memory = self.wire
        wire.size = UInt64(size)
        wire.stamp = stamp
        return wire
    }

    /// What a client has to know to open it.
    var wire: SharedMemoryMessage {
        var wire = SharedMemoryMessage()
        wire.process = UInt32(getpid())
        wire.descriptor = UInt32(descriptor)
        wire.name = name
        wire.size = UInt64(memory.count)
        return wire
    }

    /// Where it is from now on; afterwards nobody can map it for writing. Nil where that can't be had.
    private static func map(_ descriptor: Int32, _ bytes: Int) -> UnsafeMutableRawPointer? {
        let address = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        guard let address, address != MAP_FAILED else { return nil }
        guard twofold_seal_writing(descriptor) == 0 else {
            munmap(address, bytes)
            return nil
        }
        return address
    }
}

extension UInt64 {
    /// Its sixteen hexadecimal digits.
    fileprivate var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

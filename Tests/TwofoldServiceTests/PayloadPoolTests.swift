import Testing
import TwofoldProtocol
import TwofoldService

@Suite struct PayloadPoolTests {
    private let pool = PayloadPool(MemoryBudget(limit: .max))

    @Test(arguments: [1, 63, 64, 65, 100_000])
    func `a buffer has exactly the requested size and starts at a cache line`(size: Int) throws {
        let buffer = try pool.take(size: size)
        #expect(buffer.bytes.count == size)
        #expect(UInt(bitPattern: buffer.bytes.baseAddress) % 64 == 0)
        // All of the memory is writable.
        buffer.bytes.initializeMemory(as: UInt8.self, repeating: 7)
    }

    @Test(arguments: [40, 5000, 300_000])
    func `a new buffer shows no earlier content of its memory`(size: Int) throws {
        for _ in 0..<20 {
            let secret = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 64)
            secret.initializeMemory(as: UInt8.self, repeating: 0xaa)
            secret.deallocate()
            let pool = PayloadPool(MemoryBudget(limit: .max))
            #expect(try pool.take(size: size).bytes.allSatisfy { $0 == 0 })
        }
    }

    @Test func `a buffer without references is reused`() throws {
        let first = try ObjectIdentifier(pool.take(size: 100))
        for _ in 0..<10 { #expect(try ObjectIdentifier(pool.take(size: 100)) == first) }
    }

    @Test func `a buffer with a reference is not reused`() throws {
        let first = try pool.take(size: 100)
        let second = try pool.take(size: 100)
        let third = try pool.take(size: 100)
        #expect(first !== second && second !== third && first !== third)
        withExtendedLifetime((first, second, third)) {}
    }

    @Test func `another size gets another buffer`() throws {
        let small = try ObjectIdentifier(pool.take(size: 100))
        #expect(try ObjectIdentifier(pool.take(size: 101)) != small)
        #expect(try ObjectIdentifier(pool.take(size: 100)) == small)
    }

    @Test func `at most six buffers are kept`() throws {
        let others = Others()
        for size in 1...20 { try others.watch(pool.take(size: size)) }
        #expect(others.alive == 6)
    }

    @Test func `a freed pool frees its buffers`() throws {
        let others = Others()
        do {
            let pool = PayloadPool(MemoryBudget(limit: .max))
            try others.watch(pool.take(size: 10))
            #expect(others.alive == 1)
        }
        #expect(others.alive == 0)
    }
}

/// Weak references to buffers.
private final class Others {
    private struct Watched {
        weak var buffer: PayloadPool.Buffer?
    }

    private var watched: [Watched] = []

    func watch(_ buffer: PayloadPool.Buffer) { watched.append(Watched(buffer: buffer)) }

    var alive: Int { watched.filter { $0.buffer != nil }.count }
}

import Dispatch
import Glibc
import Testing

@testable import Platform

@Suite struct OwnedMemoryTests {
    @Test func `a process without limits is promised any amount`() throws {
        try #require(memoryLeft() == nil)
        _ = try MemoryPromise.make(1 << 45)
        let memory = try OwnedMemory(byteCount: 1000)
        #expect(memory.bytes.count == 1000 && UInt(bitPattern: memory.start) % 64 == 0)
        #expect(try OwnedMemory(byteCount: 0).bytes.isEmpty)
    }

    @Test func `memory that the system does not have is an error`() {
        #expect(throws: Reason.self) { _ = try OwnedMemory(byteCount: 1 << 60) }
    }

    @Test func `memory is refused if less than the reserve would stay free`() async {
        await #expect(processExitsWith: .success) {
            leave(MemoryPromise.kept + 50 << 20)
            do {
                let memory = try OwnedMemory(byteCount: 40 << 20)
                #expect(memory.bytes.count == 40 << 20)
                let refusal = #expect(throws: Reason.self) {
                    _ = try OwnedMemory(byteCount: 40 << 20)
                }
                #expect(refusal?.description.contains("ulimit -v") == true)
                #expect(memoryLeft()! >= MemoryPromise.kept)
            }
            // The memory was returned.
            _ = try OwnedMemory(byteCount: 40 << 20)
        }
    }

    @Test func `two promises do not share memory`() async {
        await #expect(processExitsWith: .success) {
            leave(MemoryPromise.kept + 50 << 20)
            var first: MemoryPromise? = try MemoryPromise.make(30 << 20)
            #expect(throws: Reason.self) { try MemoryPromise.make(30 << 20) }
            #expect(throws: Reason.self) { _ = try OwnedMemory(byteCount: 30 << 20) }
            #expect(first != nil)
            first = nil
            #expect(throws: Never.self) { try MemoryPromise.make(30 << 20) }
        }
    }

    @Test func `threads that allocate at the same time leave the reserve free`() async {
        await #expect(processExitsWith: .success) {
            leave(MemoryPromise.kept + 100 << 20)
            #expect(prepareForMemoryLimit(memoryLeft()!))
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                for _ in 0..<200 {
                    guard let memory = try? OwnedMemory(byteCount: 40 << 20) else { continue }
                    #expect(memoryLeft()! >= 64 << 20)
                    withExtendedLifetime(memory.bytes) {}
                }
            }
        }
    }

    @Test func `a process whose limit is too low is refused`() async {
        await #expect(processExitsWith: .success) {
            leave(MemoryPromise.kept - 1 << 20)
            #expect(!prepareForMemoryLimit(memoryLeft()!))
            leave(MemoryPromise.kept + 1 << 20)
            #expect(prepareForMemoryLimit(memoryLeft()!))
        }
    }
}

/// Limits the process's address space to its current size plus this many bytes.
private func leave(_ bytes: Int) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
    limit.rlim_cur = rlim_t(ProcessUsage.addressSpaceBytes! + bytes)
    setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
}

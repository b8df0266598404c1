import Foundation
import Testing

@testable import Platform

@Suite struct ResourcesTests {
    @Test func `open descriptors are counted`() async {
        await #expect(processExitsWith: .success) {
            // Dispatch's threads open a file now and then, which falsifies one of the differences.
            let differences = try (0..<9).map { _ in
                let before = ProcessUsage.descriptors
                let pipes = try (0..<20).map { _ in try Wakeup() }
                return withExtendedLifetime(pipes) { ProcessUsage.descriptors - before }
            }
            #expect(differences.sorted()[4] == 40)
        }
    }

    @Test func `memory that was written is resident, and not available`() async {
        await #expect(processExitsWith: .success) {
            let memory = [UInt8](repeating: 1, count: 100 << 20)
            let machine = Int(ProcessInfo.processInfo.physicalMemory)
            #expect(ProcessUsage.residentBytes > memory.count)
            #expect((1...machine - memory.count).contains(availableMemory()))
        }
    }

    @Test func `the number of processors is at least one and at most the machine's`() {
        #expect(availableProcessors() >= 1)
        #expect(availableProcessors() <= ProcessInfo.processInfo.processorCount)
    }

    @Test func `threads can be started, and the memory for their stacks is known`() {
        #expect((1 << 14...1 << 30).contains(threadStackBytes()))
        #expect(canStartThreads(4))
    }

    @Test func `threads are tried again after a pause, during which Dispatch may have ended them`() async {
        await #expect(processExitsWith: .success) {
            #expect(canStartThreads(2, at: 1_000_000_000))
            limitDescriptors(leaving: 1)
            #expect(canStartThreads(2, at: 2_000_000_000))
            #expect(canStartThreads(1, at: 3_000_000_000))
            #expect(!canStartThreads(2, at: 5_000_000_000))
            #expect(!canStartThreads(2, at: 5_100_000_000))
        }
    }

    /// Dispatch would end the process.
    @Test func `no threads are used while no descriptor is left`() async {
        await #expect(processExitsWith: .success) {
            #expect(canStartThreads(2, at: 1_000_000_000))
            limitDescriptors(leaving: 0)
            #expect(!canStartThreads(2, at: 1_500_000_000))
            limitDescriptors(leaving: 5)
            #expect(canStartThreads(2, at: 2_000_000_000))
            #expect(!canStartThreads(3, at: 2_500_000_000))
            limitDescriptors(leaving: 6)
            #expect(canStartThreads(3, at: 3_000_000_000))
        }
    }

    @Test func `the limit on descriptors is raised as far as the system allows`() async {
        await #expect(processExitsWith: .success) {
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var limit = rlimit()
            getrlimit(resource, &limit)
            limit.rlim_cur = 64
            try #require(setrlimit(resource, &limit) == 0)
            for _ in 0..<2 { #expect(try raiseDescriptorLimit() == Int(clamping: limit.rlim_max)) }
        }
    }
}

/// Lets this process open `count` more descriptors.
private func limitDescriptors(leaving count: Int) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let free = (0...count).map { _ in dup(STDIN_FILENO) }
    for descriptor in free { close(descriptor) }
    limit.rlim_cur = rlim_t(free[count])
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

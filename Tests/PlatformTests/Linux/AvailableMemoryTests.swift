import Testing

@testable import Platform

@Suite struct AvailableMemoryTests {
    /// Returns the memory limit that Twofold finds in a root directory with these files.
    private func limit(_ files: [String: String]) throws -> Int? {
        try withRoot(files) { cgroupMemoryLimit(root: $0) }
    }

    @Test func `a cgroup of version 2 is limited by itself and its parents`() throws {
        #expect(
            try limit([
                "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": "3000000\n",
            ]) == 3_000_000)
        #expect(
            try limit([
                "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1000000\n",
                "sys/fs/cgroup/memory.max": "3000000\n",
            ]) == 1_000_000)
    }

    @Test(arguments: ["memory", "cpu,memory"])
    func `a cgroup of version 1 is also limited`(controllers: String) throws {
        #expect(
            try limit([
                "proc/self/cgroup": "9:name=systemd:/x\n4:\(controllers):/a/b\n0::/x\n",
                "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "2000000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            ]) == 2_000_000)
    }

    @Test func `a container sees its limit at the top, regardless of its cgroup's name on the host`() throws {
        #expect(
            try limit([
                "proc/self/cgroup": "4:memory:/docker/0123\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
            ]) == 2_000_000)
    }

    @Test func `without a cgroup, or without its limit, the result is nil`() throws {
        #expect(try limit([:]) == nil)
        #expect(try limit(["proc/self/cgroup": "0::/\n4:memory:/\n"]) == nil)
        #expect(
            try limit(["proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"]) == nil)
    }
}

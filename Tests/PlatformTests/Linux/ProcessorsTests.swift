import Testing

@testable import Platform

@Suite struct ProcessorCountTests {
    @Test(
        arguments: [
            ("max 100000\n", nil), ("100000 100000\n", 1), ("200000 100000\n", 2), ("150000 100000\n", 2),
            ("50000 100000\n", 1), ("1 100000\n", 1), ("1600000 100000", 16), ("40000 20000\n", 2),
        ] as [(String, Int?)])
    func `cpu max grants quota over period, rounded up, and "max" is unlimited`(text: String, limit: Int?) {
        #expect(processorLimit(cpuMax: text) == limit)
    }

    @Test(arguments: [
        "", "\n", "100000", "100000 100000 100000", "0 100000", "100000 0", "-1 100000", "100000 -1", "a b",
        "1.5 1",
    ])
    func `a limit that can't be parsed is unlimited`(text: String) {
        #expect(processorLimit(cpuMax: text) == nil)
    }

    /// Returns the processor limit that Twofold finds in a root directory with these files.
    private func limit(_ files: [String: String]) throws -> Int? {
        try withRoot(files) { cgroupProcessorLimit(root: $0) }
    }

    @Test func `a cgroup of version 2 is limited by itself and its parents`() throws {
        #expect(
            try limit([
                "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            ]) == 3)
    }

    @Test(arguments: ["cpu", "cpu,cpuacct"])
    func `a cgroup of version 1 is also limited by itself and its parents`(controllers: String) throws {
        let cgroup = "sys/fs/cgroup/cpu"
        #expect(
            try limit([
                "proc/self/cgroup": "9:name=systemd:/x\n4:\(controllers):/a/b\n0::/x\n",
                "\(cgroup)/a/b/cpu.cfs_quota_us": "800000\n", "\(cgroup)/a/b/cpu.cfs_period_us": "100000\n",
                "\(cgroup)/a/cpu.cfs_quota_us": "75000\n", "\(cgroup)/a/cpu.cfs_period_us": "50000\n",
                "\(cgroup)/cpu.cfs_quota_us": "-1\n", "\(cgroup)/cpu.cfs_period_us": "100000\n",
            ]) == 2)
    }

    @Test func `a quota of version 1 that is unlimited or has no period sets no limit`() throws {
        let (member, cgroup) = (["proc/self/cgroup": "4:cpu:/\n"], "sys/fs/cgroup/cpu")
        let quota = "\(cgroup)/cpu.cfs_quota_us"
        let period = ["\(cgroup)/cpu.cfs_period_us": "100000\n"]
        #expect(try limit(member.merging([quota: "200000\n"]) { $1 }) == nil)
        #expect(try limit(member.merging(period) { $1 }.merging([quota: "-1\n"]) { $1 }) == nil)
        #expect(try limit([:]) == nil)
    }
}

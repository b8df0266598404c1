import Foundation
import Testing
import TwofoldTestSupport

@testable import TwofoldSimulation

@Suite struct ModelRunTests {
    /// Returns the world after a run.
    private func world(seed: UInt64, requests: Int, disabled: UInt64 = 0) -> World {
        let run = ModelRun(seed: seed, disabled: disabled, suppressed: [])
        run.run(requests: requests)
        return run.world
    }

    @Test func `despite all faults, each request is executed once and each client finishes`() {
        var marks = [Int](repeating: 0, count: Mark.allCases.count)
        // The last one has a rare fault: a loss of power undoes names.
        for seed in Array(1...60) + [250 as UInt64] {
            let world = world(seed: seed, requests: 2000)
            #expect(world.violation == nil, "seed \(seed)")
            #expect(world.requests >= 2000)
            for (mark, count) in world.marks.enumerated() { marks[mark] += count }
        }
        #expect(Mark.allCases.filter { marks[$0.rawValue] == 0 } == [])
    }

    @Test func `the same seed gives the same run, and another seed gives another run`() {
        let reports = [3, 3, 4].map { world(seed: $0, requests: 1000).report }
        #expect(reports[0] == reports[1])
        #expect(reports[0] != reports[2])
    }

    @Test func `a run whose kinds of faults are all disabled has no faults`() {
        let world = world(seed: 5, requests: 1000, disabled: .max)
        #expect(world.faults.counts.allSatisfy { $0 == 0 })
        #expect(world.violation == nil)
    }

    @Test func `a suppressed fault does not happen, and the faults before it do`() {
        var all = Faults(seed: 9, disabled: 0, suppressed: [])
        var others = Faults(seed: 9, disabled: 0, suppressed: [2])
        var happened: [Int] = []
        for _ in 0..<10_000 where all.ordinal < 5 {
            for fault in Fault.allCases {
                let (before, left, right) = (all.ordinal, all.strikes(fault), others.strikes(fault))
                if left, !right { happened.append(before) }
            }
        }
        #expect(happened == [2])
    }
}

@Suite struct EventQueueTests {
    @Test func `events come in the order of their times, then of their insertion`() {
        var dice = Dice(seed: 1)
        var queue = EventQueue<Int>()
        var expected: [(time: Int, event: Int)] = []
        for event in 0..<1000 {
            let time = dice.below(50)
            queue.add(event, at: time)
            expected.append((time, event))
        }
        expected.sort { ($0.time, $0.event) < ($1.time, $1.event) }
        var found: [Int] = []
        while let (_, event) = queue.next() { found.append(event) }
        #expect(found == expected.map(\.event))
    }
}

@Suite struct SimulatedDiskTests {
    private let world = World(seed: 1, clients: 0, disabled: .max, suppressed: [])

    @Test func `a loss of power undoes the newest names that were not settled`() throws {
        let disk = SimulatedDisk()
        let files = SimulatedFiles(disk, world)
        try files.append([Data([1])], to: "a")
        files.settle()
        try files.append([Data([2])], to: "b")
        try files.append([Data([3])], to: "b")
        #expect(files.remove("a"))
        #expect(disk.names == ["b"])
        disk.losePower(keeping: 1)
        #expect(disk.names == ["a", "b"])
        #expect(files.read("b", at: 0, count: 9) == Data([2]))
    }

    @Test func `a flushed file has all of its bytes under every name`() throws {
        let disk = SimulatedDisk()
        let files = SimulatedFiles(disk, world)
        try files.append([Data([1])], to: "a")
        try files.append([Data([2])], to: "b")
        try files.append([Data([3])], to: "a")
        try files.flush("a")
        disk.losePower(keeping: 1)
        #expect(disk.names == ["a"])
        #expect(files.read("a", at: 0, count: 9) == Data([1, 3]))
    }

    @Test func `replaced bytes survive a loss of power once they are flushed`() throws {
        let disk = SimulatedDisk()
        let files = SimulatedFiles(disk, world)
        try files.append([Data([1, 2, 3])], to: "a")
        try files.flush("a")
        files.settle()
        for isFlushed in [false, true] {
            try files.overwrite(Data([9]), at: 1, in: "a")
            if isFlushed { try files.flush("a") }
            disk.losePower(keeping: 0)
            #expect(files.read("a", at: 0, count: 9) == Data([1, isFlushed ? 9 : 2, 3]))
        }
    }
}

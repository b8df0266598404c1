import Foundation
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
    func `an unreadable limit is unlimited`(text: String) {
        #expect(processorLimit(cpuMax: text) == nil)
    }

    @Test func `there is at least one processor, and no more than the machine has`() {
        #expect(availableProcessors() >= 1)
        #expect(availableProcessors() <= ProcessInfo.processInfo.processorCount)
    }
}

import Dispatch
import Platform
import Testing
import TwofoldCore
import TwofoldService

@Suite struct MemoryBudgetTests {
    @Test func `a reservation counts until its end`() throws {
        let budget = MemoryBudget(limit: 100)
        var first: MemoryBudget.Reservation? = try budget.reserve(60)
        let second = try budget.reserve(40)
        #expect(budget.used == 100)
        let exhausted = try #require(throws: Reason.self) { try budget.reserve(1) }
        #expect(exhausted.description.contains("max_bytes = 100"))
        #expect(first?.bytes == 60)
        first = nil
        #expect(budget.used == 40)
        #expect(try budget.reserve(60).bytes == 60)
        withExtendedLifetime(second) {}
    }

    @Test func `a reservation whose sum overflows is refused`() throws {
        let budget = MemoryBudget(limit: .max)
        let reservation = try budget.reserve(10)
        #expect(throws: Reason.self) { try budget.reserve(.max) }
        withExtendedLifetime(reservation) {}
    }

    @Test func `a part is reserved as a whole and released with its last reservation`() throws {
        let budget = MemoryBudget(limit: 70)
        var part: MemoryBudget? = try budget.part(70, upTo: 70)
        #expect(budget.used == 70)
        var piece: MemoryBudget.Reservation? = try part!.reserve(70)
        #expect(throws: Reason.self) { try part!.reserve(1) }
        part = nil
        #expect(budget.used == 70)
        piece = nil
        #expect(budget.used == 0)
        withExtendedLifetime(piece) {}
    }

    @Test func `what is too large for a part is reserved in the whole budget`() throws {
        let budget = MemoryBudget(limit: 100)
        let part = try budget.part(30, upTo: 20)
        for (bytes, used) in [(10, 30), (21, 51), (20, 30), (15, 30)] {
            let reservation = try part.reserve(bytes)
            #expect(budget.used == used)
            withExtendedLifetime(reservation) {}
        }
        let full = [try part.reserve(20), try part.reserve(10), try part.reserve(5)]
        #expect(budget.used == 35)
        withExtendedLifetime(full) {}
    }

    @Test func `threads that reserve and release leave nothing reserved`() {
        let budget = MemoryBudget(limit: 1000)
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            for size in 1..<2000 { _ = try? budget.reserve(size % 300) }
        }
        #expect(budget.used == 0)
    }

    @Test func `a pool drops its free buffers before it refuses`() throws {
        let budget = MemoryBudget(limit: 100)
        let pool = PayloadPool(budget)
        _ = try pool.take(size: 60)
        #expect(budget.used == 60)
        let held = try pool.take(size: 70)
        #expect(budget.used == 70)
        #expect(throws: EnvironmentError.self) { try pool.take(size: 31) }
        withExtendedLifetime(held) {}
    }
}

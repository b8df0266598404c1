import FoundationEssentials
import Testing
import TwofoldCore
import TwofoldOptimum
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

/// Tests the memory that sessions reserve in their shared budget.
@Suite struct SessionMemoryTests {
    private func environment(
        _ request: CreateRequest, _ budget: MemoryBudget, tables: String = "/nowhere"
    ) throws -> ServedEnvironment {
        try ServedEnvironment(
            request,
            EnvironmentService(
                limits: Limits(), workers: Workers(threads: 2), tables: tables, budget: budget))
    }

    /// Returns the environment of a session that has been reset.
    private func session(
        lanes: Int, _ budget: MemoryBudget, _ change: (inout CreateRequest) -> Void = { _ in }
    ) throws -> ServedEnvironment {
        let session = try environment(createRequest(lanes: lanes, change), budget)
        try bytes(of: (0..<UInt64(lanes)).map { $0 }).withUnsafeBytes {
            _ = try session.execute(.seededReset, payload: $0)
        }
        return session
    }

    @Test func `a session whose longest reply is kept can be stepped, even if others have taken all memory`()
        throws
    {
        let budget = MemoryBudget(limit: 1 << 20)
        let session = try session(lanes: 5, budget) { $0.autoresetMode = .sameStep }
        let kept = try session.execute(.rollout(steps: 10) { $0.random = .init() }, payload: nil)
        let others = try budget.reserve(budget.limit - budget.used)
        try [0, 1, 2, 3, 0 as UInt8].withUnsafeBytes { (actions: UnsafeRawBufferPointer) in
            _ = try session.execute(.step(.init()), payload: actions)
        }
        withExtendedLifetime((kept, others)) {}
    }

    @Test func `steps are executed while the reply to an earlier step waits to be sent`() throws {
        let budget = MemoryBudget(limit: 1 << 20)
        let session = try session(lanes: 5, budget) { $0.autoresetMode = .sameStep }
        let others = try budget.reserve(budget.limit - budget.used)
        let actions: [UInt8] = [0, 1, 2, 3, 0]
        func step() throws -> Frame? {
            try actions.withUnsafeBytes { try session.execute(.step, payload: $0).payload }
        }
        let waiting = try step()
        var stored = try step()
        for _ in 0..<3 { stored = try step() }
        withExtendedLifetime((waiting, stored, others)) {}
    }

    @Test func `a table of optimal values counts in the budget once for all sessions`() throws {
        let path = "\(FileManager.default.temporaryDirectory.path)/twofold-\(UInt64.random(in: 0 ... .max))"
        defer { try? FileManager.default.removeItem(atPath: path) }
        var config = Game2048.Config()
        (config.rows, config.columns) = (2, 3)
        let size = try OptimumSolver(OptimumProblem(config, .score), workers: Workers(threads: 1))
            .solve(in: TableDirectory(path)) { _ in }.bytes
        let request = createRequest(lanes: 1) {
            ($0.game2048.rows, $0.game2048.columns) = (2, 3)
            $0.extraInfos = ["regret"]
        }

        let budget = MemoryBudget(limit: 1 << 30)
        let service = EnvironmentService(
            limits: Limits(), workers: Workers(threads: 1), tables: path, budget: budget)
        let one = try ServedEnvironment(request, service)
        #expect(budget.used == size + one.bytes)
        let other = try ServedEnvironment(request, service)
        #expect(budget.used == size + one.bytes + other.bytes)

        let small = MemoryBudget(limit: size - 1)
        let refused = try #require(throws: EnvironmentError.self) {
            try environment(request, small, tables: path)
        }
        #expect(refused.kind == .resourceExhausted && refused.field == "extra_infos")
        #expect(refused.message.contains("max_bytes = \(size - 1)"), "\(refused.message)")
        #expect(small.used == 0)
    }

    @Test func `a refused rollout releases the reservation for its policy`() throws {
        let budget = MemoryBudget(limit: 1 << 30)
        let session = try session(lanes: 1, budget)
        let before = budget.used
        let tooDeep = Request.OneOf_Op.rollout(steps: 1) { $0.expectimax.depth = 9 }
        #expect(throws: EnvironmentError.self) { try session.execute(tooDeep, payload: nil) }
        #expect(budget.used == before)
        // A stored policy stays reserved, and a refused policy does not change that.
        let search = Request.OneOf_Op.rollout(steps: 1) { $0.expectimax.depth = 1 }
        _ = try session.execute(search, payload: nil)
        #expect(budget.used >= before + 1 << 20)
        let after = budget.used
        #expect(throws: EnvironmentError.self) { try session.execute(tooDeep, payload: nil) }
        #expect(budget.used == after)
    }

    /// Returns a request that sends the form of a network with one tuple, without its weights.
    private func network(_ cells: [UInt8]) -> Request.OneOf_Op {
        var request = PolicyRequest()
        request.network.exponents = 16
        request.network.tuples = [.init()]
        request.network.tuples[0].cells = Data(cells)
        return .policy(request)
    }

    @Test func `a network of another form replaces the last one only if there is memory for both`() throws {
        let (small, large) = (16 * 16 * 4, 16 * 16 * 16 * 16 * 4)
        let bytes = try session(lanes: 1, MemoryBudget(limit: 1 << 30)).bytes
        let budget = MemoryBudget(limit: bytes + small + large)
        let session = try session(lanes: 1, budget)
        let before = budget.used
        _ = try session.execute(network([0, 1, 2, 3]), payload: nil)
        let error = try #require(throws: EnvironmentError.self) {
            try session.execute(network([4, 5, 6, 7]), payload: nil)
        }
        #expect(error.kind == .resourceExhausted && error.field == "policy")
        #expect(budget.used == before + large)
        // Weights of the same form go into the memory of the old ones.
        _ = try session.execute(network([0, 1, 2, 3]), payload: nil)
        #expect(budget.used == before + large)
        _ = try session.execute(network([0, 1]), payload: nil)
        #expect(budget.used == before + small)
    }

    @Test func `a new network releases the tables of the last policy`() throws {
        let budget = MemoryBudget(limit: 1 << 30)
        let session = try session(lanes: 1, budget)
        let before = budget.used
        let search = Request.OneOf_Op.rollout(steps: 1) { $0.expectimax.depth = 1 }
        _ = try session.execute(search, payload: nil)
        #expect(budget.used >= before + 1 << 20)
        _ = try session.execute(network([0, 1]), payload: nil)
        #expect(budget.used < before + 1 << 20)
    }

    @Test func `a policy that looks at afterstates reserves memory for them`() throws {
        let lanes = 1000
        func used(_ policy: RolloutRequest.OneOf_Source) throws -> Int {
            let budget = MemoryBudget(limit: 1 << 30)
            let session = try session(lanes: lanes, budget)
            _ = try session.execute(.rollout(steps: 1) { $0.source = policy }, payload: nil)
            return withExtendedLifetime(session) { budget.used }
        }
        #expect(try used(.greedy(.init())) >= used(.random(.init())) + lanes * 4 * 16)
    }

    @Test func `a snapshot and a restore reserve memory for the numbers of the lanes`() throws {
        let budget = MemoryBudget(limit: 1 << 30)
        let session = try session(lanes: 10_000, budget)
        var restore = RestoreRequest()
        (restore.count, restore.lanes) = (1, true)
        let lane = bytes(of: [5])
        func refusal(_ op: Request.OneOf_Op, _ payload: [UInt8]) throws -> EnvironmentError? {
            let others = try budget.reserve(budget.limit - budget.used)
            defer { withExtendedLifetime(others) {} }
            return payload.withUnsafeBytes { bytes in
                #expect(throws: EnvironmentError.self) { try session.execute(op, payload: bytes) }
            }
        }
        let snapshot = Request.OneOf_Op.snapshot(.init())
        #expect(try refusal(snapshot, lane)?.kind == .resourceExhausted)
        let frame = try lane.withUnsafeBytes { try session.execute(snapshot, payload: $0).payload }
        let blob = try #require(frame).withBytes { Array($0) }
        #expect(try refusal(.restore(restore), lane + blob)?.kind == .resourceExhausted)
        try (lane + blob).withUnsafeBytes { _ = try session.execute(.restore(restore), payload: $0) }
    }

    @Test func `a restored session reserves memory for its network`() throws {
        let session = try session(lanes: 1, MemoryBudget(limit: 1 << 30))
        _ = try session.execute(network([0, 1, 2, 3]), payload: nil)
        var saved = SavedSession()
        try session.save(into: &saved)
        let budget = MemoryBudget(limit: 1 << 30)
        let restored = try environment(createRequest(lanes: 1), budget)
        let before = budget.used
        try restored.restore(from: saved)
        #expect(budget.used == before + 16 * 16 * 16 * 16 * 4)
    }

    @Test func `a session is saved and restored even if no memory is left in the budget`() throws {
        let budget = MemoryBudget(limit: 1 << 30)
        let session = try session(lanes: 10_000, budget)
        let others = try budget.reserve(budget.limit - budget.used)
        var saved = SavedSession()
        try session.save(into: &saved)
        withExtendedLifetime(others) {}
        let restored = try environment(
            createRequest(lanes: 10_000), MemoryBudget(limit: session.bytes))
        try restored.restore(from: saved)
        #expect(restored.wasReset)
    }

    @Test func `a session of one board reserves a whole block`() throws {
        func boards(_ lanes: Int) throws -> Int {
            let request = createRequest(lanes: lanes)
            let session = try environment(request, MemoryBudget(limit: 1 << 30))
            return session.boardMemory.bytes - request.frame.count
        }
        let (one, block, two) = (try boards(1), try boards(64), try boards(65))
        #expect(one == block && one > 2880 + 24_576)
        // A second block adds memory for a second thread.
        #expect(two > one + 2880 + 24_576)
        #expect(try boards(6400) < 99 * 5000 + two)
    }

    @Test func `a create reserves what it allocates, and a create that does not fit reserves nothing`() throws
    {
        let request = createRequest(lanes: 1000) {
            $0.extraInfos = ["episode_return"]
            $0.autoresetMode = .sameStep
        }
        let bytes = try environment(request, MemoryBudget(limit: 1 << 30)).bytes
        let exact = MemoryBudget(limit: bytes)
        let session = try environment(request, exact)
        #expect(exact.used == bytes)
        withExtendedLifetime(session) {}
        for limit in stride(from: 0, to: bytes, by: bytes / 50) {
            let small = MemoryBudget(limit: limit)
            let error = try #require(throws: EnvironmentError.self) {
                try environment(request, small)
            }
            #expect(error.kind == .resourceExhausted && error.field == "num_envs")
            #expect(small.used == 0)
        }
    }

    @Test func `a session also reserves memory for its create request`() throws {
        let short = createRequest(lanes: 1)
        let long = createRequest(lanes: 1) { $0.clientArguments = String(repeating: "a", count: 1000) }
        let more = long.frame.count - short.frame.count
        #expect(more > 1000)
        let budget = MemoryBudget(limit: 1 << 30)
        let small = try environment(short, budget)
        let before = budget.used
        let large = try environment(long, budget)
        #expect(budget.used - before == small.bytes + more)
        #expect(large.bytes == small.bytes + more)
    }

    @Test func `a rollout reserves memory for its arrays while it runs`() throws {
        let lanes = 10_000
        let bytes = try session(lanes: lanes, MemoryBudget(limit: 1 << 30)).bytes
        let reply = lanes * 50
        for (room, fits) in [(reply + lanes * 10, false), (reply + lanes * 100, true)] {
            let budget = MemoryBudget(limit: bytes + room)
            let session = try session(lanes: lanes, budget)
            let before = budget.used
            let random = Request.OneOf_Op.rollout(steps: 1) { $0.random = .init() }
            var kept = 0
            if fits {
                let payload = try #require(try session.execute(random, payload: nil).payload)
                kept = try #require(payload.owner as? PayloadPool.Buffer).bytes.count
                #expect(kept <= reply)
            } else {
                let error = try #require(throws: EnvironmentError.self) {
                    try session.execute(random, payload: nil)
                }
                #expect(error.kind == .resourceExhausted)
            }
            #expect(budget.used == before + kept)
        }
    }
}

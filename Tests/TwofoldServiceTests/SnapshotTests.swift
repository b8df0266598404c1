import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService

/// Tests snapshot and restore requests and their payloads.
@Suite struct SnapshotTests {
    private func restoring(
        _ count: UInt64, lanes: Bool = false, rows: Bool = false, seeds: Bool = false
    ) -> Request.OneOf_Op {
        var request = RestoreRequest()
        request.count = count
        request.lanes = lanes
        request.rows = rows
        request.seeds = seeds
        return .restore(request)
    }

    private let snapshot = Request.OneOf_Op.snapshot(.init())

    @Test(arguments: [1, 2])
    func `a snapshot of all or some lanes is restored in its own or another session`(
        threads: Int
    ) throws {
        let session = try Session(threads: threads) { $0.numEnvs = 200 }
        try session.reset(seed: 5)
        let actions = (0..<200).map { UInt8($0 % 4) }
        for _ in 0..<20 { try session.step(actions) }
        let reported = try session.observe().payload
        let answer = try session.call(snapshot)
        #expect(answer.result == .snapshot(.init()))
        let blob = try #require(answer.payload)
        try session.step(actions)
        let next = try session.step(actions).payload

        let restored = try session.call(restoring(200), blob)
        #expect(restored.result == .restore(.init()))
        #expect(restored.payload == reported)
        try session.step(actions)
        #expect(try session.step(actions).payload == next)

        // Restore some lanes to other lanes of a session that was never reset.
        try session.call(restoring(200), blob)
        let some = try #require(try session.call(snapshot, seeds([7, 199])).payload)
        let other = try Session { $0.numEnvs = 3 }
        try other.call(
            restoring(3, lanes: true, rows: true), packed(seeds([2, 0, 1]), seeds([0, 1, 1]), some))
        let copies = try other.step([3, 3, 3])
        let originals = try session.step(actions)
        for array in session.created.step.arrays {
            #expect(
                try (0..<3).map { try other.stepped(array.name, lane: $0, of: copies) }
                    == [199, 199, 7].map { try session.stepped(array.name, lane: $0, of: originals) })
        }
    }

    @Test func `new seeds are in the order of the lanes`() throws {
        let session = try Session { $0.numEnvs = 1 }
        try session.reset(seed: 5)
        let blob = try #require(try session.call(snapshot).payload)
        let forks = try Session { $0.numEnvs = 3 }
        let payload = packed(seeds([2, 0, 1]), seeds([0, 0, 0]), seeds([9, 8, 9]), blob)
        try forks.call(restoring(3, lanes: true, rows: true, seeds: true), payload)
        let next = try forks.call(.reset(.init()))
        let alone = try Session { $0.numEnvs = 3 }
        // Nothing was drawn since then, so the next start is the first one of each seed's stream.
        let fresh = try alone.call(.reset(announcing(seeds: true)), seeds([8, 9, 9]))
        #expect(next.payload == fresh.payload)
    }

    @Test func `errors for wrong lanes, rows and payloads name them, and nothing changes`() throws {
        let session = try Session()
        let twin = try Session()
        for one in [session, twin] {
            try one.reset(seed: 40)
            try one.step([0, 1, 2, 3])
        }
        let blob = try #require(try session.call(snapshot).payload)
        let two = try #require(try session.call(snapshot, seeds([1, 2])).payload)
        var damaged = blob
        damaged[60] ^= 1
        let named = restoring(2, lanes: true)
        let wrong: [(Request.OneOf_Op, [UInt8]?, String, Int?)] = [
            (snapshot, [], "lanes", nil),
            (snapshot, [0, 0, 0, 0], "lanes", nil),
            (snapshot, seeds([4]), "lanes", nil),
            (snapshot, seeds([.max]), "lanes", nil),
            (snapshot, seeds([2, 0, 2]), "lanes", 2),
            (restoring(4), nil, "blob", nil),
            (restoring(4), [], "blob", nil),
            (restoring(4), damaged, "blob", nil),
            (restoring(4), Array(blob.dropLast()), "blob", nil),
            (restoring(4), two, "blob", nil),
            (restoring(0), blob, "lanes", nil),
            (restoring(3), blob, "lanes", nil),
            (restoring(5, lanes: true), packed(seeds([0, 1, 2, 3, 4]), blob), "lanes", nil),
            (restoring(.max, lanes: true, rows: true, seeds: true), blob, "lanes", nil),
            (named, packed(seeds([1, 1]), two), "lanes", 1),
            (named, packed(seeds([0, 4]), two), "lanes", nil),
            (named, packed(seeds([0, 1]), blob), "blob", nil),
            (named, [1, 2, 3], "payload", nil),
            (restoring(2, lanes: true, rows: true), packed(seeds([0, 1]), seeds([0, 2]), two), "rows", nil),
            (restoring(4, seeds: true), packed(seeds([0, 1]), blob), "blob", nil),
        ]
        let before = try session.observe().payload
        for (op, payload, field, lane) in wrong {
            let error = try session.refusal(op, payload)
            #expect(error.kind == .invalidArgument)
            #expect(error.field == field, "\(error.message)")
            #expect(error.lane == lane)
            #expect(try session.observe().payload == before)
        }
        for _ in 0..<5 {
            #expect(try session.step([0, 1, 2, 3]).payload == twin.step([0, 1, 2, 3]).payload)
        }
    }

    @Test func `rules longer than any game's are refused before they are read`() throws {
        let session = try Session()
        try session.reset()
        let blob = try #require(try session.call(snapshot).payload)
        let own = blob[12..<16].reversed().reduce(0) { $0 << 8 | Int($1) }
        /// Returns a snapshot of the same lanes with other rules and a matching checksum.
        func forged(_ rules: [UInt8]) -> [UInt8] {
            let size = (0..<4).map { UInt8(truncatingIfNeeded: rules.count >> (8 * $0)) }
            var bytes = Array(blob[..<12]) + size
            bytes += blob[16..<28]
            bytes += rules
            bytes += blob[(28 + own)...].dropLast(4)
            let checksum = bytes.withUnsafeBytes(Checksum.of)
            return bytes + (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (8 * $0)) }
        }
        try session.call(restoring(4), forged(Array(blob[28..<28 + own])))
        for size in [4097, 1 << 20] {
            let error = try session.refusal(restoring(4), forged([UInt8](repeating: 10, count: size)))
            #expect(error.kind == .invalidArgument && error.field == "blob")
            #expect(error.message.contains("\(size) bytes of rules"))
        }
        let error = try session.refusal(restoring(4), forged([UInt8](repeating: 10, count: 4096)))
        #expect(error.field == "environment_id")
    }

    @Test func `a reset and a restore cost more than a step of the same lanes`() throws {
        let session = try Session { $0.numEnvs = 2048 }.session
        #expect(session.cost(.step(.init())) < 80_000)
        for op in [.reset(.init()), .restore(.init())] as [Request.OneOf_Op] {
            #expect(session.cost(op) > 80_000)
        }
    }

    @Test func `the bytes that a restore reads add to its cost, even with few lanes`() throws {
        let session = try Session().session
        #expect(session.cost(restoring(4), payload: 500) < 80_000)
        #expect(session.cost(restoring(4), payload: 1 << 20) > 500_000)
    }

    @Test(arguments: [
        WrongCreate("rows", "size") { $0.game2048.rows = 3 },
        WrongCreate("columns", "size") { $0.game2048.columns = 5 },
        WrongCreate("goal", "goal") { $0.game2048.goal = 1024 },
        WrongCreate("stop_at_goal", "stop_at_goal") { $0.game2048.stopAtGoal = true },
        WrongCreate("four_probability", "four_probability") { $0.game2048.fourProbability = 0.2 },
        WrongCreate("start_tiles", "start_tiles") { $0.game2048.startTiles = 3 },
        WrongCreate("illegal_action", "illegal_action") { $0.game2048.illegalAction = .terminate },
    ])
    func `the error for a snapshot with other rules names the argument`(other: WrongCreate) throws {
        let source = try Session(other.change)
        try source.reset()
        let blob = try #require(try source.call(snapshot).payload)
        let session = try Session()
        let error = try session.refusal(restoring(4), blob)
        #expect(error.kind == .invalidArgument)
        #expect(error.field == other.field)
    }

    private func returning(lanes: UInt64 = 4) throws -> Session {
        try Session {
            $0.numEnvs = lanes
            $0.maxEpisodeSteps = 30
            $0.extraInfos = ["episode_return"]
        }
    }

    @Test func `the returns of episodes continue after a snapshot with returns is restored`() throws {
        let session = try returning(lanes: 100)
        try session.reset(seed: 3)
        let actions = (0..<100).map { UInt8($0 % 4) }
        for _ in 0..<20 { try session.step(actions) }
        let blob = try #require(try session.call(snapshot).payload)
        let some = try #require(try session.call(snapshot, seeds([70, 3])).payload)
        var replies: [[UInt8]?] = []
        for _ in 0..<40 { replies.append(try session.step(actions).payload) }
        let last = try session.step(actions)

        let other = try returning(lanes: 100)
        for one in [session, other] {
            try one.call(restoring(100), blob)
            for reply in replies { #expect(try one.step(actions).payload == reply) }
        }
        // Rows that are restored to other lanes keep their returns.
        let swapped = try returning(lanes: 3)
        let rows = packed(seeds([2, 0, 1]), seeds([0, 1, 1]), some)
        try swapped.call(restoring(3, lanes: true, rows: true), rows)
        var answer: Answer?
        for _ in 0..<41 { answer = try swapped.step([3, 3, 2]) }
        let stepped = try #require(answer)
        for (lane, source) in [3, 3, 70].enumerated() {
            #expect(
                try swapped.stepped("episode_return", lane: lane, of: stepped)
                    == session.stepped("episode_return", lane: source, of: last))
        }
    }

    @Test func `a snapshot has returns only if its session keeps them, and is refused if they are missing`()
        throws
    {
        let (session, plain) = (try returning(), try Session { $0.maxEpisodeSteps = 30 })
        for one in [session, plain] {
            try one.reset(seed: 40)
            for _ in 0..<5 { try one.step([0, 1, 2, 3]) }
        }
        let blob = try #require(try session.call(snapshot).payload)
        let old = try #require(try plain.call(snapshot).payload)
        #expect(blob[8] == 2 && old[8] == 1)
        // Only the returns are added, between the streams and the checksum.
        #expect(blob.count == old.count + 4 * 8)
        #expect(blob[12..<old.count - 4] == old[12..<old.count - 4])

        let before = try session.observe().payload
        let error = try session.refusal(restoring(4), old)
        #expect(error.kind == .invalidArgument && error.field == "extra_infos")
        #expect(error.message.contains("episode_return"))
        #expect(try session.observe().payload == before)
        // A session without returns does not need them in the snapshot.
        try plain.call(restoring(4), blob)
        #expect(try plain.observe().payload == before)
        #expect(try plain.call(snapshot).payload == old)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func `a return that is not a number is refused`(value: Double) throws {
        let session = try returning()
        try session.reset()
        let blob = try #require(try session.call(snapshot).payload)
        let bytes = Array(blob.dropLast(4 + 8)) + withUnsafeBytes(of: value) { Array($0) }
        let checksum = bytes.withUnsafeBytes(Checksum.of)
        let forged = bytes + (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (8 * $0)) }
        let error = try session.refusal(restoring(4), forged)
        #expect(error.kind == .invalidArgument && error.field == "blob")
        #expect(error.message.contains("row 3"))
    }

    @Test func `arguments that are not rules may differ`() throws {
        let source = try Session()
        try source.reset()
        let blob = try #require(try source.call(snapshot).payload)
        let session = try Session {
            $0.autoresetMode = .sameStep
            $0.maxEpisodeSteps = 3
            $0.game2048.goal = 2048
        }
        try session.call(restoring(4), blob)
        try session.step([0, 1, 2, 3])
    }
}

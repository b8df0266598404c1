import Testing
import TwofoldProtocol
import TwofoldService

/// Tests the payloads of SAME_STEP. In a step's payload, the final arrays of ended episodes follow the other arrays.
@Suite struct SameStepTests {
    private func session(
        _ mode: Twofold_V1_AutoresetMode = .sameStep, lanes: UInt64 = 4, threads: Int = 1
    ) throws -> Session {
        try Session(threads: threads) {
            $0.numEnvs = lanes
            $0.autoresetMode = mode
            $0.maxEpisodeSteps = 3
        }
    }

    private func finals(of answer: Answer) throws -> PayloadLayoutMessage? {
        guard case .step(let reply) = answer.result else {
            Issue.record("no step's reply")
            return nil
        }
        return reply.hasFinals ? reply.finals : nil
    }

    @Test(arguments: [1, 5, 64, 200])
    func `create reports the longest finals, in SAME_STEP only`(lanes: UInt64) throws {
        let created = try session(lanes: lanes).created
        #expect(created.finals.arrays.map(\.name) == ["lanes"] + created.reset.arrays.map(\.name))
        #expect(created.finals.arrays[0].dtype == .uint64)
        #expect(created.finals.arrays.allSatisfy { $0.shape.first == lanes && $0.offset % 64 == 0 })
        #expect(created.finals.arrays[0].offset >= created.step.size)
        for mode in [Twofold_V1_AutoresetMode.unspecified, .nextStep, .disabled] {
            #expect(try !session(mode, lanes: lanes).created.hasFinals)
        }
    }

    @Test func `if no episode has ended, a reply is the same as in the other modes`() throws {
        let (session, other) = (try session(), try session(.nextStep))
        try session.reset()
        try other.reset()
        let (mine, theirs) = (try session.step([0, 1, 2, 3]), try other.step([0, 1, 2, 3]))
        #expect(mine.payload == theirs.payload)
        #expect(try finals(of: mine) == nil)
    }

    @Test(arguments: [1, 2])
    func `if episodes have ended, their last rows follow the step's arrays`(threads: Int) throws {
        let lanes = 300
        let session = try session(lanes: UInt64(lanes), threads: threads)
        let twin = try self.session(.disabled, lanes: UInt64(lanes))
        for one in [session, twin] { try one.reset(seed: 9) }
        let actions = (0..<lanes).map { UInt8($0 % 4) }
        // One third of the lanes starts one step later, so that not all episodes end together.
        let late = (0..<lanes).map { UInt8($0 % 3 == 0 ? 1 : 0) }
        for one in [session, twin] {
            try one.step(actions)
            try one.call(.reset(announcing(mask: true)), late)
            try one.step(actions)
        }
        let (mine, last) = (try session.step(actions), try twin.step(actions))
        let ended = (0..<lanes).filter { late[$0] == 0 }
        let layout = try #require(try finals(of: mine))
        #expect(layout.size == UInt64(try #require(mine.payload).count))
        #expect(layout.size <= session.created.finals.size)
        #expect(layout.arrays.allSatisfy { Int($0.shape[0]) == ended.count && $0.offset % 64 == 0 })
        #expect(try session.array("lanes", of: mine, in: layout) == seeds(ended.map { UInt64($0) }))
        // The final rows equal the lanes' state without autoreset.
        for array in session.created.reset.arrays {
            let rows = try session.array(array.name, of: mine, in: layout)
            let expected = try ended.flatMap { try twin.stepped(array.name, lane: $0, of: last) }
            #expect(rows == expected, "\(array.name)")
        }
        // The step reports the old episode; all other arrays belong to the new one.
        let started = try twin.call(.reset(announcing(mask: true)), late.map { 1 - $0 })
        for array in session.created.step.arrays {
            for lane in ended {
                let isOfTheStep = ["reward", "terminated", "truncated"].contains(array.name)
                #expect(
                    try session.stepped(array.name, lane: lane, of: mine)
                        == (isOfTheStep
                            ? twin.stepped(array.name, lane: lane, of: last)
                            : twin.observed(array.name, lane: lane, of: started)))
            }
        }
        #expect(try session.observe().payload == started.payload)
    }

    @Test func `the longest payload has the finals of all episodes`() throws {
        let session = try session()
        try session.reset()
        for _ in 0..<2 { try session.step([0, 1, 2, 3]) }
        let answer = try session.step([0, 1, 2, 3])
        #expect(try finals(of: answer) == session.created.finals)
        #expect(answer.payload?.count == Int(session.created.finals.size))
    }

    @Test func `the gaps in the finals are zero`() throws {
        let (session, other) = (try session(lanes: 5), try session(lanes: 5))
        try session.reset(seed: 3)
        try other.reset(seed: 3)
        _ = try other.observe()
        for step in 1...3 {
            let (mine, theirs) = (try session.step([0, 1, 2, 3, 0]), try other.step([0, 1, 2, 3, 0]))
            #expect(mine.fill != theirs.fill)
            #expect(mine.payload == theirs.payload)
            #expect((try finals(of: mine) != nil) == (step == 3))
        }
    }
}

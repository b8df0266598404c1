import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService

@Suite struct RolloutTests {
    private func request(
        _ steps: UInt32 = 2, _ change: (inout RolloutRequest) -> Void = { $0.random = .init() }
    ) -> Request.OneOf_Op {
        var request = RolloutRequest()
        request.steps = steps
        request.maxPayloadBytes = 1 << 20
        change(&request)
        return .rollout(request)
    }

    private func reply(_ answer: Answer) throws -> RolloutReply {
        guard case .rollout(let reply) = answer.result else { throw NotARollout() }
        return reply
    }

    private struct NotARollout: Error {}

    private func session(_ change: (inout CreateRequest) -> Void = { _ in }) throws -> Session {
        let session = try Session(change)
        try session.reset(seed: 3)
        return session
    }

    @Test func `a reply lists its own arrays`() throws {
        let session = try session()
        let answer = try session.call(
            request(5) {
                $0.random = .init()
                $0.infos = ["score"]
            })
        let reply = try reply(answer)
        #expect(reply.steps == 5)
        #expect(
            reply.arrays.arrays.map(\.name) == [
                "observation", "action_mask", "action", "reward", "terminated", "truncated", "valid", "score",
            ])
        #expect(
            reply.arrays.arrays.map(\.shape) == [
                [6, 4, 4, 4], [6, 4, 4], [5, 4], [5, 4], [5, 4], [5, 4], [5, 4], [5, 4],
            ])
        #expect(reply.arrays.arrays.allSatisfy { $0.offset % 64 == 0 })
        #expect(reply.arrays.size == UInt64(try #require(answer.payload).count))
    }

    @Test(arguments: [Twofold_V1_AutoresetMode.nextStep, .sameStep, .disabled])
    func `the infos include the returns of episodes, as in steps`(mode: Twofold_V1_AutoresetMode) throws {
        let change: (inout CreateRequest) -> Void = {
            $0.autoresetMode = mode
            $0.maxEpisodeSteps = 7
            $0.extraInfos = ["episode_return"]
        }
        let (session, twin) = (try session(change), try session(change))
        let steps = mode == .disabled ? 7 : 30
        let actions = (0..<steps * 4).map { UInt8($0 * $0 % 7 % 4) }
        let answer = try session.call(
            request(UInt32(steps)) {
                $0.actions = .init()
                $0.infos = ["episode_return"]
            }, actions)
        let reply = try reply(answer)
        let returns = try session.array("episode_return", of: answer, in: reply.arrays)
        #expect(reply.arrays.arrays.last?.dtype == .float64)
        // With SAME_STEP there is only room for this many finals.
        try #require(reply.steps >= 7)
        let stepped = try (0..<Int(reply.steps)).flatMap { step in
            let answer = try twin.step(Array(actions[step * 4..<step * 4 + 4]))
            return try twin.array("episode_return", of: answer, in: twin.created.step)
        }
        #expect(returns == stepped)
    }

    @Test func `a long rollout is answered in parts with every source of actions`() throws {
        let large: (inout CreateRequest) -> Void = {
            $0.numEnvs = 1
            $0.game2048.rows = 8
            $0.game2048.columns = 8
        }
        let steps = 2_000_000
        for given in [false, true] {
            let session = try session(large)
            let actions = given ? [UInt8](repeating: 0, count: steps) : nil
            let answer = try session.call(
                request(UInt32(steps)) {
                    if given { $0.actions = .init() } else { $0.random = .init() }
                    $0.maxPayloadBytes = 1 << 29
                }, actions)
            let reply = try reply(answer)
            #expect((1..<steps).contains(Int(reply.steps)))
            #expect(answer.payload?.count == Int(reply.arrays.size))
        }
    }

    @Test func `a rollout requests no more memory than it can fill before it answers`() throws {
        let session = try session { $0.numEnvs = 1000 }
        var asked = 0
        let huge = request(.max) {
            $0.random = .init()
            $0.maxPayloadBytes = 1 << 40
        }
        #expect(throws: EnvironmentError.self) {
            _ = try session.session.execute(huge, payload: nil) { (size) throws(EnvironmentError) in
                asked = size
                throw .exhausted("", "this much memory is not available")
            }
        }
        #expect((28_000..<(256 << 20) + 28_000).contains(asked))
        // The completed steps fit.
        let steps = try Int(reply(session.call(huge)).steps)
        #expect(steps * 28 * session.lanes < asked)
    }

    @Test func `after a stop, a rollout answers after its step, and a search is refused`() throws {
        let session = try session()
        let twin = try self.session()
        session.phase.enter(.draining)
        for steps in [1, 1000] as [UInt32] {
            let answer = try session.call(request(steps))
            #expect(try reply(answer).steps == 1)
            #expect(try answer.payload == twin.call(request(1)).payload)
        }
        let search = request { $0.expectimax.depth = 1 }
        #expect(try session.refusal(search).kind == .resourceExhausted)
        #expect(try session.observe().payload == twin.observe().payload)
        #expect(try session.call(request(1)).payload == twin.call(request(1)).payload)
    }

    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled])
    func `a rollout has as many steps as fit into the reply, and at least one`(mode: AutoresetMode) throws {
        let session = try session {
            $0.autoresetMode = mode == .nextStep ? .nextStep : mode == .sameStep ? .sameStep : .disabled
        }
        for bytes in [0, 1000, 5000, 20_000] as [UInt64] {
            let answer = try session.call(
                request(1000) {
                    $0.random = .init()
                    $0.maxPayloadBytes = bytes
                })
            let reply = try reply(answer)
            #expect(reply.steps >= 1 && reply.steps < 1000)
            let size = try #require(answer.payload).count
            #expect(reply.steps == 1 || size <= bytes)
            #expect(size == Int(reply.hasFinals ? reply.finals.size : reply.arrays.size))
        }
    }

    @Test func `same-step finals follow the steps, and each row has the number of its step`() throws {
        let session = try session {
            $0.autoresetMode = .sameStep
            $0.maxEpisodeSteps = 7
        }
        let answer = try session.call(request(50))
        let reply = try reply(answer)
        // There is room for all episodes to end twice. With four lanes, 8 rows are too few for a third end.
        #expect(reply.steps == 14)
        let names = reply.finals.arrays.map(\.name)
        #expect(names.prefix(3) == ["steps", "lanes", "observation"])
        #expect(reply.finals.arrays.allSatisfy { $0.shape[0] == 8 && $0.offset >= reply.arrays.size })
        let payload = try #require(answer.payload)
        func numbers(_ index: Int) -> [UInt64] {
            let array = reply.finals.arrays[index]
            return (0..<8).map { row in
                payload.withUnsafeBytes {
                    $0.loadUnaligned(fromByteOffset: Int(array.offset) + 8 * row, as: UInt64.self)
                }
            }
        }
        #expect(numbers(0) == [6, 6, 6, 6, 13, 13, 13, 13])
        #expect(numbers(1) == [0, 1, 2, 3, 0, 1, 2, 3])
    }

    @Test func `the error for a wrong rollout has the field, and nothing changes`() throws {
        let session = try session()
        let before = try session.observe().payload
        func expect(
            _ op: Request.OneOf_Op, _ payload: [UInt8]? = nil,
            _ kind: EnvironmentError.Kind = .invalidArgument, field: String, lane: Int? = nil,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let error = try session.refusal(op, payload)
            #expect(error.kind == kind && error.field == field, sourceLocation: sourceLocation)
            #expect(error.lane == lane, sourceLocation: sourceLocation)
            #expect(try session.observe().payload == before, sourceLocation: sourceLocation)
        }
        try expect(request(0), field: "steps")
        try expect(request(2) { _ in }, field: "policy")
        try expect(request(), [1], field: "payload")
        try expect(request(2) { $0.actions = .init() }, field: "payload")
        try expect(request(2) { $0.actions = .init() }, [0, 0, 0, 0], field: "payload")
        try expect(
            request(2) { $0.actions = .init() }, [0, 0, 0, 0, 0, 4, 0, 0], field: "actions", lane: 1)
        try expect(
            request {
                $0.random = .init()
                $0.infos = ["nothing"]
            }, field: "infos")
        try expect(request { $0.ntuple = .init() }, nil, .failedPrecondition, field: "policy")
        try expect(request { $0.expectimax.depth = 0 }, field: "depth")
        try expect(
            request {
                $0.expectimax.depth = 1
                $0.expectimax.extension = 99
            }, field: "extension")
        let fresh = try Session()
        #expect(try fresh.refusal(request()).kind == .failedPrecondition)
    }

    @Test func `a network arrives in pieces and can be used when it is complete`() throws {
        let session = try session()
        func give(_ change: (inout PolicyRequest) -> Void) -> Request.OneOf_Op {
            var request = PolicyRequest()
            change(&request)
            return .policy(request)
        }
        func expect(
            _ op: Request.OneOf_Op, _ payload: [UInt8]?, _ kind: EnvironmentError.Kind, field: String,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let error = try session.refusal(op, payload)
            #expect(error.kind == kind && error.field == field, sourceLocation: sourceLocation)
        }
        let eight = [UInt8](repeating: 0, count: 8)
        try expect(give { _ in }, nil, .invalidArgument, field: "part")
        try expect(give { $0.weights = .init() }, eight, .failedPrecondition, field: "policy")
        let form = give {
            $0.network.exponents = 2
            var tuple = Twofold_V1_NTuple()
            tuple.cells = Data([0, 1])
            $0.network.tuples = [tuple]
        }
        try expect(form, eight, .invalidArgument, field: "payload")
        guard case .policy(let reply) = try session.call(form).result else { throw NotARollout() }
        #expect(reply.bytes == 16 && reply.received == 0)
        try expect(request { $0.ntuple = .init() }, nil, .failedPrecondition, field: "policy")
        try expect(give { $0.weights.offset = 8 }, eight, .invalidArgument, field: "offset")
        try expect(give { $0.weights = .init() }, nil, .invalidArgument, field: "payload")
        _ = try session.call(give { $0.weights.offset = 0 }, eight)
        try expect(request { $0.ntuple = .init() }, nil, .failedPrecondition, field: "policy")
        guard case .policy(let whole) = try session.call(give { $0.weights.offset = 8 }, eight).result
        else { throw NotARollout() }
        #expect(whole.received == 16)
        #expect(try self.reply(session.call(request { $0.ntuple = .init() })).steps == 2)
        try expect(give { $0.weights.offset = 16 }, eight, .invalidArgument, field: "payload")
    }

    /// Plays `steps` steps, in as many requests as the time limit of a reply makes necessary. Returns the actions.
    private func play(
        _ steps: Int, in session: Session, _ change: (inout RolloutRequest) -> Void
    ) throws -> [UInt8] {
        var actions: [UInt8] = []
        while actions.count < steps * session.lanes {
            let answer = try session.call(request(UInt32(steps - actions.count / session.lanes), change))
            actions += try session.array("action", of: answer, in: reply(answer).arrays)
        }
        return actions
    }

    /// Returns the request for a network of these tuples, and its weights. Other seeds give other weights.
    private func network(
        _ tuples: [[UInt8]], seed: UInt64
    ) -> (form: Request.OneOf_Op, weights: Request.OneOf_Op, payload: [UInt8]) {
        var (form, weights) = (PolicyRequest(), PolicyRequest())
        form.network.exponents = 12
        form.network.symmetric = true
        form.network.tuples = tuples.map { cells in
            var tuple = Twofold_V1_NTuple()
            tuple.cells = Data(cells)
            return tuple
        }
        weights.weights = .init()
        var generator = Generator(seed: seed)
        let values = (0..<tuples.reduce(0) { $0 + ($1.count == 1 ? 12 : 144) }).map { _ in
            Float(generator.next(below: 1000))
        }
        return (.policy(form), .policy(weights), values.withUnsafeBytes { Array($0) })
    }

    @Test(arguments: [[[0, 1]], [[0, 4]], [[0, 1], [5]]] as [[[UInt8]]])
    func `a rollout plays with the session's newest network`(tuples: [[UInt8]]) throws {
        let (session, twin) = (try session(), try session())
        let (old, new) = (network([[0, 1]], seed: 1), network(tuples, seed: 2))
        _ = try session.call(old.form)
        _ = try session.call(old.weights, old.payload)
        _ = try play(5, in: session) { $0.ntuple = .init() }
        for one in [session, twin] {
            _ = try one.call(new.form)
            #expect(try one.refusal(request { $0.ntuple = .init() }).kind == .failedPrecondition)
            _ = try one.call(new.weights, new.payload)
            try one.reset(seed: 3)
        }
        let (mine, its) = try (
            play(30, in: session) { $0.ntuple = .init() }, play(30, in: twin) { $0.ntuple = .init() }
        )
        #expect(mine == its)
    }

    @Test func `a saved session keeps its network, even if not all weights have arrived`() throws {
        let (session, twin) = (try session(), try session())
        let (form, weights, payload) = network([[0, 1]], seed: 1)
        for one in [session, twin] {
            _ = try one.call(form)
            _ = try one.call(weights, Array(payload[..<400]))
        }
        var saved = SavedSession()
        try session.session.save(into: &saved)
        let restored = try Session()
        try restored.session.restore(from: saved)
        var rest = PolicyRequest()
        rest.weights.offset = 400
        for one in [twin, restored] { _ = try one.call(.policy(rest), Array(payload[400...])) }
        let (mine, its) = try (
            play(30, in: restored) { $0.ntuple = .init() }, play(30, in: twin) { $0.ntuple = .init() }
        )
        #expect(mine == its)
    }

    @Test func `the policies' random streams follow the seeds of resets and restores`() throws {
        let session = try session()
        func random() throws -> [UInt8] { try play(20, in: session) { $0.random = .init() } }
        let first = try random()
        let blob = try #require(try session.call(.snapshot(.init())).payload)
        let second = try random()
        var restore = RestoreRequest()
        restore.count = 4
        try session.call(.restore(restore), blob)
        #expect(try random() == second)
        restore.seeds = true
        try session.call(.restore(restore), packed(seeds([5, 6, 7, 8]), blob))
        let other = try random()
        #expect(other != second)
        try session.call(.restore(restore), packed(seeds([5, 6, 7, 8]), blob))
        #expect(try random() == other)
        // On equal boards, only the policies' streams can make the first actions differ.
        restore.rows = true
        try session.call(.restore(restore), packed(seeds([0, 0, 0, 0]), seeds([5, 6, 7, 8]), blob))
        #expect(Set(try play(1, in: session) { $0.random = .init() }).count > 1)
        try session.reset(seed: 3)
        #expect(try random() == first)
    }

    @Test func `a search that takes longer than the limit is refused`() throws {
        var limits = Limits()
        limits.maxSearch = .zero
        let session = try Session(limits: limits)
        try session.reset()
        let error = try session.refusal(request { $0.expectimax.depth = 1 })
        #expect(error.kind == .resourceExhausted && error.field == "policy")
    }

    @Test func `a search plays the same if a network leaves no memory for its tables`() throws {
        var limits = Limits()
        limits.maxPolicyBytes = 576
        let (session, twin) = (try Session(limits: limits), try Session())
        for one in [session, twin] { try one.reset() }
        _ = try session.call(network([[0, 1]], seed: 1).form)
        let (mine, its) = try (
            play(20, in: session) { $0.expectimax.depth = 2 }, play(20, in: twin) { $0.expectimax.depth = 2 }
        )
        #expect(mine == its)
    }
}

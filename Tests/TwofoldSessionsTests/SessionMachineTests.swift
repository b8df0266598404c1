import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

/// Tests the machine the way that carriers use it: it takes bytes and returns effects.
@Suite struct SessionMachineTests {
    private let id = sessionBytes(1)
    private let machine = SessionMachine(ServiceSettings(threads: 1), keys: { ([:], 0) }, at: .start)

    private func frame(_ bytes: [UInt8]) -> Frame { bytes.withUnsafeBytes { Frame(copying: $0) } }

    private func take(
        _ op: Request.OneOf_Op, seq: UInt64, _ payload: [UInt8]? = nil, from route: Route = Route()
    ) -> [SessionMachine.Effect] {
        var effects: [SessionMachine.Effect] = []
        machine.take(
            header: frame(Request(op, session: id, seq: seq).bytes), payload: payload.map(frame), from: route,
            into: &effects)
        return effects
    }

    @discardableResult
    private func finish(_ work: Work) -> [SessionMachine.Effect] {
        var effects: [SessionMachine.Effect] = []
        machine.finish(work, work.perform(machine.service), at: .start, into: &effects)
        return effects
    }

    /// Executes a request and returns the sent reply.
    @discardableResult
    private func execute(_ op: Request.OneOf_Op, seq: UInt64, _ payload: [UInt8]? = nil) throws -> Reply {
        let work = try #require(take(op, seq: seq, payload).first?.work)
        let sent = try #require(finish(work).compactMap(\.sent).first)
        return try Reply(bytes: sent.reply.header)
    }

    private func open() throws {
        try execute(.create(lanes: 1), seq: 1)
        try execute(.seededReset, seq: 2, [UInt8](repeating: 0, count: 8))
    }

    @Test func `a create costs more than a step of the same lanes`() throws {
        #expect(Work.cost(of: createRequest(lanes: 2048)) > 80_000)
    }

    @Test func `a large blob for few lanes is read on a queue`() throws {
        try open()
        var restore = RestoreRequest()
        restore.count = 1
        for (bytes, place) in [(100, Work.Place.here), (1 << 22, .queue)] {
            let blob = [UInt8](repeating: 0, count: bytes)
            let work = try #require(take(.restore(restore), seq: 3, blob).first?.work)
            #expect(machine.place(of: work) == place)
            finish(work)
        }
    }

    @Test func `the rules are applied to many boards on a queue`() throws {
        for (boards, place) in [(1, Work.Place.here), (300_000, .queue)] {
            let payload = [UInt8](repeating: 1, count: 16 * boards)
            let work = try #require(take(.expand(.legal, boards: boards), seq: 0, payload).first?.work)
            #expect(machine.place(of: work) == place && machine.inProgress == 1)
            finish(work)
        }
    }

    @Test func `a request is performed and answered, and its repeat gets the stored reply`() throws {
        try open()
        let work = try #require(take(.step, seq: 3, [0]).first?.work)
        let first = try #require(finish(work).first?.sent?.reply)
        #expect(try Reply(bytes: first.header).seq == 3 && first.payload != nil)
        let again = take(.step, seq: 3, [0])
        #expect(again.count == 1 && again[0].sent?.reply === first)
        #expect(machine.statistics.counters.executed == 3 && machine.statistics.counters.resent == 1)
    }

    @Test func `a repeat of work in progress has no effect, and gets the reply`() throws {
        try open()
        let (old, new) = (Route(), Route())
        let work = try #require(take(.step, seq: 3, [0], from: old).first?.work)
        #expect(take(.step, seq: 3, [0], from: new).isEmpty)
        #expect(machine.inProgress == 1 && machine.statistics.counters.parked == 1)
        let sent = finish(work).compactMap(\.sent)
        #expect(sent.count == 1 && sent[0].route === new)
        #expect(machine.inProgress == 0)
    }

    @Test func `a resume that another one replaces is counted as parked`() throws {
        try open()
        let work = try #require(take(.step, seq: 3, [0]).first?.work)
        var resume = ResumeRequest()
        for (holder, parked) in [(7, 0), (8, 1), (9, 2)] as [(UInt8, UInt64)] {
            resume.holder = sessionBytes(holder)
            #expect(take(.resume(resume), seq: 0).isEmpty)
            #expect(machine.statistics.counters.parked == parked)
        }
        #expect(finish(work).compactMap(\.sent).count == 2, "of the step and of the last resume")
    }

    @Test func `resets and steps are executed, even if others have taken all memory`() throws {
        let lanes = 10_000
        try execute(.create(lanes: lanes), seq: 1)
        let budget = machine.service.budget
        let others = try budget.reserve(budget.limit - budget.used)
        var longest = ResetRequest()
        (longest.seeds, longest.mask, longest.boards) = (true, true, true)
        let bytes = [UInt8](repeating: 1, count: lanes * (8 + 1 + 16))
        for seq in stride(from: 2, to: 8, by: 2) as StrideTo<UInt64> {
            #expect(try execute(.reset(longest), seq: seq, bytes).error.message == "")
            #expect(try execute(.step, seq: seq + 1, [UInt8](repeating: 0, count: lanes)).error.message == "")
        }
        withExtendedLifetime(others) {}
    }

    @Test func `a session begins with its create and ends with its close`() throws {
        let create = try #require(take(.create(lanes: 1), seq: 1).first?.work)
        guard case .began(let entry)? = finish(create).first else {
            Issue.record("the session did not begin")
            return
        }
        let close = try #require(take(.close, seq: 2).first?.work)
        guard case .ended(let ended, "closed")? = finish(close).first else {
            Issue.record("the session did not end")
            return
        }
        #expect(entry === ended && entry.id == SessionID(id))
        #expect(machine.ledger.openCount == 0)
    }

    @Test func `a session that was idle for too long ends and is counted`() throws {
        try open()
        var effects: [SessionMachine.Effect] = []
        machine.endIdle(since: .start + .seconds(1), at: .start + .seconds(90), into: &effects)
        guard case .ended(let entry, "idle for 90 s")? = effects.first, effects.count == 1 else {
            Issue.record("the session did not end")
            return
        }
        #expect(entry.id == SessionID(id))
        #expect(machine.statistics.counters.sessionsExpired == 1 && machine.ledger.openCount == 0)
    }

    @Test func `steps count once for each board, in rollouts too`() throws {
        try execute(.create(lanes: 3), seq: 1)
        try execute(.seededReset, seq: 2, [UInt8](repeating: 0, count: 24))
        try execute(.step, seq: 3, [0, 1, 2])
        var rollout = RolloutRequest()
        (rollout.steps, rollout.maxPayloadBytes) = (5, 1 << 20)
        rollout.random = .init()
        let steps = try execute(.rollout(rollout), seq: 4).rollout.steps
        #expect(steps > 0 && machine.statistics.counters.steps == UInt64(3 + 3 * steps))
    }

    /// A request that is executed outside a session.
    private static func expand(boards: Int) -> (op: Request.OneOf_Op, payload: [UInt8]) {
        var expand = ExpandRequest()
        (expand.environmentID, expand.count) = ("twofold/Game2048-v0", UInt64(boards))
        expand.operation = .legal
        return (.expand(expand), [UInt8](repeating: 1, count: 16 * boards))
    }

    @Test func `too many expand requests at a time are refused, until one of them has ended`() throws {
        let (op, payload) = Self.expand(boards: 1)
        let waiting = try (0..<256).map { _ in try #require(take(op, seq: 0, payload).first?.work) }
        let refused = try #require(take(op, seq: 0, payload).first?.sent)
        #expect(try Reply(bytes: refused.reply.header).error.code == .resourceExhausted)
        for work in waiting { #expect(finish(work).first?.sent != nil) }
        #expect(take(op, seq: 0, payload).first?.work != nil)
    }

    @Test func `statistics requests that have ended make room for others`() throws {
        for _ in 0..<40 {
            let work = try #require(take(.stats(.init()), seq: 0).first?.work)
            #expect(finish(work).first?.sent != nil)
        }
    }

    @Test func `during a stop, statistics are still reported, and say that the server stops`() throws {
        #expect(try !execute(.stats(.init()), seq: 0).stats.draining)
        for phase in [Phase.draining, .refusing, .late] {
            machine.service.phase.enter(phase)
            let work = try #require(take(.stats(.init()), seq: 0).first?.work)
            #expect(!work.isTooLate(in: phase))
            let sent = try #require(finish(work).compactMap(\.sent).first)
            #expect(try Reply(bytes: sent.reply.header).stats.draining)
        }
    }

    @Test func `a stop refuses expand requests, and accepted searches before other accepted requests`() throws
    {
        try open()
        var search = RolloutRequest()
        (search.steps, search.expectimax) = (1, .init())
        for (op, payload, isSearch) in [(.rollout(search), nil, true), (.step, [0], false)]
            as [(Request.OneOf_Op, [UInt8]?, Bool)]
        {
            let work = try #require(take(op, seq: 3, payload).first?.work)
            #expect(!work.isTooLate(in: .draining) && work.isTooLate(in: .late))
            #expect(work.isTooLate(in: .refusing) == isSearch)
            var effects: [SessionMachine.Effect] = []
            machine.finish(work, .failure(.stopping), at: .start, into: &effects)
        }
        machine.service.phase.enter(.refusing)
        let (expand, payload) = Self.expand(boards: 1)
        let refused = try #require(take(expand, seq: 0, payload).first?.sent)
        #expect(try Reply(bytes: refused.reply.header).error.code == .shuttingDown)
    }

    @Test func `a resume takes no payload`() throws {
        try open()
        var resume = ResumeRequest()
        resume.holder = sessionBytes(7)
        let refused = try #require(take(.resume(resume), seq: 0, [1]).first?.sent)
        #expect(try Reply(bytes: refused.reply.header).error.field == "payload")
    }

    @Test func `the payload of a waiting expand request is counted in the memory`() throws {
        let (op, payload) = Self.expand(boards: 1000)
        var work = take(op, seq: 0, payload).first?.work
        #expect(work != nil && machine.service.budget.used > 16_000)
        work = nil
        #expect(machine.service.budget.used == 0)
    }

    @Test func `a header of more than 256 KiB is refused`() throws {
        var hello = HelloRequest()
        hello.protocolVersion = 1
        hello.client = String(repeating: "a", count: 1 << 18)
        let excess = Request(.hello(hello), session: id).bytes.count - 1 << 18
        for (length, isRefused) in [(1 << 18, false), (1 << 18 + 1, true)] {
            hello.client = String(repeating: "a", count: length - excess)
            let sent = try #require(take(.hello(hello), seq: 0).compactMap(\.sent).first)
            let error = try Reply(bytes: sent.reply.header).error
            #expect(error.message.contains("has \(length) bytes; at most 262144") == isRefused)
        }
    }

    @Test func `a payload above the limit is refused`() throws {
        var settings = ServiceSettings(threads: 1)
        settings.limits.maxMessageBytes = 15
        let machine = SessionMachine(settings, keys: nil, at: .start)
        let (op, payload) = Self.expand(boards: 1)
        var effects: [SessionMachine.Effect] = []
        machine.take(
            header: frame(Request(op).bytes), payload: frame(payload), from: Route(), into: &effects)
        let refused = try #require(effects.first?.sent)
        #expect(try Reply(bytes: refused.reply.header).error.code == .resourceExhausted)
    }

    @Test func `statistics show a client only its own sessions, the oldest first, and its name`() throws {
        let machine = SessionMachine(
            ServiceSettings(threads: 1), keys: { (["alice": "Alice", "bob": "Bob"], 7) }, at: .start)
        var effects: [SessionMachine.Effect] = []
        func ask(_ request: Request, of client: String?, at second: Int) throws -> Reply {
            let (now, header) = (Moment.start + .seconds(second), frame(request.bytes))
            effects = []
            machine.take(
                header: header, payload: nil, from: Route(client, arrived: now), into: &effects)
            let work = try #require(effects.first?.work)
            effects = []
            machine.finish(work, work.perform(machine.service), at: now, into: &effects)
            return try Reply(bytes: #require(effects.compactMap(\.sent).first).reply.header)
        }
        for (number, client) in ["alice", "bob", "alice", nil].enumerated() {
            let create = Request(.create(lanes: 1), session: sessionBytes(UInt8(number)), seq: 1)
            _ = try ask(create, of: client, at: number)
        }
        let keepalive = Request(.keepalive(.init()), session: sessionBytes(0), seq: 2)
        _ = try ask(keepalive, of: "alice", at: 7)
        let stats = Request(.stats(.init()))
        let mine = try ask(stats, of: "alice", at: 10).stats.sessions
        #expect(mine.map(\.id) == [0, 2].map { (byte: UInt8) in "\(SessionID(sessionBytes(byte))!)" })
        #expect(mine.map(\.client) == ["Alice", "Alice"])
        #expect(mine.map(\.age) == [10, 8] && mine.map(\.idle) == [3, 8])
        #expect(mine.allSatisfy { $0.environmentID == "twofold/Game2048-v0" && $0.bytes > 16 })
        let all = try ask(stats, of: nil, at: 10).stats
        #expect(all.sessions.map(\.client) == ["Alice", "Bob", "Alice", ""])
        #expect(all.counters.keysRefused == 7)
    }

    @Test func `an in-process machine counts no requests, because its routes have no time`() throws {
        let machine = SessionMachine(ServiceSettings(threads: 1), keys: nil, at: .start)
        var effects: [SessionMachine.Effect] = []
        var hello = HelloRequest()
        hello.protocolVersion = 1
        let request = Request(.hello(hello), session: id, seq: 0)
        machine.take(header: frame(request.bytes), payload: nil, from: Route(), into: &effects)
        #expect(effects.contains { $0.sent != nil })
        #expect(machine.statistics.counters.executed == 0)
    }
}

extension SessionMachine.Effect {
    fileprivate var work: Work? {
        if case .perform(let work) = self { work } else { nil }
    }

    fileprivate var sent: (reply: StoredReply, route: Route)? {
        if case .send(let reply, let route) = self { (reply, route) } else { nil }
    }
}

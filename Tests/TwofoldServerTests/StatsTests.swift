import Foundation
import Logging
import Platform
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldSessions
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct StatsTests {
    private let directory = ScratchDirectory()

    private func stats(_ peer: Peer) throws -> StatsReply {
        try peer.ask(Request(.stats(.init()), seq: 7)).reply.stats
    }

    @Test func `statistics report counts, usage and limits`() throws {
        let server = try RunningServer(directory.ipc()) { $0.service.limits.maxSessions = 5 }
        let peer = try Peer(to: server.endpoint)
        try peer.ask(Request(.hello))
        let player = try Player(peer, lanes: 100)
        try player.reset(seed: 1)
        for turn in 0..<3 { try player.step(turn: turn) }
        let gone = try Player(peer, lanes: 1)
        try gone.close()
        #expect(try peer.ask(Request(.step, session: player.id, seq: 77)).error?.code == .outOfSequence)
        #expect(try peer.ask(Request(.observe, session: newSessionID(), seq: 1)).error?.code == .notFound)

        let stats = try stats(peer)
        #expect(stats.serverVersion == EnvironmentService.version)
        #expect(stats.threads == 2 && !stats.draining && stats.uptime > 0)
        #expect(stats.limits.maxSessions == 5)
        #expect(stats.counters.steps == 300)
        #expect(stats.counters.sessionsCreated == 2 && stats.counters.sessionsClosed == 1)
        #expect(stats.counters.executed == 8 && stats.counters.refused == 2)
        #expect(stats.counters.received == 11, "this request, too")
        #expect(stats.usage.sessions == 1 && stats.usage.boards == 100 && stats.usage.inProgress == 0)
        #expect(stats.usage.sessionBytes > 100 * 16)
        #expect(stats.usage.residentBytes > 1 << 20 && stats.usage.descriptors > 5)
        let kinds = Dictionary(uniqueKeysWithValues: stats.requests.map { ($0.name, $0) })
        #expect(Set(kinds.keys) == ["hello", "create", "reset", "step", "observe", "close"])
        let step = try #require(kinds["step"])
        #expect(step.executed == 3 && step.refused == 1)
        #expect(kinds["observe"]?.executed == 0 && kinds["observe"]?.refused == 1)
        #expect(step.seconds > 0 && step.p50 > 0 && step.p50 <= step.p99)
        #expect(stats.refusals.map(\.code) == ["NOT_FOUND", "OUT_OF_SEQUENCE"])
        #expect(stats.refusals.allSatisfy { $0.count == 1 })
        #expect(stats.sessions.count == 1)
        #expect(stats.sessions[0].id == "\(SessionID(player.id)!)" && stats.sessions[0].client == "")
        #expect(stats.sessions[0].boards == 100 && stats.sessions[0].requests == 5)
    }

    @Test func `each kind of request is counted under its name`() throws {
        let kinds: [(Request.OneOf_Op, String)] = [
            (.hello(.init()), "hello"), (.create(.init()), "create"), (.reset(.init()), "reset"),
            (.step, "step"), (.observe, "observe"), (.afterstates, "afterstates"), (.close, "close"),
            (.expand(.init()), "expand"), (.stats(.init()), "stats"), (.keepalive(.init()), "keepalive"),
            (.rollout(.init()), "rollout"), (.policy(.init()), "policy"),
            (.resume(.init()), "resume"), (.snapshot(.init()), "snapshot"), (.restore(.init()), "restore"),
        ]
        for (op, name) in kinds { #expect("\(RequestKind(op))" == name) }
    }

    @Test func `statistics take no payload`() throws {
        let server = try RunningServer(directory.ipc())
        let refused = try Peer(to: server.endpoint).ask(Request(.stats(.init()), seq: 3), [1])
        #expect(refused.error?.code == .invalidArgument && refused.error?.field == "payload")
        #expect(refused.reply.seq == 3)
    }

    @Test func `a session in progress is busy`() throws {
        let machine = machine()
        let id = Data(repeating: 1, count: 16)
        _ = try take(Request(.create(lanes: 1), session: id, seq: 1), machine)
        guard case .perform(let asked) = try take(Request(.stats(.init())), machine) else {
            Issue.record("the stats request was not started")
            return
        }
        let stats = try Reply(bytes: asked.perform(machine.service).get().header).stats
        #expect(stats.sessions[0].busy && stats.usage.inProgress == 1)
    }

    @Test func `statistics are finished on another thread, and are from the time of their request`() throws {
        let machine = machine()
        let asked = try take(Request(.stats(.init())), machine)
        // A session is created in the meantime.
        let id = Data(repeating: 1, count: 16)
        let created = try take(Request(.create(lanes: 1), session: id, seq: 1), machine)
        guard case .perform(let stats) = asked, machine.place(of: stats) == .statistics,
            case .perform(let create) = created
        else {
            Issue.record("the stats work has the wrong place")
            return
        }
        var effects: [SessionMachine.Effect] = []
        machine.finish(create, create.perform(machine.service), at: .now, into: &effects)
        #expect(machine.ledger.openCount == 1)
        let result = stats.perform(machine.service)
        effects = []
        machine.finish(stats, result, at: .now, into: &effects)
        guard case .send(let reply, _)? = effects.first else {
            Issue.record("no reply was sent")
            return
        }
        let usage = try Reply(bytes: reply.header).stats.usage
        #expect(usage.sessions == 0)
        #expect(usage.residentBytes > 1 << 20 && usage.descriptors > 2)
    }

    @Test func `too many statistics requests at a time are refused`() throws {
        let machine = machine()
        for _ in 0..<16 {
            guard case .perform = try take(Request(.stats(.init())), machine) else {
                Issue.record("a stats request was not started")
                return
            }
        }
        guard case .send(let reply, _) = try take(Request(.stats(.init())), machine) else {
            Issue.record("the request was started")
            return
        }
        #expect(try Reply(bytes: reply.header).error.code == .resourceExhausted)
    }

    private func machine() -> SessionMachine {
        SessionMachine(ServiceSettings(threads: 1), keys: { ([:], 0) }, at: .now)
    }

    private func take(_ request: Request, _ machine: SessionMachine) throws -> SessionMachine.Effect? {
        let header = request.bytes.withUnsafeBytes { Frame(copying: $0) }
        var effects: [SessionMachine.Effect] = []
        machine.take(header: header, payload: nil, from: Route(nil, arrived: .now), into: &effects)
        return effects.first
    }

    // MARK: the probe

    @Test func `a running server is ready, and an endpoint without a server is silent`() throws {
        let server = try RunningServer(directory.ipc())
        #expect(
            try probe(server.endpoint, timeout: patience) == .ready(version: EnvironmentService.version))
        #expect(try probe(directory.ipc("nobody"), timeout: .milliseconds(200)) == .silent)
        #expect(throws: Reason.self) { try probe("nonsense", timeout: .milliseconds(50)) }
    }

    @Test func `an endpoint that accepts connections but never answers is silent`() throws {
        let context = try Context()
        let socket = try Socket(.rep, in: context)
        try socket.bind(directory.ipc())
        #expect(try probe(directory.ipc(), timeout: .milliseconds(200)) == .silent)
    }

    private static let unready: [(reason: String, answer: Reply)] = {
        let other = "the answer does not come from a twofold-server"
        var (draining, refusing, stepping) = (Reply(), Reply(), Reply())
        draining.stats.draining = true
        refusing.error.message = "later"
        stepping.step = .init()
        return [
            ("it is about to stop", draining), ("later", refusing), (other, stepping), (other, Reply()),
        ]
    }()

    @Test(arguments: unready.indices)
    func `a server with any other answer is not ready`(index: Int) throws {
        let (reason, reply) = Self.unready[index]
        let context = try Context()
        let socket = try Socket(.rep, in: context)
        try socket.bind(directory.ipc())
        let endpoint = directory.ipc()
        let result = Background { try probe(endpoint, timeout: patience) }
        try socket.setReceiveTimeout(patience)
        _ = try socket.receive()
        try socket.send(Message(copying: reply.frame))
        #expect(try result.value == .notReady(reason))
    }

    @Test func `ping exits with 0 if a server is ready, and with 1 if nothing answers`() throws {
        let server = try RunningServer(directory.ipc())
        let ready = try ServerProcess("ping", "--endpoint", server.endpoint, "--timeout", "60")
        #expect(try ready.exit() == .code(0))
        #expect(ready.standardOutput.hasPrefix("ready: twofold-server \(EnvironmentService.version)"))
        let variable = try ServerProcess(
            "ping", "--timeout", "60", variables: ["ENDPOINT": server.endpoint + ",tcp://127.0.0.1:1"])
        #expect(try variable.exit() == .code(0))
        let silent = try ServerProcess(
            "ping", "--endpoint", directory.ipc("nobody"), "--timeout", "0.05", "--live")
        #expect(try silent.exit() == .code(1))
        let wrong = try ServerProcess("ping", "--timeout", "0")
        #expect(try wrong.exit() == .code(64))
    }
}

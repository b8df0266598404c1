import Foundation
import Logging
import Synchronization
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldServer
@testable import TwofoldSessions

/// Tests the sessions that a server saves when it stops and restores when it starts.
@Suite struct SavedSessionsTests {
    private let scratch = ScratchDirectory()
    private let files: SystemStateFiles
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init() throws { files = try SystemStateFiles(scratch.path) }

    private func machine() -> SessionMachine {
        SessionMachine(ServiceSettings(threads: 1), keys: { ([:], 0) }, at: .now)
    }

    private func id(_ number: UInt8) -> Data { Data(repeating: number, count: 16) }

    private func execute(
        _ op: Request.OneOf_Op, _ session: UInt8, seq: UInt64, _ payload: [UInt8]? = nil,
        on machine: SessionMachine
    ) throws {
        func frame(_ bytes: [UInt8]) -> Frame { bytes.withUnsafeBytes { Frame(copying: $0) } }
        var effects: [SessionMachine.Effect] = []
        machine.take(
            header: frame(Request(op, session: id(session), seq: seq).bytes), payload: payload.map(frame),
            from: Route(nil, arrived: .now), into: &effects)
        guard case .perform(let work)? = effects.first else { throw NotExecuted() }
        let result = work.perform(machine.service)
        machine.finish(work, result, at: .now, into: &effects)
        _ = try result.get()
    }

    private struct NotExecuted: Error {}

    /// Returns a machine with sessions of one board, each of which has executed two requests.
    private func machine(sessions: ClosedRange<UInt8>) throws -> SessionMachine {
        let machine = machine()
        for session in sessions {
            try execute(.create(lanes: 1), session, seq: 1, on: machine)
            try execute(.seededReset, session, seq: 2, bytes(of: [UInt64(session)]), on: machine)
        }
        return machine
    }

    private func save(_ machine: SessionMachine, in files: (any StateFiles)? = nil) {
        machine.endSessions(savingIn: StateDirectory(files ?? self.files), logger: logger, at: .now)
    }

    private func restore(_ machine: SessionMachine, unless isStopping: () -> Bool = { false }) -> Bool {
        machine.restoreSessions(
            from: StateDirectory(files), logger: logger, at: .now, unless: isStopping)
    }

    @Test func `restored sessions continue, are counted, and leave the directory`() throws {
        save(try machine(sessions: 1...3))
        let next = machine()
        #expect(restore(next) && scratch.files == ["lock"])
        #expect(next.statistics.counters.sessionsCreated == 3)
        #expect(next.ledger.openCount == 3 && next.ledger.openBoards == 3)
        for session in 1...3 as ClosedRange<UInt8> {
            try execute(.step, session, seq: 3, [0], on: next)
        }
    }

    @Test func `a session that can't be restored stays in the directory`() throws {
        save(try machine(sessions: 1...2))
        let path = scratch.path + "/1.sessions"
        var bytes = try Data(contentsOf: URL(filePath: path))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(filePath: path))
        for restored in [1, 0] {
            let next = machine()
            #expect(restore(next) && next.ledger.openCount == restored)
            #expect(scratch.files == ["1.sessions", "lock"])
        }
        // Without the damage, the session can still be restored.
        bytes = try Data(contentsOf: URL(filePath: path))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(filePath: path))
        let last = machine()
        #expect(restore(last) && last.ledger.openCount == 1)
        #expect(scratch.files == ["lock"])
    }

    @Test(arguments: [false, true])
    func `of two copies of a session, the newer is restored`(isFirst: Bool) throws {
        let machine = try machine(sessions: 1...1)
        save(machine)
        try execute(.step, 1, seq: 3, [0], on: machine)
        save(machine)
        // The files are read in the order of their names.
        if isFirst { rename(scratch.path + "/1.sessions", scratch.path + "/3.sessions") }
        let next = self.machine()
        #expect(restore(next) && scratch.files == ["lock"])
        #expect(next.ledger.openCount == 1 && next.ledger.openBoards == 1)
        #expect(next.statistics.counters.sessionsCreated == 1)
        try execute(.step, 1, seq: 4, [0], on: next)
    }

    @Test func `a stop during the restoration leaves the directory unchanged`() throws {
        save(try machine(sessions: 1...3))
        let before = try Data(contentsOf: URL(filePath: scratch.path + "/1.sessions"))
        var looks = 0
        let isComplete = restore(machine()) {
            looks += 1
            return looks == 3
        }
        #expect(!isComplete)
        #expect(try Data(contentsOf: URL(filePath: scratch.path + "/1.sessions")) == before)
    }

    @Test func `a file without sessions leaves the directory`() throws {
        try scratch.write("1.sessions", "")
        #expect(restore(machine()) && scratch.files == ["lock"])
    }

    @Test func `without sessions, a stop writes no file and logs nothing`() {
        let lines = Mutex<[String]>([])
        let logger = Logger(label: "test") { _ in Lines { line in lines.withLock { $0.append(line) } } }
        machine().endSessions(savingIn: StateDirectory(files), logger: logger, at: .now)
        #expect(lines.withLock { $0 } == [] && scratch.files == ["lock"])
    }

    @Test func `sessions that may not survive a loss of power count as lost`() throws {
        let machine = try machine(sessions: 1...3)
        save(machine, in: UnflushableFiles())
        #expect(machine.statistics.sessionsLost == 3)
    }

    /// Files that never reach the disk.
    private final class UnflushableFiles: StateFiles {
        struct Failure: Error {}

        var names: [String] { [] }
        func size(_ name: String) -> Int? { nil }
        func read(_ name: String, at offset: Int, count: Int) -> Data? { nil }
        func append(_ parts: [Data], to name: String) {}
        func overwrite(_ bytes: Data, at offset: Int, in name: String) {}
        func flush(_ name: String) throws { throw Failure() }
        func remove(_ name: String) -> Bool { false }
        func settle() {}
    }
}

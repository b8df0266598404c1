import TwofoldCore
import Foundation
import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

@Suite struct LedgerLimitTests {
    private let alice = "alice"
    private let bob = "bob"

    private func ledger(_ change: (inout Limits) -> Void) -> SessionLedger {
        var limits = Limits()
        change(&limits)
        return SessionLedger(limits)
    }

    private func create(_ byte: UInt8, lanes: Int) -> Request {
        Request(.create(lanes: lanes), session: sessionBytes(byte), seq: 1)
    }

    // MARK: boards

    @Test func `the boards of all sessions are limited together, including those being created`() throws {
        var ledger = ledger { $0.maxBoards = 10 }
        let first = try #require(try ledger.admit(create(1, lanes: 6)).entry)
        let refusal = try #require(try ledger.admit(create(2, lanes: 5)).refusal)
        #expect(refusal.code == .resourceExhausted)
        #expect(refusal.field == "num_envs")
        #expect(refusal.message.contains("max_boards = 10"))
        #expect(try ledger.admit(create(2, lanes: 4)).entry != nil)
        #expect(ledger.openBoards == 10)
        _ = try ledger.abandon(first)
        #expect(ledger.openBoards == 4)
        try ledger.execute(create(3, lanes: 6), creating: .small())
        try ledger.execute(Request(.close, session: sessionBytes(3), seq: 2))
        #expect(ledger.openBoards == 4)
    }

    @Test(arguments: [1_048_577, .max] as [UInt64])
    func `a create beyond a session's limit is left to the service and counts no boards`(lanes: UInt64) throws
    {
        var ledger = ledger { $0.maxBoards = 10 }
        var request = create(1, lanes: 1)
        request.create.numEnvs = lanes
        #expect(try ledger.admit(request).entry != nil)
        #expect(ledger.openBoards == 0)
    }

    // MARK: clients

    @Test
    func `the number of sessions is limited for a client with a key, and not for a client without one`()
        throws
    {
        var ledger = ledger { $0.maxSessionsPerClient = 2 }
        for byte: UInt8 in 1...2 {
            _ = try #require(try ledger.admit(create(byte, lanes: 1), from: Route(alice)).entry)
        }
        let refusal = try #require(try ledger.admit(create(3, lanes: 1), from: Route(alice)).refusal)
        #expect(refusal.code == .resourceExhausted)
        #expect(refusal.message.contains("max_sessions_per_client = 2"))
        #expect(try ledger.admit(create(3, lanes: 1), from: Route(bob)).entry != nil)
        for byte: UInt8 in 10...20 {
            #expect(try ledger.admit(create(byte, lanes: 1)).entry != nil)
        }
    }

    @Test func `a session that has ended no longer counts for its client`() throws {
        var ledger = ledger { $0.maxSessionsPerClient = 1 }
        for byte: UInt8 in 1...3 {
            let entry = try #require(try ledger.admit(create(byte, lanes: 1), from: Route(alice)).entry)
            _ = try ledger.complete(entry, StoredReply(seq: 1), creating: .small())
            let close = Request(.close, session: sessionBytes(byte), seq: 2)
            let closing = try #require(try ledger.admit(close, from: Route(alice)).entry)
            _ = try ledger.complete(closing, StoredReply(seq: 2))
        }
    }

    @Test func `for every client but its owner a session does not exist`() throws {
        var ledger = ledger { _ in }
        let entry = try #require(try ledger.admit(create(1, lanes: 1), from: Route(alice)).entry)
        _ = try ledger.complete(entry, StoredReply(seq: 1), creating: .small())
        let unknown = try #require(
            try ledger.admit(Request(.step, session: sessionBytes(9), seq: 2)).refusal)
        for stranger in [bob, nil] {
            for request in [
                create(1, lanes: 1), Request(.step, session: sessionBytes(1), seq: 2),
                Request(.step, session: sessionBytes(1), epoch: 0, seq: 2),
                Request(.close, session: sessionBytes(1), seq: 77),
            ] {
                let refusal = try #require(try ledger.admit(request, from: Route(stranger)).refusal)
                #expect(refusal.code == .notFound)
                #expect(refusal.field == unknown.field)
            }
        }
        #expect(
            try ledger.admit(Request(.step, session: sessionBytes(1), seq: 2), from: Route(alice)).entry
                === entry)
    }

    // MARK: idle sessions

    @Test func `an idle session ends, and a session that is busy or gets a request does not`() throws {
        var ledger = ledger { _ in }
        for byte: UInt8 in 1...3 { try ledger.open(sessionBytes(byte)) }
        let later = Moment(nanoseconds: 20_000_000)
        // The second session gets a request, which is refused. The third session is busy.
        #expect(try ledger.admit(Request(.step, session: sessionBytes(2), seq: 7), at: later).refusal != nil)
        let busy = try #require(
            try ledger.admit(Request(.step, session: sessionBytes(3), seq: 2), at: later).entry)
        let ended = ledger.endIdle(since: later - .milliseconds(10))
        #expect(ended.map(\.id) == [SessionID(sessionBytes(1))])
        #expect(ledger.openCount == 2)
        #expect(ledger.openBoards == 2)
        #expect(
            try ledger.admit(Request(.step, session: sessionBytes(1), seq: 2)).refusal?.code == .notFound)
        let muchLater = Moment(nanoseconds: 40_000_000)
        #expect(
            ledger.endIdle(since: muchLater - .milliseconds(10)).map(\.id) == [SessionID(sessionBytes(2))])
        // The third session has been idle only since its reply.
        ledger.abandon(busy, at: muchLater)
        #expect(ledger.endIdle(since: muchLater - .milliseconds(10)).isEmpty)
        let atLast = muchLater + .milliseconds(11)
        #expect(
            ledger.endIdle(since: atLast - .milliseconds(10)).map(\.id) == [SessionID(sessionBytes(3))])
        #expect(ledger.openCount == 0)
    }

    @Test func `a request that runs for longer than the timeout does not end its session`() throws {
        var ledger = ledger { _ in }
        try ledger.open(sessionBytes(1))
        let begin = Moment(nanoseconds: 20_000_000)
        let entry = try #require(
            try ledger.admit(Request(.step, session: sessionBytes(1), seq: 2), at: begin).entry)
        let end = begin + .seconds(1)
        ledger.complete(entry, StoredReply(seq: 2), at: end)
        #expect(ledger.endIdle(since: end - .milliseconds(10)).isEmpty)
        #expect(ledger.endIdle(since: end + .milliseconds(10)).count == 1)
    }

    @Test func `a pause of the server is not idle time of its sessions`() throws {
        var ledger = ledger { _ in }
        try ledger.open(sessionBytes(1))
        ledger.excuse(.seconds(10), until: .start + .seconds(20))
        #expect(ledger.endIdle(since: .start + .seconds(10)).isEmpty)
        // However long the pause, the idle time never starts in the future.
        ledger.excuse(.seconds(90), until: .start + .seconds(20))
        #expect(ledger.endIdle(since: .start + .seconds(21)).count == 1)
    }

    @Test func `the tombstone of a closed session is not idle`() throws {
        var ledger = ledger { _ in }
        try ledger.open(sessionBytes(1))
        let close = Request(.close, session: sessionBytes(1), seq: 2)
        let reply = try ledger.execute(close)
        #expect(ledger.endIdle(since: Moment(nanoseconds: 10_000_000)).isEmpty)
        #expect(try ledger.admit(close).resent === reply)
    }
}

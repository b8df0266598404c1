import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

@Suite struct ResumeTests {
    private let one = sessionBytes(1)
    private var ledger = SessionLedger(maxSessions: 3)

    private func step(_ seq: UInt64, epoch: UInt32 = 1) -> Request {
        Request(.step, session: one, epoch: epoch, seq: seq)
    }

    /// Resumes a session as the holder whose id repeats this byte.
    private func resume(
        _ holder: UInt8, length: Int = 16, epoch: UInt32 = 0, from route: Route = Route()
    ) -> Result<SessionLedger.Verdict, ServiceError> {
        var resume = ResumeRequest()
        resume.holder = Data(repeating: holder, count: length)
        return ledger.resumption(Request(.resume(resume), session: one, epoch: epoch, seq: 0), from: route)
    }

    /// Returns true if the session is at this epoch, so that the ledger executes its next request.
    private mutating func isHeld(by epoch: UInt32, next seq: UInt64) throws -> Bool {
        guard let entry = try ledger.admit(step(seq, epoch: epoch)).entry else { return false }
        _ = try ledger.abandon(entry)
        return true
    }

    @Test mutating func `each new holder raises the epoch, and the same holder keeps its epoch`() throws {
        try ledger.open(one)
        for (holder, epoch) in [(7, 2), (7, 2), (8, 3), (9, 4)] as [(UInt8, UInt32)] {
            #expect(resume(holder).isAnswer)
            #expect(try isHeld(by: epoch, next: 2))
            #expect(try ledger.admit(step(2, epoch: epoch - 1)).refusal?.code == .staleEpoch)
        }
    }

    @Test mutating func `a late copy of an earlier holder's resume does not shut out the newer one`() throws {
        try ledger.open(one)
        for holder in 7...9 { #expect(resume(UInt8(holder)).isAnswer) }
        for holder in 7...8 { #expect(resume(UInt8(holder)).refusal?.code == .staleEpoch) }
        #expect(try isHeld(by: 4, next: 2))
    }

    @Test mutating func `a session remembers its last 64 former holders`() throws {
        try ledger.open(one)
        for holder in 7...72 { #expect(resume(UInt8(holder)).isAnswer) }
        for holder in 8...71 { #expect(resume(UInt8(holder)).refusal?.code == .staleEpoch) }
        #expect(resume(7).isAnswer)
    }

    @Test mutating func `a resume with an epoch displaces only the holder of that epoch`() throws {
        try ledger.open(one)
        #expect(resume(7, epoch: 1).isAnswer)
        // A repeat gets the same answer.
        #expect(resume(7, epoch: 1).isAnswer)
        #expect(resume(8, epoch: 1).refusal?.code == .staleEpoch)
        #expect(resume(8, epoch: 3).refusal?.code == .notFound)
        #expect(try isHeld(by: 2, next: 2))
        #expect(resume(8, epoch: 2).isAnswer)
        #expect(try isHeld(by: 3, next: 2))
    }

    @Test mutating func `a client that was shut out does not even get the stored reply`() throws {
        try ledger.open(one)
        try ledger.execute(step(2))
        #expect(resume(7).isAnswer)
        #expect(try ledger.admit(step(2)).refusal?.code == .staleEpoch)
    }

    @Test mutating func `only the newest resume waits for the request in progress`() throws {
        try ledger.open(one)
        let entry = try #require(try ledger.admit(step(2)).entry)
        let first = Route()
        let second = Route()
        #expect(resume(7, from: first).isWaiting)
        #expect(resume(8, from: second).isParked)
        let waiting = try ledger.complete(entry, StoredReply(seq: 2)).resumes
        #expect(waiting.count == 1 && waiting[0].route === second)
        #expect(ledger.resumption(waiting[0].request, from: waiting[0].route).isAnswer)
        #expect(try isHeld(by: 2, next: 3))
    }

    @Test mutating func `unknown and closed sessions and those of other clients are not found`() throws {
        #expect(resume(7).refusal?.code == .notFound)
        try ledger.open(one)
        #expect(resume(7, from: Route("stranger")).refusal?.code == .notFound)
        try ledger.execute(Request(.close, session: one, seq: 2))
        #expect(resume(7).refusal?.code == .notFound)
    }

    @Test mutating func `a resumed session is not idle`() throws {
        try ledger.open(one)
        var resume = ResumeRequest()
        resume.holder = sessionBytes(7)
        let request = Request(.resume(resume), session: one, epoch: 0, seq: 0)
        _ = try ledger.resume(request, from: Route(), at: .start + .seconds(10))
        #expect(ledger.endIdle(since: .start + .seconds(10)).isEmpty)
        #expect(ledger.endIdle(since: .start + .seconds(11)).count == 1)
    }

    // MARK: saved sessions

    /// Restores a saved session after a change, and returns the ledger's entry.
    private mutating func restore(_ change: (inout SavedSession) -> Void) throws -> SessionLedger.Entry? {
        var saved = SavedSession()
        saved.id = one
        saved.epoch = 1
        saved.lastSeq = 1
        saved.requests = 1
        change(&saved)
        let last = SessionLedger.Done(
            seq: saved.lastSeq, header: Frame(), payload: nil, reservation: nil, reply: StoredReply())
        return try ledger.restore(saved, .small(), last: last, at: .start)
    }

    @Test(arguments: [1, 1 << 62] as [UInt64])
    mutating func `a restored session continues after its last request`(last: UInt64) throws {
        let entry = try #require(
            try restore {
                $0.lastSeq = last
                $0.requests = last
            })
        for seq in last + 1...last + 3 { try ledger.execute(step(seq)) }
        #expect(entry.lastSeq == last + 3)
        #expect(entry.requests == Int(last) + 3)
        #expect(try entry.saved(at: .start)?.requests == last + 3)
    }

    @Test mutating func `a restored session was created, and became idle, before the restart`() throws {
        let entry = try #require(
            try restore {
                $0.idleNanoseconds = 23_000_000_000
                $0.ageNanoseconds = 60_000_000_000
            })
        #expect(entry.begin == .start - .seconds(60))
        #expect(try entry.saved(at: .start + .seconds(4))?.ageNanoseconds == 64_000_000_000)
        #expect(entry.idleSince == .start - .seconds(23))
        #expect(try entry.saved(at: .start + .seconds(4))?.idleNanoseconds == 27_000_000_000)
        #expect(ledger.endIdle(since: .start - .seconds(23)).isEmpty)
        #expect(ledger.endIdle(since: .start - .seconds(22)).map(\.id) == [entry.id])
    }

    @Test mutating func `a restored session without a saved age is as old as its idle time`() throws {
        let entry = try #require(try restore { $0.idleNanoseconds = 23_000_000_000 })
        #expect(entry.begin == .start - .seconds(23) && entry.idleSince == entry.begin)
    }

    @Test mutating func `a restored session belongs to its owner and counts in the limits`() throws {
        let alice = Route("alice")
        let entry = try #require(try restore { $0.clientKey = "alice" })
        #expect(try entry.saved(at: .start)?.clientKey == "alice")
        #expect(try ledger.admit(step(2)).refusal?.code == .notFound)
        #expect(try ledger.admit(step(2), from: alice).entry === entry)
        #expect(ledger.openCount == 1 && ledger.openBoards == 1)
        try ledger.open(sessionBytes(2))
        try ledger.open(sessionBytes(3))
        let refusal = try #require(throws: ServiceError.self) { try self.restore { $0.id = sessionBytes(4) } }
        #expect(refusal.code == .resourceExhausted)
    }

    @Test mutating func `a restored session remembers its holders`() throws {
        _ = try restore {
            $0.epoch = 3
            $0.holders = [sessionBytes(7), sessionBytes(8)]
        }
        #expect(resume(7).refusal?.code == .staleEpoch)
        #expect(resume(8).isAnswer)
        #expect(try isHeld(by: 3, next: 2))
    }

    @Test mutating func `beyond the last epoch, no new holder can resume a session`() throws {
        _ = try restore {
            $0.epoch = .max
            $0.holders = [sessionBytes(7)]
        }
        #expect(resume(8).refusal?.code == .resourceExhausted)
        #expect(resume(7).isAnswer)
        #expect(try isHeld(by: .max, next: 2))
    }

    @Test mutating func `a session whose counts are close to overflow is not restored`() throws {
        for count in [(1 << 62) + 1, (1 << 63) - 2, (1 << 63) - 1, 1 << 63, .max - 1, .max] as [UInt64] {
            #expect(try restore { $0.requests = count } == nil)
            #expect(try restore { $0.lastSeq = count } == nil)
            #expect(try restore { $0.idleNanoseconds = count } == nil)
            #expect(try restore { $0.ageNanoseconds = count } == nil)
        }
        #expect(try restore { $0.lastSeq = 0 } == nil)
        #expect(try restore { $0.epoch = 0 } == nil)
        #expect(ledger.openCount == 0)
    }

    @Test(arguments: [0, 15, 17])
    mutating func `a holder has 16 bytes`(count: Int) throws {
        try ledger.open(one)
        let refusal = try #require(resume(1, length: count).refusal)
        #expect(refusal.code == .invalidArgument)
        #expect(refusal.field == "holder")
        #expect(try isHeld(by: 1, next: 2))
    }
}

extension Result<SessionLedger.Verdict, ServiceError> {
    var isAnswer: Bool {
        if case .success(.resumed) = self { true } else { false }
    }

    var isWaiting: Bool {
        if case .success(.waits) = self { true } else { false }
    }

    /// Whether the resume request replaces an earlier one that waits.
    var isParked: Bool {
        if case .success(.parked) = self { true } else { false }
    }

    var refusal: ServiceError? {
        if case .failure(let error) = self { error } else { nil }
    }
}

import Foundation
import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

@Suite struct SessionLedgerTests {
    private let one = sessionBytes(1)
    private let two = sessionBytes(2)
    private var ledger = SessionLedger(maxSessions: 3)

    private func step(_ seq: UInt64, epoch: UInt32 = 1) -> Request {
        Request(.step, session: one, epoch: epoch, seq: seq)
    }

    // MARK: create

    @Test mutating func `a session begins with create, seq 1 and epoch 1`() throws {
        let create = Request(.create(lanes: 1), session: one, seq: 1)
        let entry = try #require(try ledger.admit(create).entry)
        #expect(entry.id == SessionID(one))
        #expect(entry.environment == nil)
        let session = try ServedEnvironment.small()
        _ = try ledger.complete(entry, StoredReply(seq: 1), creating: session)
        #expect(entry.environment === session)
        #expect(entry.epoch == 1)
        #expect(entry.lastSeq == 1)
        #expect(try ledger.admit(step(2)).entry === entry)
    }

    @Test(arguments: [0, 2, 3, UInt64.max])
    mutating func `a create with another seq is out of sequence and opens no session`(seq: UInt64) throws {
        let error = try #require(
            try ledger.admit(Request(.create(lanes: 1), session: one, seq: seq)).refusal)
        #expect(error.code == .outOfSequence)
        #expect(error.field == "seq")
        #expect(error.expectedSeq == 1)
        #expect(ledger.openCount == 0)
        try ledger.open(one)
    }

    @Test(arguments: [0, 2, UInt32.max])
    mutating func `a create with another epoch is refused and opens no session`(epoch: UInt32) throws {
        let error = try #require(
            try ledger.admit(Request(.create(lanes: 1), session: one, epoch: epoch, seq: 1)).refusal)
        #expect(error.code == .invalidArgument)
        #expect(error.field == "epoch")
        #expect(ledger.openCount == 0)
        try ledger.open(one)
    }

    @Test mutating func `a repeated create gets the stored reply`() throws {
        let create = Request(.create(lanes: 1), session: one, seq: 1)
        let reply = try ledger.execute(create, creating: .small())
        for _ in 0..<3 { #expect(try ledger.admit(create).resent === reply) }
        let other = Request(.create(lanes: 2), session: one, seq: 1)
        #expect(try ledger.admit(other).refusal?.code == .conflict)
    }

    @Test mutating func `a refused create leaves no session`() throws {
        let create = Request(.create(lanes: 1), session: one, seq: 1)
        let route = Route()
        let entry = try #require(try ledger.admit(create, from: route).entry)
        #expect(ledger.openCount == 1)
        #expect(try ledger.abandon(entry).route === route)
        #expect(ledger.openCount == 0)
        #expect(try ledger.admit(step(2)).refusal?.code == .notFound)
        // The id is free, even for other arguments.
        try ledger.execute(
            Request(.create(lanes: 2), session: one, seq: 1), creating: .small())
    }

    @Test mutating func `an open session can't be created again`() throws {
        try ledger.open(one)
        let error = try #require(
            try ledger.admit(Request(.create(lanes: 1), session: one, seq: 2)).refusal)
        #expect(error.code == .conflict)
        #expect(error.field == "session")
        #expect(try ledger.admit(step(2)).entry != nil, "seq 2 is still the next one")
    }

    @Test mutating func `each session has a separate sequence`() throws {
        try ledger.open(one)
        try ledger.open(two)
        for seq: UInt64 in 2...5 { try ledger.execute(step(seq)) }
        try ledger.execute(Request(.step, session: two, seq: 2))
        #expect(try ledger.admit(step(6)).entry?.id == SessionID(one))
        #expect(try ledger.admit(Request(.step, session: two, seq: 3)).entry?.id == SessionID(two))
    }

    // MARK: last, next, else

    @Test
    mutating func `the last request with the same bytes gets the stored reply, however often it is repeated`()
        throws
    {
        try ledger.open(one)
        let reply = try ledger.execute(step(2), payload: [1, 2, 3])
        for _ in 0..<5 { #expect(try ledger.admit(step(2), payload: [1, 2, 3]).resent === reply) }
        let next = try ledger.execute(step(3), payload: [1, 2, 3])
        #expect(try ledger.admit(step(3), payload: [1, 2, 3]).resent === next)
    }

    // The arguments are requests that differ from a step with seq 2 and the payload 1, 2, 3.
    @Test(
        arguments: [
            (Request.OneOf_Op.step, [1, 2, 4]), (.step, [1, 2, 3, 0]), (.step, [1, 2]), (.step, []),
            (.step, nil),
            (.observe, [1, 2, 3]), (.observe, nil), (.close, nil),
        ] as [(Request.OneOf_Op, [UInt8]?)])
    mutating func `a used seq with other bytes is a conflict, whether its request is executed or in progress`(
        op: Request.OneOf_Op, payload: [UInt8]?
    ) throws {
        try ledger.open(one)
        let other = Request(op, session: one, seq: 2)
        let entry = try #require(try ledger.admit(step(2), payload: [1, 2, 3]).entry)
        let inProgress = try #require(try ledger.admit(other, payload: payload).refusal)
        let reply = StoredReply(seq: 2)
        _ = try ledger.complete(entry, reply)
        let after = try #require(try ledger.admit(other, payload: payload).refusal)
        for error in [inProgress, after] {
            #expect(error.code == .conflict)
            #expect(error.field == "seq")
        }
        #expect(try ledger.admit(step(2), payload: [1, 2, 3]).resent === reply)
        #expect(try ledger.admit(step(3)).entry != nil)
    }

    @Test mutating func `a request without a payload differs from one with an empty payload`() throws {
        try ledger.open(one)
        let last = Request(.observe, session: one, seq: 2)
        let reply = try ledger.execute(last)
        #expect(try ledger.admit(last, payload: []).refusal?.code == .conflict)
        #expect(try ledger.admit(last).resent === reply)
        let empty = try ledger.execute(step(3), payload: [])
        #expect(try ledger.admit(step(3)).refusal?.code == .conflict)
        #expect(try ledger.admit(step(3), payload: []).resent === empty)
    }

    @Test mutating func `a header with other bytes but the same meaning is another request`() throws {
        try ledger.open(one)
        try ledger.execute(step(2))
        // The epoch occurs twice. The last one counts, so the bytes decode to the same request.
        let bytes: [UInt8] = [0x15, 1, 0, 0, 0] + step(2).bytes
        let request = try #require(bytes.withUnsafeBytes { Request(frame: $0) })
        #expect(request == step(2))
        #expect(try ledger.admit(request, header: bytes).refusal?.code == .conflict)
    }

    @Test(arguments: [0, 1, 2, 5, 6, 100, UInt64.max])
    mutating func `any other seq is out of sequence, and the expected one is reported`(seq: UInt64) throws {
        try ledger.open(one)
        for seq: UInt64 in 2...3 { try ledger.execute(step(seq)) }
        for isBusy in [false, true] {
            if isBusy { #expect(try ledger.admit(step(4)).entry != nil) }
            let error = try #require(try ledger.admit(step(seq)).refusal)
            #expect(error.code == .outOfSequence)
            #expect(error.field == "seq")
            #expect(error.expectedSeq == 4)
        }
    }

    @Test mutating func `a refused request uses no seq, and the last reply stays stored`() throws {
        try ledger.open(one)
        let reply = try ledger.execute(step(2), payload: [1])
        for payload: [UInt8] in [[9], [8], [9]] {
            let route = Route()
            let entry = try #require(try ledger.admit(step(3), payload: payload, from: route).entry)
            #expect(try ledger.abandon(entry).route === route)
            #expect(entry.lastSeq == 2)
            #expect(try ledger.admit(step(2), payload: [1]).resent === reply)
        }
        #expect(ledger.openCount == 1)
        try ledger.execute(step(3), payload: [2])
        #expect(try ledger.admit(step(4)).entry != nil)
    }

    @Test mutating func `during the next request, a repeat of the last one is still answered`() throws {
        try ledger.open(one)
        let reply = try ledger.execute(step(2))
        _ = try #require(try ledger.admit(step(3)).entry)
        #expect(try ledger.admit(step(2)).resent === reply)
    }

    // MARK: in progress

    @Test mutating func `repeats of a request in progress are parked, and the newest gets the reply`() throws
    {
        try ledger.open(one)
        let routes = (0..<4).map { _ in Route() }
        let entry = try #require(try ledger.admit(step(2), payload: [1], from: routes[0]).entry)
        for route in routes.dropFirst() {
            #expect(try ledger.admit(step(2), payload: [1], from: route).isParked)
        }
        // A request with other bytes is refused, not parked.
        #expect(try ledger.admit(step(2), payload: [2]).refusal?.code == .conflict)
        #expect(try ledger.complete(entry, StoredReply()).route === routes[3])
        #expect(entry.lastSeq == 2, "the request was executed once")
    }

    @Test mutating func `if a request in progress is refused, the newest route gets the error`() throws {
        try ledger.open(one)
        let newest = Route()
        let entry = try #require(try ledger.admit(step(2)).entry)
        #expect(try ledger.admit(step(2), from: newest).isParked)
        #expect(try ledger.abandon(entry).route === newest)
    }

    @Test mutating func `while a create is in progress, its repeats are parked and other requests refused`()
        throws
    {
        let create = Request(.create(lanes: 1), session: one, seq: 1)
        let newest = Route()
        let entry = try #require(try ledger.admit(create).entry)
        #expect(try ledger.admit(create, from: newest).isParked)
        let other = Request(.create(lanes: 2), session: one, seq: 1)
        #expect(try ledger.admit(other).refusal?.code == .conflict)
        for seq: UInt64 in [0, 2] {
            let error = try #require(try ledger.admit(step(seq)).refusal)
            #expect(error.code == .outOfSequence)
            #expect(error.expectedSeq == 1)
        }
        #expect(
            try ledger.complete(entry, StoredReply(), creating: .small()).route === newest)
    }

    // MARK: close

    @Test mutating func `a repeated close gets its reply, and other requests do not find the session`() throws
    {
        try ledger.open(one)
        try ledger.execute(step(2))
        let close = Request(.close, session: one, seq: 3)
        let entry = try #require(try ledger.admit(close).entry)
        let reply = StoredReply(seq: 3)
        _ = try ledger.complete(entry, reply)
        #expect(entry.environment == nil, "the boards are gone")
        #expect(ledger.openCount == 0)
        for _ in 0..<3 { #expect(try ledger.admit(close).resent === reply) }
        let others = [
            step(2), step(4), step(5), Request(.close, session: one, seq: 4),
            Request(.create(lanes: 1), session: one, seq: 1),
            Request(.create(lanes: 1), session: one, seq: 4),
        ]
        for other in others {
            let error = try #require(try ledger.admit(other).refusal)
            #expect(error.code == .notFound)
            #expect(error.field == "session")
        }
        // The seq of the close request counts as used, like any other.
        #expect(try ledger.admit(step(3)).refusal?.code == .conflict)
        #expect(try ledger.admit(close).resent === reply)
    }

    @Test mutating func `a long close is refused, because the ledger keeps many`() throws {
        try ledger.open(one)
        let close = Request(.close, session: one, seq: 2)
        let limit = SessionLedger.Entry.maxCloseBytes
        let error = try #require(
            try ledger.admit(close, header: Array(repeating: 0, count: limit + 1)).refusal)
        #expect(error.code == .invalidArgument)
        #expect(error.field == "request")
        #expect(try ledger.admit(close, header: Array(repeating: 0, count: limit)).entry != nil)
    }

    @Test mutating func `an unknown session is not found, and the error does not contain its id`() throws {
        for op in [Request.OneOf_Op.step, .observe, .afterstates, .close, .seededReset] {
            let error = try #require(try ledger.admit(Request(op, session: one, seq: 1)).refusal)
            #expect(error.code == .notFound)
            #expect(error.field == "session")
            #expect(!error.message.contains("01010101"))
        }
        #expect(ledger.openCount == 0)
    }

    @Test mutating func `beyond a limit, the ledger forgets the oldest closed session`() throws {
        let session = try ServedEnvironment.small()
        let limit = SessionLedger.maxClosed
        func id(_ number: Int) -> Data { Data(bytes(of: [UInt64(number), 77])) }
        func close(_ number: Int) -> Request { Request(.close, session: id(number), seq: 2) }
        let create = Request.OneOf_Op.create(lanes: 1)
        // Beyond twice the limit, the ledger uses the places of its oldest closed ids a second time.
        let count = 2 * limit + 100
        for number in 0..<count {
            try ledger.execute(Request(create, session: id(number), seq: 1), creating: session)
            try ledger.execute(close(number))
            if ledger.openCount != 0 { Issue.record("\(ledger.openCount) open after \(number)") }
            // Check sessions directly after their close, and directly before and after the ledger forgets them.
            if try ledger.admit(close(number)).resent == nil { Issue.record("\(number) is forgotten") }
            let oldest = number - limit + 1
            if oldest > 0 {
                if try ledger.admit(close(oldest)).resent == nil { Issue.record("\(oldest) is forgotten") }
                let gone = try ledger.admit(close(oldest - 1)).refusal?.code
                if gone != .notFound { Issue.record("\(oldest - 1) is remembered") }
            }
        }
        // A forgotten id is like a new one.
        try ledger.execute(Request(create, session: id(0), seq: 1), creating: session)
        #expect(ledger.openCount == 1)
    }

    // MARK: limits, ids, epochs

    @Test mutating func `the session limit does not count closed or refused sessions`() throws {
        for byte: UInt8 in 1...3 { try ledger.open(sessionBytes(byte)) }
        #expect(ledger.openCount == 3)
        let create = Request(.create(lanes: 1), session: sessionBytes(4), seq: 1)
        let error = try #require(try ledger.admit(create).refusal)
        #expect(error.code == .resourceExhausted)
        #expect(error.field == "session")
        #expect(error.message.contains("3"))
        #expect(ledger.openCount == 3)
        // Requests of open sessions, and repeats of their creates, are still accepted.
        #expect(
            try ledger.admit(Request(.create(lanes: 1), session: sessionBytes(2), seq: 1)).resent != nil)
        try ledger.execute(Request(.close, session: sessionBytes(2), seq: 2))
        #expect(ledger.openCount == 2)
        // A session whose create is in progress counts too.
        let entry = try #require(try ledger.admit(create).entry)
        #expect(ledger.openCount == 3)
        let fifth = Request(.create(lanes: 1), session: sessionBytes(5), seq: 1)
        #expect(try ledger.admit(fifth).refusal?.code == .resourceExhausted)
        _ = try ledger.abandon(entry)
        #expect(ledger.openCount == 2)
        #expect(try ledger.admit(fifth).entry != nil)
    }

    @Test(arguments: [0, 1, 15, 17, 1000])
    mutating func `a session id whose length is not 16 is refused`(length: Int) throws {
        for op in [Request.OneOf_Op.create(lanes: 1), .step, .close] {
            let request = Request(op, session: Data(repeating: 7, count: length), seq: 1)
            let error = try #require(try ledger.admit(request).refusal)
            #expect(error.code == .invalidArgument)
            #expect(error.field == "session")
            #expect(error.message.contains("\(length) bytes"))
        }
        #expect(ledger.openCount == 0)
    }

    @Test mutating func `an older epoch is stale, and a newer one belongs to a lost session`() throws {
        try ledger.open(one)
        // Check with the last seq and with the next one.
        for request in [step(2, epoch: 0), Request(.create(lanes: 1), session: one, epoch: 0, seq: 1)] {
            let error = try #require(try ledger.admit(request).refusal)
            #expect(error.code == .staleEpoch)
            #expect(error.field == "epoch")
        }
        for epoch in [2, UInt32.max] {
            let error = try #require(try ledger.admit(step(2, epoch: epoch)).refusal)
            #expect(error.code == .notFound)
            #expect(error.field == "session")
        }
        #expect(try ledger.admit(step(2)).entry != nil)
    }
}

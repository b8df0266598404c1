import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import ZeroMQ

@testable import TwofoldServer

/// A session id of 16 times the same byte.
func sessionBytes(_ byte: UInt8) -> Data { Data(repeating: byte, count: 16) }

extension RequestFrames {
    /// The frames as they come from the wire: memory of their own each time.
    convenience init(header: [UInt8], payload: [UInt8]? = nil) throws {
        let header = try Message(copying: header)
        if let payload {
            self.init(header: header, payload: try Message(copying: payload))
        } else {
            self.init(header: header, payload: nil)
        }
    }
}

extension Route {
    /// A route that goes nowhere.
    convenience init(_ client: Client = .anonymous) {
        self.init(endpoint: 0, client: client, frames: Multipart())
    }
}

extension ReplyFrames {
    /// A reply to this seq.
    convenience init(seq: UInt64 = 0) throws {
        var reply = Reply()
        reply.seq = seq
        try self.init(reply)
    }
}

extension ServerSession {
    /// A session with one board.
    static func small() throws -> ServerSession {
        let service = EnvironmentService(limits: Limits(), workers: Workers(threads: 1), version: "")
        guard case .create(let request) = Request.OneOf_Op.create(lanes: 1) else { fatalError() }
        return try ServerSession(service.create(request).0, MemoryBudget(limit: .max))
    }
}

extension SessionLedger {
    /// A ledger with one limit and otherwise the defaults.
    init(maxSessions: Int) {
        var limits = Limits()
        limits.maxSessions = maxSessions
        self.init(limits)
    }

    /// Asks about a request as it comes from the wire.
    mutating func admit(_ request: Request, payload: [UInt8]? = nil, from route: Route = Route()) throws
        -> Verdict
    {
        try admit(request, RequestFrames(header: request.bytes, payload: payload), from: route)
    }

    /// Has a request carried out; the reply that was stored.
    @discardableResult
    mutating func carryOut(_ request: Request, payload: [UInt8]? = nil, change: Change = .none) throws
        -> ReplyFrames
    {
        let entry = try #require(try admit(request, payload: payload).entry)
        let reply = try ReplyFrames(seq: request.seq)
        _ = complete(entry, reply: reply, change: change)
        return reply
    }

    /// A session that was just created.
    mutating func open(_ session: Data) throws {
        try carryOut(
            Request(.create(lanes: 1), session: session, seq: 1), change: .created(ServerSession.small()))
    }
}

extension SessionLedger.Verdict {
    /// The entry to carry the request out on.
    var entry: SessionLedger.Entry? {
        if case .execute(let entry) = self { entry } else { nil }
    }

    /// The stored reply.
    var resent: ReplyFrames? {
        if case .resend(let reply) = self { reply } else { nil }
    }

    var isParked: Bool {
        if case .parked = self { true } else { false }
    }

    var refusal: ServiceError? {
        if case .refuse(let error) = self { error } else { nil }
    }
}

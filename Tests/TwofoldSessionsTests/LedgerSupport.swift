import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

/// A session id of 16 times the same byte.
func sessionBytes(_ byte: UInt8) -> Data { Data(repeating: byte, count: 16) }

/// The ledger of a carrier that keeps plain bytes.
typealias SessionLedger = TwofoldSessions.SessionLedger<RequestFrames, ReplyFrames, Route>

/// A request in bytes of its own.
final class RequestFrames: KeptRequest {
    private let header: [UInt8]
    private let payload: [UInt8]?

    init(header: [UInt8], payload: [UInt8]? = nil) throws {
        self.header = header
        self.payload = payload
    }

    func isSame(as other: RequestFrames) -> Bool { header == other.header && payload == other.payload }

    var compact: RequestFrames { try! RequestFrames(header: header) }

    func decodeHeader() -> Request? { header.withUnsafeBytes { Request(frame: $0) } }
}

/// A reply that is only compared with others.
final class ReplyFrames {
    init(seq: UInt64 = 0) throws {}
}

/// A route that goes nowhere.
final class Route: ReplyRoute {
    let client: Client

    init(_ client: Client = .anonymous) { self.client = client }
}

extension Moment {
    /// When nothing depends on it.
    static let start = Moment(nanoseconds: 0)
}

extension EnvironmentHost {
    /// A session with one board.
    static func small() throws -> EnvironmentHost {
        let service = EnvironmentService(limits: Limits(), workers: Workers(threads: 1))
        guard case .create(let request) = Request.OneOf_Op.create(lanes: 1) else { fatalError() }
        return try EnvironmentHost(
            service.create(request).0, keeping: request, MemoryBudget(limit: .max))
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
    mutating func admit(
        _ request: Request, payload: [UInt8]? = nil, from route: Route = Route(), at now: Moment = .start
    ) throws -> Verdict {
        try admit(request, RequestFrames(header: request.bytes, payload: payload), from: route, at: now)
    }

    /// Has a request carried out; the reply that was stored.
    @discardableResult
    mutating func carryOut(_ request: Request, payload: [UInt8]? = nil, change: SessionChange = .none) throws
        -> ReplyFrames
    {
        let entry = try #require(try admit(request, payload: payload).entry)
        let reply = try ReplyFrames(seq: request.seq)
        _ = complete(entry, reply: reply, change: change)
        return reply
    }

    /// An outcome whose time does not matter.
    mutating func complete(_ entry: Entry, reply: ReplyFrames, change: SessionChange) -> Delivery {
        complete(entry, reply: reply, change: change, at: .start)
    }

    /// A refusal whose time does not matter.
    mutating func abandon(_ entry: Entry) -> Delivery { abandon(entry, at: .start) }

    /// A session that was just created.
    mutating func open(_ session: Data) throws {
        try carryOut(
            Request(.create(lanes: 1), session: session, seq: 1), change: .created(EnvironmentHost.small()))
    }
}

extension SessionLedger.Verdict {
    /// The entry to carry the request out on.
    var entry: SessionLedger.Entry? {
        switch self {
        case .create(let entry, _), .execute(let entry, _): entry
        default: nil
        }
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

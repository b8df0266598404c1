import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

/// Returns a session id of 16 equal bytes.
func sessionBytes(_ byte: UInt8) -> Data { Data(repeating: byte, count: 16) }

extension StoredReply {
    /// Creates a reply that tests only compare with other replies.
    convenience init(seq: UInt64 = 0) { self.init(.step(.init()), seq: seq) }
}

extension Route {
    /// Creates a route without an address.
    convenience init(_ client: String? = nil) { self.init(client, arrived: .start) }
}

extension Moment {
    /// The time for events whose time does not matter.
    static let start = Moment(nanoseconds: 0)
}

extension ServedEnvironment {
    /// Returns an environment with one board.
    static func small() throws -> ServedEnvironment {
        try ServedEnvironment(
            createRequest(lanes: 1), EnvironmentService(limits: Limits(), workers: Workers(threads: 1)))
    }
}

extension SessionLedger {
    /// Creates a ledger with this session limit and the default values of all other limits.
    init(maxSessions: Int) {
        var limits = Limits()
        limits.maxSessions = maxSessions
        self.init(limits)
    }

    /// Admits a request in its encoded form, and starts it if the ledger decides to execute it.
    mutating func admit(
        _ request: Request, header: [UInt8]? = nil, payload: [UInt8]? = nil, from route: Route? = nil,
        at now: Moment = .start
    ) throws -> Decision {
        let (op, route) = (try #require(request.op), route ?? Route(nil, arrived: now))
        let header = (header ?? request.bytes).withUnsafeBytes { Frame(copying: $0) }
        let payload = payload?.withUnsafeBytes { Frame(copying: $0) }
        var decision = Decision()
        do throws(ServiceError) {
            switch try admit(request, op, header, payload, from: route) {
            case .execute(let entry):
                entry.start(
                    Work(
                        entry.subject(of: op), of: entry, RequestKind(op), seq: request.seq, header: header,
                        payload: payload, from: route))
                decision.entry = entry
            case .resend(let reply): decision.resent = reply
            case .parked: decision.isParked = true
            case .resumed, .waits: Issue.record("only a resume request gets this verdict")
            }
        } catch {
            decision.refusal = error
        }
        return decision
    }

    /// Executes a request and returns the stored reply.
    @discardableResult
    mutating func execute(
        _ request: Request, payload: [UInt8]? = nil, creating environment: ServedEnvironment? = nil
    ) throws -> StoredReply {
        let entry = try #require(try admit(request, payload: payload).entry)
        let reply = StoredReply(seq: request.seq)
        _ = try complete(entry, reply, creating: environment)
        return reply
    }

    /// Completes the request in progress, and returns it.
    mutating func complete(
        _ entry: Entry, _ reply: StoredReply, creating environment: ServedEnvironment? = nil,
        at now: Moment = .start
    ) throws -> Work {
        let work = try #require(entry.work)
        if let environment { work.environment = environment }
        complete(entry, reply, at: now)
        return work
    }

    /// Abandons the request in progress, and returns it.
    mutating func abandon(_ entry: Entry) throws -> Work {
        let work = try #require(entry.work)
        abandon(entry, at: .start)
        return work
    }

    /// Returns the ledger's decision about a resume request.
    func resumption(_ request: Request, from route: Route) -> Result<Verdict, ServiceError> {
        Result { () throws(ServiceError) in try resume(request, from: route, at: .start) }
    }

    /// Creates a session.
    mutating func open(_ session: Data) throws {
        try execute(Request(.create(lanes: 1), session: session, seq: 1), creating: ServedEnvironment.small())
    }
}

/// The ledger's decision about a request.
struct Decision {
    /// The entry of the session that executes the request.
    var entry: SessionLedger.Entry?
    /// The stored reply that is resent.
    var resent: StoredReply?
    var isParked = false
    var refusal: ServiceError?
}

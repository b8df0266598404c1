internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// A request as it came: its header, empty for a step that has none, and its payload.
///
/// `@unchecked Sendable` because only its reservation changes, once, by the caller that carries it out.
final class KeptBytes: KeptRequest, @unchecked Sendable {
    private let header: [UInt8]
    private let payload: [UInt8]?
    private var reservation: MemoryBudget.Reservation?

    init(header: [UInt8], payload: [UInt8]?) {
        self.header = header
        self.payload = payload
    }

    func isSame(as other: KeptBytes) -> Bool { header == other.header && payload == other.payload }

    var compact: KeptBytes { KeptBytes(header: header, payload: nil) }

    /// Holds the bytes in the budget for as long as they live; small ones are not counted.
    func reserve(in budget: MemoryBudget) throws(ServiceError) {
        reservation = try budget.reserve(request: header.count + (payload?.count ?? 0))
    }

    /// Calls `body` with the payload's bytes, nil without one.
    func withPayload<Result>(
        _ body: (UnsafeRawBufferPointer?) throws(ServiceError) -> Result
    ) throws(ServiceError) -> Result {
        guard let payload else { return try body(nil) }
        return try payload.span.bytes.withUnsafeBytes { (bytes) throws(ServiceError) in try body(bytes) }
    }
}

/// A reply as it is kept: its result, and where its payload is.
struct KeptAnswer {
    let result: Reply.OneOf_Result
    let payload: EnvironmentHost.Payload?

    init(_ outcome: SessionOutcome) { (result, payload) = (outcome.result, outcome.payload) }
}

/// The one client of a service in a process: callers can't be distinguished.
final class Caller: ReplyRoute {
    let client = Client.anonymous
}

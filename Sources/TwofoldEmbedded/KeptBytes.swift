internal import Platform
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// A request as it came: its header, empty for a step that has none, and its payload.
///
/// A long payload is read where the caller has it, and copied once the ledger has admitted the request: a repeat, or
/// one that is refused, takes no memory.
///
/// `@unchecked Sendable` because only its payload and its reservation change, once, by the caller that carries it out;
/// the payload under the lock of the ledger, which compares it.
final class KeptBytes: KeptRequest, @unchecked Sendable {
    /// Payloads up to this size are copied at once, and not counted.
    static let smallBytes = 4096

    private enum Payload {
        case none
        case kept([UInt8])
        /// Valid until the caller's call returns.
        case ofCaller(Actions)
    }

    private let header: [UInt8]
    private var payload: Payload
    private var reservation: MemoryBudget.Reservation?

    init(header: [UInt8], payload: [UInt8]) {
        self.header = header
        self.payload = .kept(payload)
    }

    /// A request of the caller's memory. Throws if one of few actions does not fit into a byte.
    init(header: [UInt8], ofCaller payload: Actions?) throws(ServiceError) {
        self.header = header
        self.payload =
            switch payload {
            case nil: .none
            case let payload? where payload.count <= Self.smallBytes: .kept(try payload.narrowed())
            case let payload?: .ofCaller(payload)
            }
    }

    private init(header: [UInt8]) {
        self.header = header
        payload = .none
    }

    func isSame(as other: KeptBytes) -> Bool {
        guard header == other.header else { return false }
        return withActions { mine in
            other.withActions { theirs in
                switch (mine, theirs) {
                case (nil, nil): true
                case (let mine?, let theirs?): mine.isSame(as: theirs)
                default: false
                }
            }
        }
    }

    var compact: KeptBytes { KeptBytes(header: header) }

    /// Bytes of the payload as it is kept; 0 without one.
    var payloadSize: Int { withActions { $0?.count ?? 0 } }

    /// Reserves the bytes in the budget for as long as they live; small ones are not counted. Returns the copy that is
    /// to be kept; nil where the payload is kept already.
    func reserve(in budget: MemoryBudget) throws(ServiceError) -> [UInt8]? {
        reservation = try budget.reserve(request: header.count + payloadSize)
        guard case .ofCaller(let actions) = payload else { return nil }
        let promise: MemoryPromise
        do throws(OutOfMemory) { promise = try MemoryPromise.make(actions.count) } catch {
            throw ServiceError(.resourceExhausted, "no memory to keep the request: \(error)")
        }
        defer { withExtendedLifetime(promise) {} }
        return try actions.narrowed()
    }

    /// Keeps a copy instead of the caller's memory.
    func keep(_ copy: [UInt8]) { payload = .kept(copy) }

    /// Calls `body` with the bytes of a payload that is kept, nil without one.
    func withPayload<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer?) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch payload {
        case .none: try body(nil)
        case .ofCaller: preconditionFailure("a request is kept before it is carried out")
        case .kept(let bytes):
            try bytes.span.bytes.withUnsafeBytes { (bytes) throws(Failure) in try body(bytes) }
        }
    }

    private func withActions<Result>(_ body: (Actions?) -> Result) -> Result {
        if case .ofCaller(let actions) = payload { return body(actions) }
        return withPayload { body($0.map(Actions.init)) }
    }
}

/// The one client of a service in a process: callers can't be distinguished.
final class Caller: ReplyRoute {
    let client = Client.anonymous
}

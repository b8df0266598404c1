internal import FoundationEssentials
internal import Platform
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The frames of one request as they came, without the route. Kept by the ledger until the session's
/// next request, to recognise repeats; libzmq's own memory, so nothing is copied.
///
/// `@unchecked Sendable` because nothing changes it after the socket thread has admitted it: a worker reads
/// the payload while the socket thread compares it with a repeat.
package final class RequestFrames: KeptRequest, @unchecked Sendable {
    let header: Message
    let payload: Message?
    private var reservation: MemoryBudget.Reservation?

    init(header: consuming Message, payload: consuming Message?) {
        self.header = header
        self.payload = payload
    }

    /// Holds the bytes in the budget for as long as the frames live; small ones are not counted.
    func reserve(in budget: MemoryBudget) throws(ServiceError) {
        reservation = try budget.reserve(request: header.size + payloadSize)
    }

    /// Bytes of the payload frame; 0 without one.
    var payloadSize: Int { withPayload { $0?.count ?? 0 } }

    /// Throws when there is a payload frame, for a request that takes none.
    func refusePayload() throws(ServiceError) {
        guard payload == nil else { throw .noPayload }
    }

    /// Whether the other request is this one again, byte for byte.
    package func isSame(as other: RequestFrames) -> Bool {
        guard header == other.header else { return false }
        return withPayload { mine in
            other.withPayload { theirs in
                switch (mine, theirs) {
                case (nil, nil): true
                case (let mine?, let theirs?):
                    mine.count == theirs.count
                        && (mine.isEmpty || memcmp(mine.baseAddress!, theirs.baseAddress!, mine.count) == 0)
                default: false
                }
            }
        }
    }

    /// The header alone, in memory of its own: what libzmq received lies in a buffer of 8 KiB that a frame
    /// keeps alive as a whole.
    package var compact: RequestFrames {
        // Without memory for a few bytes the process has ended long before.
        RequestFrames(header: header.withUnsafeBytes { try! Message(copying: $0) }, payload: nil)
    }

    /// The frames, to be saved.
    var saved: SavedFrames {
        var saved = SavedFrames()
        saved.header = header.withUnsafeBytes { Data($0) }
        withPayload { if let payload = $0 { saved.payload = Data(payload) } }
        return saved
    }

    /// Frames that were saved.
    convenience init(_ saved: SavedFrames) throws(ZeroMQError) {
        let header = try Message(copying: saved.header.bytes)
        if saved.hasPayload {
            self.init(header: header, payload: try Message(copying: saved.payload.bytes))
        } else {
            self.init(header: header, payload: nil)
        }
    }

    /// The request in the header; throws when it is not one.
    func decodeHeader() throws(ServiceError) -> Request {
        try header.withUnsafeBytes { (bytes) throws(ServiceError) in try Request.decode(bytes) }
    }

    /// Calls `body` with the payload's bytes, nil where there is no payload frame.
    func withPayload<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer?) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch payload {
        case .some(let payload): try payload.withUnsafeBytes { (bytes) throws(Failure) in try body(bytes) }
        case .none: try body(nil)
        }
    }
}

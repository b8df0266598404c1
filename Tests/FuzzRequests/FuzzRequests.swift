import CTwofold
import TwofoldEmbedded
import TwofoldProtocol

// The fuzz target of `make fuzz`. libFuzzer generates inputs, guided by the code that they reach. Each input is passed
// to the library's C interface. From there, it takes the same path as a message from a socket: through the decoder,
// the ledger and the service.
//
//     kind (1 byte) │ header's length (2 bytes, little-endian) │ header │ payload …
//
//     kind & 3    0 the header as it is      1 the header, put into the session as its next request
//                 2 a step of the session    3 a step with session, epoch and seq from the header
//     kind & 4    room for a few bytes only
//     kind >> 3   the width of a step's actions
//
// Nothing here may trap, read or write out of bounds, or return a reply that cannot be decoded.

/// The number of boards in the session: one full block of the kernel and part of a second block.
private let lanes = 67
/// The capacity of the reply buffer in bytes. A reply that exceeds it counts as no reply.
private let room = 64 << 20

/// `nonisolated(unsafe)` is correct here and below because libFuzzer calls from one thread.
nonisolated(unsafe) private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: room)
nonisolated(unsafe) private let headerMemory = UnsafeMutablePointer<UInt8>.allocate(capacity: 1 << 20)
nonisolated(unsafe) private var service: UInt64 = 0
/// The session's id, which changes with each create request.
nonisolated(unsafe) private var session: [UInt8] = []
/// The number of the last executed request.
nonisolated(unsafe) private var seq: UInt64 = 0
nonisolated(unsafe) private var sessions: UInt64 = 0

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeBufferPointer(start: start, count: count)
    guard count >= 3 else { return 0 }
    let length = min(Int(input[1]) | Int(input[2]) << 8, count - 3)
    let header = Array(input[3..<3 + length])
    let payload = Array(input[(3 + length)...])
    if session.isEmpty { begin() }
    let isTight = input[0] & 4 != 0
    let width = [1, -1, 2, -2, 4, -4, 8, -8][Int(input[0] >> 3 & 7)] as Int32
    switch input[0] & 3 {
    case 0: _ = call(header, payload, isTight)
    case 1:
        let op = Request.OneOf_Op.kind(of: header)
        if case .create = op { newSession() }
        let request = header + (op?.belongsToSession == true ? position : [])
        let answer = call(request, payload, isTight)
        if case .some(.error) = answer { break }
        if op?.belongsToSession == true { seq += 1 }
        if case .some(.close) = answer {
            seq = 0
            begin()
        }
        // Until its first reset, a new session would refuse most requests.
        if case .some(.create) = answer { reset() }
    case 2:
        if step(session, epoch: 1, seq: seq + 1, payload, width, isTight) { seq += 1 }
    default:
        guard header.count >= 28 else { return 0 }
        func number(_ range: Range<Int>) -> UInt64 {
            header[range].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        _ = step(
            Array(header[..<16]), epoch: UInt32(number(16..<20)), seq: number(20..<28), payload, width,
            isTight)
    }
    if seq == 0 { begin() }
    return 0
}

/// The encoded session, epoch and seq of the next request. If a field occurs twice in a message, the last one counts.
private var position: [UInt8] {
    [0x0a, 16] + session + [0x15, 1, 0, 0, 0, 0x19]
        + (0..<8).map { UInt8(truncatingIfNeeded: (seq + 1) >> (8 * $0)) }
}

/// Closes the current session if it is open, and chooses a new session id.
private func newSession() {
    if seq > 0 { _ = call(Request.frame(.close(.init())) + position, [], false) }
    sessions &+= 1
    session = withUnsafeBytes(of: (sessions, sessions)) { Array($0) }
    seq = 0
}

/// Creates a new session and resets its boards.
private func begin() {
    if service == 0 { precondition(create(&service, nil, 0) == TWOFOLD_ANSWERED) }
    newSession()
    var create = CreateRequest()
    create.environmentID = "twofold/Game2048-v0"
    create.numEnvs = UInt64(lanes)
    guard case .some(.create) = call(Request.frame(.create(create)) + position, [], false) else {
        preconditionFailure("no session")
    }
    seq = 1
    reset()
}

private func reset() {
    var reset = ResetRequest()
    reset.seeds = true
    for count in [lanes, 1, 2, 3, 64] {
        let seeds = [UInt8](repeating: 5, count: count * 8)
        if case .some(.reset) = call(Request.frame(.reset(reset)) + position, seeds, false) {
            seq += 1
            return
        }
    }
}

/// Sends a request and returns the result; nil if no reply arrives. If `payload` is empty, sends no payload.
private func call(_ header: [UInt8], _ payload: [UInt8], _ isTight: Bool) -> Reply.OneOf_Result? {
    answer(isTight) { reply in
        header.withUnsafeBufferPointer { header in
            payload.withUnsafeBufferPointer { payload in
                TwofoldEmbedded.call(
                    service, header.baseAddress ?? UnsafePointer(memory), header.count,
                    payload.isEmpty ? nil : payload.baseAddress, payload.count, &reply)
            }
        }
    }.result
}

/// Sends a step, and returns true if it was executed.
private func step(
    _ session: [UInt8], epoch: UInt32, seq: UInt64, _ actions: [UInt8], _ width: Int32, _ isTight: Bool
) -> Bool {
    let (status, result) = answer(isTight) { reply in
        withUnsafeMutablePointer(to: &reply) { reply in
            var steps = twofold_steps()
            withUnsafeMutableBytes(of: &steps.session) { $0.copyBytes(from: session) }
            (steps.service, steps.epoch, steps.width, steps.reply) = (service, epoch, width, reply)
            steps.count = actions.count / abs(Int(width))
            return actions.withUnsafeBufferPointer {
                TwofoldEmbedded.step(&steps, seq, $0.baseAddress ?? UnsafePointer(memory))
            }
        }
    }
    if case .some(.step) = result { return true }
    return status == TWOFOLD_STEPPED
}

/// Calls `body` and decodes the reply. If `isTight`, the buffers are first too small for most replies, and it repeats
/// the call with enough room, as a real caller would.
private func answer(
    _ isTight: Bool, _ body: (inout twofold_reply) -> Int32
) -> (status: Int32, result: Reply.OneOf_Result?) {
    var reply = twofold_reply(
        header: headerMemory, header_capacity: isTight ? 7 : 1 << 20, header_size: 0, payload: memory,
        payload_capacity: isTight ? 100 : room, payload_size: 0)
    var status = body(&reply)
    if status == TWOFOLD_TOO_SMALL, isTight {
        precondition(reply.header_size > 7 || reply.payload_size > 100, "TOO_SMALL for a reply that fits")
        (reply.header_capacity, reply.payload_capacity) = (1 << 20, room)
        status = body(&reply)
    }
    guard status == TWOFOLD_ANSWERED else { return (status, nil) }
    let header = UnsafeRawBufferPointer(start: headerMemory, count: reply.header_size)
    let read = Reply(frame: header)
    precondition(read?.frame == Array(header), "the decoded reply is encoded as different bytes")
    return (status, read?.result)
}

extension Request {
    /// Returns an encoded request without session, epoch and seq.
    fileprivate static func frame(_ op: OneOf_Op) -> [UInt8] {
        var request = Request()
        request.op = op
        return request.frame
    }
}

extension Request.OneOf_Op {
    /// Returns the operation in an encoded header; nil if the header cannot be decoded.
    fileprivate static func kind(of header: [UInt8]) -> Self? {
        header.withUnsafeBytes { Request(frame: $0) }?.op
    }

    fileprivate var belongsToSession: Bool {
        switch self {
        case .hello, .expand, .stats, .resume: false
        default: true
        }
    }
}

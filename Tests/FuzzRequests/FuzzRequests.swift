import TwofoldCore
import TwofoldProtocol
import TwofoldService

// What `make fuzz` runs: libFuzzer makes inputs, guided by the code that they reach, and calls this.
//
//     header's length (2 bytes, little-endian) │ header │ payload …
//
// The header goes through the decoder, and a request through the service, as it would behind the socket.
// Nothing here may trap, read out of bounds, or answer what can't be encoded and read again.

/// Boards of a session: enough for a whole block of the kernel and a part of one.
private let lanes = 67
private let limits: Limits = {
    var limits = Limits()
    limits.maxBoardsPerSession = 200
    return limits
}()
private let service = EnvironmentService(limits: limits, workers: Workers(threads: 1))
/// Memory of replies: for the largest boards and all that is told of them.
/// Unsafe, and right, because libFuzzer calls from one thread: the same for the session.
nonisolated(unsafe) private let memory = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 64 << 20, alignment: 64)
/// The session that requests go to; a create puts another one in its place.
nonisolated(unsafe) private var session: EnvironmentSession? = nil

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    guard count >= 2 else { return 0 }
    let length = min(Int(input[0]) | Int(input[1]) << 8, count - 2)
    let header = UnsafeRawBufferPointer(rebasing: input[2..<2 + length])
    let rest = UnsafeRawBufferPointer(rebasing: input[(2 + length)...])
    guard let request = Request(frame: header), let op = request.op else { return 0 }

    var reply = Reply()
    reply.seq = request.seq
    do throws(ServiceError) {
        reply.result = try answer(op, payload: rest.isEmpty ? nil : rest)
    } catch {
        reply.error = error.wire
    }
    let frame = reply.frame
    precondition(
        frame.withUnsafeBytes { Reply(frame: $0) }?.frame == frame, "a reply that does not read the same")
    return 0
}

private func answer(
    _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
) throws(ServiceError) -> Reply.OneOf_Result {
    switch op {
    case .hello(let hello): return .hello(try service.hello(hello))
    case .create(let create):
        let (created, reply) = try service.create(create)
        session = created
        try start()
        return .create(reply)
    case .expand(let expand):
        return .expand(try service.expansion(expand).perform(payload: payload, replyMemory: replyMemory))
    default:
        if session == nil {
            var create = CreateRequest()
            create.environmentID = "twofold/Game2048-v0"
            create.numEnvs = UInt64(lanes)
            session = try service.create(create).0
            try start()
        }
        return try execute(op, payload: payload)
    }
}

/// The first reset, without which nothing else is carried out.
private func start() throws(ServiceError) {
    var reset = ResetRequest()
    reset.seeds = true
    let seeds = [UInt8](repeating: 5, count: session!.lanes * 8)
    _ = try seeds.span.bytes.withUnsafeBytes { (bytes) throws(ServiceError) in
        try execute(.reset(reset), payload: bytes)
    }
}

private func execute(
    _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
) throws(ServiceError) -> Reply.OneOf_Result {
    try session!.execute(op, payload: payload, replyMemory: replyMemory).result
}

/// Refuses what is too large, as the server does.
private func replyMemory(_ size: Int) throws(EnvironmentError) -> UnsafeMutableRawBufferPointer {
    guard size <= memory.count else { throw .exhausted("", "no memory for the reply") }
    return UnsafeMutableRawBufferPointer(rebasing: memory[..<size])
}

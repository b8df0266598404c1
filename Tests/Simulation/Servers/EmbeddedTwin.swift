internal import CTwofold
internal import FoundationEssentials
internal import TwofoldEmbedded
internal import TwofoldProtocol
internal import TwofoldTestSupport

/// The in-process library. It gets the requests that a server has executed, and must return the same replies. It also
/// gets repeated requests, requests that skip sequence numbers, and reply buffers that are too small.
final class EmbeddedTwin {
    /// A session of the library. It counts its requests separately because the library never gets resume requests or
    /// requests that the server has refused.
    struct Session {
        let id: Data
        var last: UInt64 = 0
    }

    struct Answer: Equatable {
        var result: Reply.OneOf_Result?
        var payload: [UInt8] = []
    }

    private var service: UInt64 = 0
    private var dice: Dice
    private var header = [UInt8](repeating: 0, count: 1 << 16)
    private var payload: [UInt8] = []
    /// A description of the last wrong answer; nil if all answers were right.
    private(set) var problem: String?

    init(seed: UInt64) {
        dice = Dice(seed: seed ^ 0x7477_696e)
        let status = TwofoldEmbedded.create(&service, nil, 0)
        precondition(status == TWOFOLD_ANSWERED, "the settings in the environment variables are invalid")
    }

    deinit { _ = TwofoldEmbedded.destroy(service) }

    func session() -> Session { Session(id: Data(dice.bytes(16))) }

    /// Executes a request in the library after the server has executed it.
    func execute(_ op: Request.OneOf_Op, _ bytes: [UInt8]?, of session: inout Session) -> Answer {
        var request = Request(op, session: session.id, seq: session.last + 1)
        if session.last > 0, dice.once(in: 16) {
            request.seq += UInt64(1 + dice.below(9))
            if case .error(let error) = call(request, bytes).result, error.code == .outOfSequence {
            } else {
                problem = "the library did not refuse a request that skips numbers"
            }
            request.seq = session.last + 1
        }
        if case .step = op, let bytes, dice.once(in: 16) {
            guard case .error(let error) = ask(request, bytes + [0]).result, error.field == "actions" else {
                problem = "the library did not refuse a step with an extra action"
                return Answer()
            }
        }
        if dice.once(in: 8) { payload = [] }
        let answer = ask(request, bytes)
        if case .error = answer.result { return answer }
        session.last += 1
        if dice.once(in: 4), ask(request, bytes) != answer {
            problem = "the library gave different replies to request \(request.seq) and its repeat"
        }
        if case .step = op, let bytes, dice.once(in: 16) {
            let other = [(bytes[0] + 1) % 4] + bytes.dropFirst()
            if case .error(let error) = ask(request, other).result, error.code == .conflict {
            } else {
                problem = "the library did not refuse a repeat of request \(request.seq) with other actions"
            }
        }
        return answer
    }

    private func ask(_ request: Request, _ bytes: [UInt8]?) -> Answer {
        if case .step = request.op, let bytes { return step(request, bytes) }
        return call(request, bytes)
    }

    private func call(_ request: Request, _ bytes: [UInt8]?) -> Answer {
        let frame = request.frame
        // Add one byte, so that an empty payload also has an address.
        let actions = bytes.map { $0 + [0] }
        return answer(to: request.seq) { reply in
            guard let actions else {
                return TwofoldEmbedded.call(service, frame, frame.count, nil, 0, reply)
            }
            return TwofoldEmbedded.call(service, frame, frame.count, actions, actions.count - 1, reply)
        }
    }

    /// Executes a step through the fast step function. Each action has one byte or eight bytes.
    private func step(_ request: Request, _ bytes: [UInt8]) -> Answer {
        var steps = twofold_steps()
        (steps.service, steps.epoch, steps.count) = (service, request.epoch, bytes.count)
        withUnsafeMutableBytes(of: &steps.session) { $0.copyBytes(from: request.session) }
        let isWide = dice.once(in: 2)
        steps.width = isWide ? -8 : 1
        let actions: [UInt8] = bytes.flatMap { isWide ? [$0, 0, 0, 0, 0, 0, 0, 0] : [$0] }
        return answer(to: request.seq) { reply in
            steps.reply = reply
            return actions.withUnsafeBytes { TwofoldEmbedded.step(&steps, request.seq, $0.baseAddress) }
        }
    }

    private func answer(
        to seq: UInt64, _ ask: (UnsafeMutablePointer<twofold_reply>) -> Int32
    ) -> Answer {
        var reply = twofold_reply()
        func attempt() -> Int32 {
            header.withUnsafeMutableBufferPointer { header in
                payload.withUnsafeMutableBufferPointer { payload in
                    (reply.header, reply.header_capacity) = (header.baseAddress, header.count)
                    (reply.payload, reply.payload_capacity) = (payload.baseAddress, payload.count)
                    return ask(&reply)
                }
            }
        }
        var status = attempt()
        if status == TWOFOLD_TOO_SMALL {
            payload = [UInt8](repeating: 0, count: max(1, reply.payload_size))
            status = attempt()
        }
        let bytes = Array(payload.prefix(reply.payload_size))
        switch Int(status) {
        case TWOFOLD_ANSWERED:
            let decoded = header[..<reply.header_size].withUnsafeBytes { Reply(frame: $0) }
            if let decoded, decoded.seq != seq {
                problem = "the library's reply to request \(seq) has the number \(decoded.seq)"
            }
            return Answer(result: decoded?.result, payload: bytes)
        case TWOFOLD_STEPPED: return Answer(result: .step(.init()), payload: bytes)
        default: return Answer()
        }
    }
}

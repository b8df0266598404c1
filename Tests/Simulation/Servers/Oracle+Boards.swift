internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldTestSupport

// The second environment, which gives each result once more.

extension Oracle {
    /// Whether two payloads have the same arrays; the bytes between these mean nothing.
    private func isSame(_ left: [UInt8], _ right: [UInt8], _ layouts: [PayloadLayoutMessage]?) -> Bool {
        guard let layouts else { return left == right }
        return left.count == right.count
            && layouts.allSatisfy { layout in
                layout.arrays.allSatisfy { array in
                    let start = Int(array.offset)
                    let end = start + array.shape.reduce(array.dtype.size) { $0 * Int($1) }
                    return left[start..<end] == right[start..<end]
                }
            }
    }

    /// Does the same once more, without trouble.
    func compare(
        _ question: Question, _ reply: Reply, _ packet: World.Packet, _ record: Record, _ isStopping: Bool
    ) {
        switch question.request.op {
        case .create(let create):
            guard let (shadow, expected) = try? service.create(create) else {
                return world.violate("a create was carried out that is not valid")
            }
            (record.shadow, record.created) = (shadow, expected)
            // For a share of all sessions, since these rules are slow.
            var dice = Dice(seed: world.seed ^ question.clockSeed)
            if dice.once(in: 4) { record.plain = PlainBatch(create, expected) }
            if reply.create != expected { world.violate("a create was answered in another way") }
        case .close: record.shadow = nil
        case .some(let op):
            guard let shadow = record.shadow else { return }
            do {
                let (result, payload) = try carryOut(op, question, on: shadow, isStopping)
                let layouts = record.layouts(of: result)
                if result != reply.result || !isSame(payload, packet.payload ?? [], layouts) {
                    world.violate(
                        "request \(question.request.seq) of session \(question.name) has another "
                            + "result than the same boards elsewhere")
                }
                if let wrong = record.plain?.follow(op, question.payload ?? [], result, payload) {
                    world.violate(
                        "request \(question.request.seq) of session \(question.name), by the plain rules: \(wrong)"
                    )
                }
                note(result, asked: op, of: record)
            } catch {
                world.violate("a request was carried out that should be refused: \(error)")
            }
        case nil: break
        }
    }

    func carryOut(
        _ op: Request.OneOf_Op, _ question: Question, on shadow: ServedEnvironment, _ isStopping: Bool
    ) throws(ServiceError) -> (Reply.OneOf_Result, [UInt8]) {
        // A stop ends a rollout after its first step.
        world.clock.restart(question.clockSeed, at: world.now, isOver: isStopping)
        defer { world.clock.restart(0, at: world.now) }
        func perform(_ payload: UnsafeRawBufferPointer?) throws(ServiceError) -> ServedEnvironment.Outcome {
            try shadow.execute(op, payload: payload) { [memory] (size) throws(EnvironmentError) in
                memory.room(size)
            }
        }
        let outcome: ServedEnvironment.Outcome
        if let payload = question.payload {
            outcome = try payload.span.bytes.withUnsafeBytes { (bytes) throws(ServiceError) in
                try perform(bytes)
            }
        } else {
            outcome = try perform(nil)
        }
        return (outcome.result, Array(memory.room(outcome.payloadSize)))
    }

    private func note(_ result: Reply.OneOf_Result, asked op: Request.OneOf_Op, of record: Record) {
        switch (op, result) {
        case (.rollout(let asked), .rollout(let done)):
            if done.steps < asked.steps { world.reach(.partialRollout) }
            if case .ntuple = asked.source { world.reach(.networkPlayed) }
        case (_, .step(let step)):
            if step.hasFinals { world.reach(.finals) }
            if step.hasFinals, record.plain?.isKnown == true { world.reach(.plainFinals) }
        case (_, .restore): world.reach(.snapshotRestored)
        default: break
        }
    }
}

/// Room for the second environment's replies.
///
/// The unsafe room of the oracle: one buffer, which only grows.
final class OracleMemory {
    private var bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 64)

    deinit { bytes.deallocate() }

    func room(_ size: Int) -> UnsafeMutableRawBufferPointer {
        if size > bytes.count {
            bytes.deallocate()
            bytes = .allocate(byteCount: size, alignment: 64)
        }
        return UnsafeMutableRawBufferPointer(rebasing: bytes[..<size])
    }
}

extension Twofold_V1_DataType {
    fileprivate var size: Int {
        switch self {
        case .int32, .float32: 4
        case .uint64, .float64: 8
        default: 1
        }
    }
}

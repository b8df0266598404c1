internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldTestSupport

// The second environment, which computes each result independently.

extension Oracle {
    /// Returns true if two payloads have the same arrays. It ignores the bytes between arrays.
    private func isSame(_ left: [UInt8], _ right: [UInt8], _ layouts: [PayloadLayoutMessage]?) -> Bool {
        guard let layouts else { return left == right }
        return left.count == right.count
            && layouts.allSatisfy { layout in
                layout.arrays.allSatisfy { array in
                    let range = Int(array.offset)..<Int(array.offset) + array.byteCount
                    return left[range] == right[range]
                }
            }
    }

    /// Executes the request again in the second environment, without faults, and compares the replies.
    func compare(
        _ question: Question, _ reply: Reply, _ packet: World.Packet, _ record: Record, _ isStopping: Bool
    ) {
        switch question.request.op {
        case .create(let create):
            guard let shadow = try? ServedEnvironment(create, service) else {
                return world.violate("a server executed an invalid create request")
            }
            let expected = shadow.createReply
            (record.shadow, record.created) = (shadow, expected)
            // Only some sessions use the plain rules, because they are slow.
            var dice = Dice(seed: world.seed ^ question.clockSeed)
            if dice.once(in: 4) { record.plain = plainSession(create, expected) }
            if dice.once(in: 4) { record.twin = twin.session() }
            compareTwin(question, .create(expected), [], record)
            if reply.create != expected { world.violate("a create request got a wrong reply") }
        case .close:
            record.shadow = nil
            compareTwin(question, .close(.init()), [], record)
        case .some(let op):
            guard let shadow = record.shadow else { return }
            do {
                let (result, payload) = try execute(op, question, on: shadow, isStopping)
                let layouts = record.layouts(of: result)
                if result != reply.result || !isSame(payload, packet.payload ?? [], layouts) {
                    world.violate(
                        "the result of request \(question.request.seq) of session \(question.name) "
                            + "differs from the second environment's")
                }
                if let wrong = record.plain?.follow(
                    op, question.payload ?? [], result, payload, plainSnapshots)
                {
                    world.violate(
                        "request \(question.request.seq) of session \(question.name) breaks the rules: \(wrong)"
                    )
                }
                compareTwin(question, result, payload, record)
                note(result, asked: op, of: record)
            } catch {
                world.violate("a server executed an invalid request: \(error)")
            }
        case nil: break
        }
    }

    /// Executes the request again in the in-process library, and compares the replies.
    private func compareTwin(
        _ question: Question, _ result: Reply.OneOf_Result, _ payload: [UInt8], _ record: Record
    ) {
        guard var op = question.request.op, record.twin != nil else { return }
        var bytes = question.payload
        if case .rollout(var asked) = op, case .rollout(let done) = result {
            asked.steps = done.steps
            op = .rollout(asked)
            // The actions of the steps that the server completed.
            bytes = bytes.map { Array($0.prefix(Int(done.steps) * Int(record.create.numEnvs))) }
        }
        let answer = twin.execute(op, bytes, of: &record.twin!)
        if case .rollout(let done) = answer.result, case .rollout(let expected) = result,
            done.steps < expected.steps
        {
            // The library uses the machine's clock.
            record.twin = nil
            return
        }
        if answer.result != result || !isSame(answer.payload, payload, record.layouts(of: result)) {
            world.violate(
                "the library gives a different reply to request \(question.request.seq) of \(question.name)")
        }
        if let problem = twin.problem { world.violate(problem) }
        if case .create = op { world.reach(.askedLibrary) }
    }

    func execute(
        _ op: Request.OneOf_Op, _ question: Question, on shadow: ServedEnvironment, _ isStopping: Bool
    ) throws(EnvironmentError) -> (Reply.OneOf_Result, [UInt8]) {
        // A stop ends a rollout after its first step.
        world.clock.restart(question.clockSeed, at: world.now, isOver: isStopping)
        defer { world.clock.restart(0, at: world.now) }
        func perform(
            _ payload: UnsafeRawBufferPointer?
        ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
            try shadow.execute(op, payload: payload) { [memory] (size) throws(EnvironmentError) in
                memory.room(size)
            }
        }
        let outcome: (result: Reply.OneOf_Result, payloadSize: Int)
        if let payload = question.payload {
            outcome = try payload.span.bytes.withUnsafeBytes { (bytes) throws(EnvironmentError) in
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
            notePlain(asked, of: record)
        case (_, .step(let step)):
            if step.hasFinals { world.reach(.finals) }
            guard record.plain?.isKnown == true else { break }
            if step.hasFinals { world.reach(.plainFinals) }
            if case .concentration = record.create.config { world.reach(.plainCards) }
            if record.create.hasReward { world.reach(.plainReward) }
        case (_, .restore):
            world.reach(.snapshotRestored)
            if record.plain?.isKnown == true { world.reach(.plainSnapshotRestored) }
        default: break
        }
    }

    private func notePlain(_ asked: RolloutRequest, of record: Record) {
        guard record.plain?.isKnown == true else { return }
        switch asked.source {
        case .actions, nil: break
        case .ntuple: world.reach(.plainNetworkPlayed)
        default: world.reach(.plainPolicyRollout)
        }
    }
}

/// The memory for the second environment's replies: one buffer, which only grows.
///
/// The oracle has no other unsafe memory.
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

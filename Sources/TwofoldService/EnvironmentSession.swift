internal import TwofoldCore
public import TwofoldProtocol

/// One session's environment and the layout of its replies.
///
/// Used by one caller at a time.
public final class EnvironmentSession {
    /// Asks the carrier for the memory of a reply's payload, of exactly this many bytes.
    public typealias ReplyMemory = (_ size: Int) -> UnsafeMutableRawBufferPointer

    private let environment: any VectorEnvironment
    private let resetLayout: PayloadLayout
    private let stepLayout: PayloadLayout
    private let afterstatesLayout: PayloadLayout

    init(_ environment: any VectorEnvironment) {
        self.environment = environment
        resetLayout = PayloadLayout(environment.resetArrays, lanes: environment.lanes)
        stepLayout = PayloadLayout(environment.stepArrays, lanes: environment.lanes)
        afterstatesLayout = PayloadLayout(environment.afterstateArrays, lanes: environment.lanes)
    }

    /// Number of boards.
    public var lanes: Int { environment.lanes }

    /// About how long a request takes on one thread.
    public var nanoseconds: Int { lanes * environment.nanosecondsPerLane }

    /// Carries out one request; `payload` is its payload frame, nil where it has none. The reply's
    /// payload, if any, is written to the memory that `replyMemory` is asked for, at most once.
    /// A request that throws has changed nothing.
    public func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?, replyMemory: ReplyMemory
    ) throws(ServiceError) -> Reply.OneOf_Result {
        do throws(EnvironmentError) {
            switch op {
            case .reset(let request):
                let input = try resetInput(request, payload)
                try environment.reset(input, into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
                return .reset(.init())
            case .step:
                let actions = try stepActions(payload)
                try environment.step(
                    actions: actions, into: stepLayout.arrays(in: replyMemory(stepLayout.size)))
                return .step(.init())
            case .observe:
                try refusePayload(payload)
                try environment.observe(into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
                return .observe(.init())
            case .afterstates:
                try refusePayload(payload)
                guard afterstatesLayout.size > 0 else {
                    throw .invalid("op", "this environment has no afterstates")
                }
                try environment.afterstates(
                    into: afterstatesLayout.arrays(in: replyMemory(afterstatesLayout.size)))
                return .afterstates(.init())
            case .close:
                try refusePayload(payload)
                return .close(.init())
            case .hello, .create:
                throw .invalid("op", "this request does not belong inside a session")
            }
        } catch {
            throw ServiceError(error)
        }
    }

    var createReply: CreateReply {
        var reply = CreateReply()
        reply.epoch = 1
        let space = environment.observationSpace
        reply.observationSpace.box.dtype = .uint8
        reply.observationSpace.box.shape = space.shape.map(UInt64.init)
        reply.observationSpace.box.low = Double(space.range.lowerBound)
        reply.observationSpace.box.high = Double(space.range.upperBound)
        reply.actionSpace.discrete.n = UInt64(environment.actions.count)
        reply.reset = resetLayout.wire
        reply.step = stepLayout.wire
        reply.afterstates = afterstatesLayout.wire
        return reply
    }

    // MARK: request payloads

    private func stepActions(
        _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> UnsafeRawBufferPointer {
        guard let payload else {
            throw .invalid("actions", "a step needs a payload frame: actions, uint8 [\(lanes)]")
        }
        guard payload.count == lanes else {
            throw .invalid(
                "actions", "actions have \(payload.count) bytes; uint8 [\(lanes)] has \(lanes)")
        }
        return payload
    }

    /// Cuts a reset's payload into the arrays that the request announces.
    private func resetInput(
        _ request: ResetRequest, _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> ResetInput {
        let boardBytes = environment.observationSpace.shape.reduce(1, *)
        var announced: [String] = []
        var size = 0
        func announce(_ isThere: Bool, _ name: String, bytesPerLane: Int) -> Range<Int>? {
            guard isThere else { return nil }
            announced.append("\(name) of \(lanes * bytesPerLane) bytes")
            size += lanes * bytesPerLane
            return size - lanes * bytesPerLane..<size
        }
        let seeds = announce(request.seeds, "seeds", bytesPerLane: 8)
        let mask = announce(request.mask, "mask", bytesPerLane: 1)
        let boards = announce(request.boards, "boards", bytesPerLane: boardBytes)
        guard (payload?.count ?? 0) == size else {
            throw .invalid(
                "payload",
                "the reset's payload has \(payload?.count ?? 0) bytes; expected are \(size): "
                    + (announced.isEmpty ? "nothing is announced" : announced.joined(separator: ", ")))
        }
        func part(_ range: Range<Int>?) -> UnsafeRawBufferPointer? {
            range.map { UnsafeRawBufferPointer(rebasing: payload![$0]) }
        }
        return ResetInput(seeds: part(seeds), mask: part(mask), boards: part(boards))
    }

    private func refusePayload(_ payload: UnsafeRawBufferPointer?) throws(EnvironmentError) {
        guard payload == nil else { throw .invalid("payload", "this request takes no payload frame") }
    }
}

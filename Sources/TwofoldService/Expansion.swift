public import TwofoldCore
public import TwofoldProtocol

/// One expand request, which applies the rules to arrays of boards and needs no session. The request is checked on
/// creation, then executed.
///
///     payload   boards | actions or seeds | next_boards      without gaps; the operation decides which arrays exist
public struct Expansion: Sendable {
    private let rules: BoardRules
    private let operation: ExpandOperation
    /// The number of boards in the request. The reply covers only the first `count` of them.
    private let asked: Int
    private let count: Int
    private let nanosecondsPerBoard: Int

    /// The estimated time of the request on one thread, in nanoseconds.
    public var cost: Int { estimatedNanoseconds(lanes: count, nanosecondsPerLane: nanosecondsPerBoard) }

    fileprivate init(_ request: ExpandRequest, _ service: EnvironmentService) throws(EnvironmentError) {
        rules = try service.boardRules(of: request.environmentID, request.game2048)
        guard request.count >= 1 else {
            throw .invalid("count", "count is 0; it must be at least 1")
        }
        guard request.count <= service.limits.maxBoardsPerSession else {
            throw .exhausted(
                "count",
                "count is \(request.count); this server allows max_boards_per_session = "
                    + "\(service.limits.maxBoardsPerSession); send the others in another request")
        }
        switch request.operation {
        case .afterstates, .move, .legal, .spawn, .explain: operation = request.operation
        case .unspecified, .UNRECOGNIZED:
            throw .invalid(
                "operation", "operation \(request.operation.rawValue) is not known to this server")
        }
        nanosecondsPerBoard = operation == .explain ? 20_000 : rules.nanosecondsPerBoard
        asked = Int(request.count)
        count = min(asked, max(1, Int(EnvironmentService.answerTime / .nanoseconds(nanosecondsPerBoard))))
    }

    /// Executes the request. Calls `replyMemory` at most once, to get the memory for the reply's payload.
    public func perform(
        payload: UnsafeRawBufferPointer?, replyMemory: ServedEnvironment.ReplyMemory
    ) throws(EnvironmentError) -> ExpandReply {
        var parts = try cut(payload)
        let boards = BoardInput(parts.removeFirst(), count: count)
        func answer(
            _ specs: [ArraySpec], _ body: (BatchArrays) throws(EnvironmentError) -> Void
        ) throws(EnvironmentError) -> ExpandReply {
            let layout = BatchLayout(specs, lanes: count)
            try body(layout.arrays(in: replyMemory(layout.size)))
            var reply = ExpandReply()
            reply.arrays = layout.wire
            reply.count = UInt64(count)
            return reply
        }
        switch operation {
        case .move:
            return try answer(rules.moveArrays) { (arrays) throws(EnvironmentError) in
                try rules.move(boards, actions: parts[0], into: arrays)
            }
        case .legal:
            return try answer(rules.legalArrays) { (arrays) throws(EnvironmentError) in
                try rules.legal(boards, into: arrays)
            }
        case .spawn:
            return try answer(rules.spawnArrays) { (arrays) throws(EnvironmentError) in
                try rules.spawn(boards, seeds: parts[0], into: arrays)
            }
        case .explain:
            let next = BoardInput(parts[1], count: count, field: "next_board")
            return try explain(boards, actions: parts[0], next, replyMemory)
        default:
            return try answer(rules.afterstateArrays) { (arrays) throws(EnvironmentError) in
                try rules.afterstates(boards, into: arrays)
            }
        }
    }

    /// Splits the payload into the operation's arrays, without the boards that the reply does not cover.
    private func cut(
        _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> [UnsafeRawBufferPointer] {
        var announced = [("boards", rules.cells)]
        switch operation {
        case .move: announced.append(("actions", 1))
        case .spawn: announced.append(("seeds", 8))
        case .explain: announced += [("actions", 1), ("next_boards", rules.cells)]
        default: break
        }
        let size = announced.reduce(0) { $0 + $1.1 * asked }
        guard let payload, payload.count == size else {
            throw .invalid(
                "payload",
                "the payload has \(payload?.count ?? 0) bytes; expected \(size): "
                    + announced.map { "\($0.0) of \($0.1 * asked) bytes" }.joined(separator: ", "))
        }
        var start = 0
        return announced.map { part in
            defer { start += part.1 * asked }
            return UnsafeRawBufferPointer(rebasing: payload[start..<start + part.1 * count])
        }
    }

    /// Writes one row of numbers for each event of a move: a slide, merge or spawn. The columns are in the order of
    /// the protocol. A first pass over the boards only counts the rows, so that only the reply needs memory.
    private func explain(
        _ boards: BoardInput, actions: UnsafeRawBufferPointer, _ nextBoards: BoardInput,
        _ replyMemory: ServedEnvironment.ReplyMemory
    ) throws(EnvironmentError) -> ExpandReply {
        var rows = 0
        try rules.explain(boards, actions: actions, nextBoards: nextBoards) { rows += $1.count }
        var list = ArrayList()
        let names = ["board", "kind", "tile", "other", "made", "source", "target", "value"]
        let keys = names.map { list.add($0, Int32.self) }
        let layout = BatchLayout(list.specs, lanes: rows)
        var reply = ExpandReply()
        reply.arrays = layout.wire
        reply.count = UInt64(count)
        guard rows > 0 else { return reply }
        let arrays = layout.arrays(in: try replyMemory(layout.size))
        var row = 0
        try rules.explain(boards, actions: actions, nextBoards: nextBoards) { board, happened in
            for action in happened {
                for (key, number) in zip(keys, [board] + action.numbers) {
                    arrays.address(key, lane: row).storeBytes(of: Int32(number), as: Int32.self)
                }
                row += 1
            }
        }
        return reply
    }
}

extension MoveAction {
    /// The row's columns kind, tile, other, made, source, target and value.
    fileprivate var numbers: [Int] {
        switch self {
        case .slide(let tile, let source, let target, let value):
            [0, tile, -1, -1, source, target, value]
        case .merge(let first, let second, let into, let target, let value):
            [1, first, second, into, -1, target, value]
        case .spawn(let tile, let target, let value):
            [2, tile, -1, -1, -1, target, value]
        }
    }
}

extension EnvironmentService {
    /// Returns the rules of 2048 for arrays of boards. Throws for other environments, or if the config is invalid.
    package func boardRules(
        of environmentID: String, _ config: Game2048Config
    ) throws(EnvironmentError) -> BoardRules {
        guard environmentID == "twofold/Game2048-v0" else {
            throw .notFound(
                "environment_id",
                "the rules can be applied to arrays of boards only for twofold/Game2048-v0, not for "
                    + "'\(environmentID.prefix(100))'")
        }
        return BoardRules(try Game2048(.init(config)), workers: workers, engine: engine)
    }

    /// Checks an expand request, which applies the rules to arrays of boards.
    public func expansion(_ request: ExpandRequest) throws(EnvironmentError) -> Expansion {
        try Expansion(request, self)
    }
}

internal import TwofoldProtocol

/// The boards of a session by the plain rules, as far as they are known: those of a snapshot, and those that a policy of
/// the server has played, are unknown until a reset with a seed.
struct PlainBatch {
    private let rules: PlainRules
    private let autoreset: Twofold_V1_AutoresetMode
    private let hasOwnReward: Bool
    private let created: CreateReply
    private var boards: [PlainBoard?]

    /// Nil for another game.
    init?(_ create: CreateRequest, _ created: CreateReply) {
        guard create.environmentID == "twofold/Game2048-v0" else { return nil }
        var rules = PlainRules()
        let config = create.game2048
        if config.hasRows { rules.rows = Int(config.rows) }
        if config.hasColumns { rules.columns = Int(config.columns) }
        if config.hasGoal { rules.goal = Int(config.goal) }
        if config.hasStartTiles { rules.startTiles = Int(config.startTiles) }
        if config.hasFourProbability { rules.fourProbability = config.fourProbability }
        rules.goalEnds = config.stopAtGoal
        rules.illegalEnds = config.illegalAction == .terminate
        if create.hasMaxEpisodeSteps { rules.maxSteps = Int(create.maxEpisodeSteps) }
        self.rules = rules
        autoreset = create.autoresetMode == .unspecified ? .nextStep : create.autoresetMode
        hasOwnReward = !create.hasReward
        self.created = created
        boards = Array(repeating: nil, count: Int(create.numEnvs))
    }

    /// Whether all boards are known.
    var isKnown: Bool { !boards.contains { $0 == nil } }

    /// Follows a request that was carried out. Returns the first difference from its reply; nil without one.
    mutating func follow(
        _ op: Request.OneOf_Op, _ payload: [UInt8], _ result: Reply.OneOf_Result, _ reply: [UInt8]
    ) -> String? {
        switch (op, result) {
        case (.reset(let request), _):
            reset(request, payload)
            return difference(boards.map { $0?.row }, created.reset, reply)
        case (.step, .step(let step)):
            var finals: [PlainRow?] = []
            let rows = boards.indices.map { self.step($0, Int(payload[$0]), finals: &finals) }
            return difference(rows, created.step, reply)
                ?? (step.hasFinals && isKnown ? difference(finals, step.finals, reply) : nil)
        case (.observe, _): return difference(boards.map { $0?.row }, created.reset, reply)
        case (.rollout(let request), .rollout(let done)):
            guard case .actions = request.source else { break }
            for step in 0..<Int(done.steps) {
                for lane in boards.indices where !(autoreset == .disabled && boards[lane]?.isOver == true) {
                    var finals: [PlainRow?] = []
                    _ = self.step(lane, Int(payload[step * boards.count + lane]), finals: &finals)
                }
            }
            return nil
        case (.restore, _): break
        default: return nil
        }
        boards = Array(repeating: nil, count: boards.count)
        return nil
    }

    private mutating func reset(_ request: ResetRequest, _ payload: [UInt8]) {
        let count = boards.count
        let seeds = request.seeds ? Array(payload.prefix(8 * count)) : []
        let mask = request.mask ? Array(payload[seeds.count..<seeds.count + count]) : []
        let given = Array(payload.dropFirst(seeds.count + mask.count))
        let size = rules.rows * rules.columns
        for lane in 0..<count {
            let kind = request.mask ? mask[lane] : 1
            guard kind > 0 else { continue }
            if request.seeds, kind == 1 {
                let seed = seeds[8 * lane..<8 * lane + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
                boards[lane] = PlainBoard(rules, seed: seed)
            }
            boards[lane]?.begin(
                from: request.boards ? Array(given[lane * size..<(lane + 1) * size]) : nil)
        }
    }

    /// Plays an action on a board, or begins its next episode. Adds the last row of an episode that ends to `finals`.
    private mutating func step(_ lane: Int, _ action: Int, finals: inout [PlainRow?]) -> PlainRow? {
        guard let isOver = boards[lane]?.isOver else { return nil }
        if isOver {
            boards[lane]!.begin()
            return boards[lane]!.row
        }
        let last = boards[lane]!.play(action)
        guard boards[lane]!.isOver, autoreset == .sameStep else { return last }
        finals.append(last)
        boards[lane]!.begin()
        var row = boards[lane]!.row
        (row.reward, row.isTerminated, row.isTruncated) = (last.reward, last.isTerminated, last.isTruncated)
        return row
    }

    private func difference(
        _ rows: [PlainRow?], _ layout: PayloadLayoutMessage, _ reply: [UInt8]
    ) -> String? {
        for array in layout.arrays where array.name != "reward" || hasOwnReward {
            for (number, row) in rows.enumerated() {
                guard let expected = row?.bytes(of: array.name) else { continue }
                let start = Int(array.offset) + number * expected.count
                let found = Array(reply[start..<start + expected.count])
                if found != expected {
                    return "\(array.name)[\(number)] is \(found), and should be \(expected)"
                }
            }
        }
        return nil
    }
}

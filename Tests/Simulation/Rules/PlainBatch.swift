internal import TwofoldProtocol

/// A session under the plain rules. It checks a server's replies.
protocol PlainSession {
    /// Whether all boards are known. After a rollout with a policy that these rules do not implement, the boards are
    /// unknown until they are reset.
    var isKnown: Bool { get }

    /// Applies a request that the server has executed. Returns the first difference from the reply; nil if there is
    /// none.
    mutating func follow(
        _ op: Request.OneOf_Op, _ payload: [UInt8], _ result: Reply.OneOf_Result, _ reply: [UInt8],
        _ snapshots: PlainSnapshots
    ) -> String?

    /// Returns true if a request restores a snapshot from a session with other rules.
    func hasOtherRules(_ op: Request.OneOf_Op, _ payload: [UInt8], _ snapshots: PlainSnapshots) -> Bool
}

/// The boards of the newest snapshots, keyed by the snapshots' bytes.
final class PlainSnapshots {
    private static let most = 400
    private var newest: [[UInt8]] = []
    private var saved: [[UInt8]: (identity: [String], lanes: Any)] = [:]

    func add(_ blob: [UInt8], _ identity: [String], _ lanes: Any) {
        if saved.updateValue((identity, lanes), forKey: blob) == nil { newest.append(blob) }
        if newest.count > Self.most { saved[newest.removeFirst()] = nil }
    }

    func identity(_ blob: [UInt8]) -> [String]? { saved[blob]?.identity }
    func lanes(_ blob: [UInt8]) -> Any? { saved[blob]?.lanes }
}

/// Returns a session under the plain rules of its game; nil for an unknown game.
func plainSession(_ create: CreateRequest, _ created: CreateReply) -> (any PlainSession)? {
    switch create.environmentID {
    case "twofold/Game2048-v0": PlainBatch<PlainBoard>(create, created)
    case "twofold/Concentration-v0": PlainBatch<PlainCards>(create, created)
    default: nil
    }
}

/// The known boards of a session, and its network.
struct PlainBatch<Game: PlainGame>: PlainSession {
    private let rules: Game.Rules
    /// The reward; nil if one of its terms is unknown.
    private let reward: PlainReward<Game>?
    private let autoreset: Twofold_V1_AutoresetMode
    /// The step limit; nil if there is none.
    private let maxSteps: Int?
    private let created: CreateReply
    private var lanes: [PlainLane<Game>?]
    private var network: PlainNetwork?

    private typealias Row = PlainRow<Game>

    init(_ create: CreateRequest, _ created: CreateReply) {
        rules = Game.Rules(create)
        reward = PlainReward(create)
        autoreset = create.autoresetMode == .unspecified ? .nextStep : create.autoresetMode
        maxSteps = create.hasMaxEpisodeSteps ? Int(create.maxEpisodeSteps) : nil
        self.created = created
        lanes = Array(repeating: nil, count: Int(create.numEnvs))
    }

    var isKnown: Bool { !lanes.contains { $0 == nil } }

    mutating func follow(
        _ op: Request.OneOf_Op, _ payload: [UInt8], _ result: Reply.OneOf_Result, _ reply: [UInt8],
        _ snapshots: PlainSnapshots
    ) -> String? {
        switch (op, result) {
        case (.reset(let request), _): reset(request, payload)
        case (.restore(let request), _):
            if hasOtherRules(op, payload, snapshots) { return "the snapshot was taken with other rules" }
            restore(request, payload, snapshots)
        case (.observe, _): break
        case (.step, .step(let step)): return self.step(payload, step, reply)
        case (.rollout(let request), .rollout(let done)): return rollout(request, payload, done, reply)
        case (.policy(let request), _):
            take(request, payload)
            return nil
        case (.snapshot, _):
            let numbers = payload.isEmpty ? Array(lanes.indices) : Self.numbers(payload)
            snapshots.add(reply, rules.identity, numbers.map { lanes[$0] })
            return nil
        default: return nil
        }
        return difference(lanes.indices.map(row), created.reset, reply)
    }

    /// Returns a lane's current row.
    private func row(_ number: Int) -> Row? {
        lanes[number].map { lane in
            let terms = [Float](repeating: 0, count: reward?.terms.count ?? 0)
            return Row(number: number, lane: lane, reward: reward == nil ? nil : 0, terms: terms)
        }
    }

    private static func numbers(_ bytes: some Collection<UInt8>) -> [Int] {
        let bytes = Array(bytes)
        return stride(from: 0, to: bytes.count, by: 8).map { start in
            Int(truncatingIfNeeded: bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) })
        }
    }

    // MARK: resets and restores

    private mutating func reset(_ request: ResetRequest, _ payload: [UInt8]) {
        let count = lanes.count
        let seeds = request.seeds ? Self.numbers(payload.prefix(8 * count)) : []
        let behind = payload.dropFirst(8 * seeds.count)
        let mask = request.mask ? Array(behind.prefix(count)) : Array(repeating: 1, count: count)
        let boards = Array(request.mask ? behind.dropFirst(count) : behind)
        let size = boards.count / count
        for lane in lanes.indices where mask[lane] > 0 {
            if request.seeds, mask[lane] == 1 {
                lanes[lane] = PlainLane(rules, seed: UInt64(bitPattern: Int64(seeds[lane])))
            }
            lanes[lane]?.begin(
                from: request.boards ? Array(boards[lane * size..<(lane + 1) * size]) : nil)
        }
    }

    private mutating func restore(
        _ request: RestoreRequest, _ payload: [UInt8], _ snapshots: PlainSnapshots
    ) {
        let (numbers, rows, seeds, blob) = Self.parts(request, payload)
        let saved = snapshots.lanes(blob) as? [PlainLane<Game>?]
        for (index, number) in numbers.enumerated() {
            var lane = saved?[rows[index]]
            // The snapshot may come from a session with other arguments.
            lane?.game.rules = rules
            if !seeds.isEmpty {
                let seed = UInt64(bitPattern: Int64(seeds[index]))
                lane?.stream = PlainStream(seed: seed)
                lane?.policy = .policy(seed: seed)
            }
            lanes[number] = lane
        }
    }

    func hasOtherRules(_ op: Request.OneOf_Op, _ payload: [UInt8], _ snapshots: PlainSnapshots) -> Bool {
        guard case .restore(let request) = op else { return false }
        let arrays = [request.lanes, request.rows, request.seeds].count { $0 }
        guard let identity = snapshots.identity(Array(payload.dropFirst(8 * arrays * Int(request.count))))
        else { return false }
        return identity != rules.identity
    }

    /// Returns the parts of a restore request's payload: the arrays and the snapshot.
    private static func parts(
        _ request: RestoreRequest, _ payload: [UInt8]
    ) -> (lanes: [Int], rows: [Int], seeds: [Int], blob: [UInt8]) {
        var rest = payload[...]
        func next(_ isThere: Bool) -> [Int]? {
            guard isThere else { return nil }
            defer { rest = rest.dropFirst(8 * Int(request.count)) }
            return numbers(rest.prefix(8 * Int(request.count)))
        }
        let all = Array(0..<Int(request.count))
        let (lanes, rows, seeds) = (next(request.lanes), next(request.rows), next(request.seeds))
        return (lanes ?? all, rows ?? all, seeds ?? [], Array(rest))
    }

    // MARK: steps

    private mutating func step(_ actions: [UInt8], _ step: StepReply, _ reply: [UInt8]) -> String? {
        let wasKnown = isKnown
        var finals: [Row?] = []
        let rows = lanes.indices.map { play($0, Int(actions[$0]), finals: &finals) }
        if let wrong = difference(rows, created.step, reply) { return wrong }
        return wasKnown ? difference(finals, step.finals, reply) : nil
    }

    /// Plays an action on a board, or starts its next episode. With same-step autoreset, appends the last row of an
    /// ended episode to `finals`.
    private mutating func play(_ number: Int, _ action: Int, finals: inout [Row?]) -> Row? {
        guard let isOver = lanes[number]?.isOver else { return nil }
        if isOver {
            if autoreset != .disabled { lanes[number]!.begin() }
            return row(number)
        }
        var lane = lanes[number]!
        let move = lane.game.play(action, &lane.stream)
        lane.length += 1
        lane.isTerminated = lane.game.isTerminated(by: move)
        let isTruncated = lane.length >= maxSteps ?? .max
        lane.isOver = lane.isTerminated || isTruncated
        lanes[number] = lane
        var last = row(number)!
        (last.isTerminated, last.isTruncated, last.isValid) = (lane.isTerminated, isTruncated, true)
        if let reward {
            let (sum, terms) = reward(move, isTerminated: lane.isTerminated, rules)
            (last.reward, last.terms) = (sum, terms)
        }
        guard lane.isOver, autoreset == .sameStep else { return last }
        finals.append(last)
        lanes[number]!.begin()
        last.lane = lanes[number]!
        return last
    }

    // MARK: rollouts

    private mutating func take(_ request: PolicyRequest, _ payload: [UInt8]) {
        switch request.part {
        case .network(let form):
            let shape = created.observationSpace.box.shape.map { Int($0) }
            network = PlainNetwork(form, rows: shape[0], columns: shape[1])
        case .weights: network?.add(payload)
        case nil: break
        }
    }

    private mutating func rollout(
        _ request: RolloutRequest, _ payload: [UInt8], _ done: RolloutReply, _ reply: [UInt8]
    ) -> String? {
        var policy: PlainPolicy?
        switch request.source {
        case .actions: break
        case .random: policy = .random
        case .fixedOrder: policy = .fixedOrder
        case .greedy: policy = .greedy
        case .ntuple:
            guard let network, network.isComplete else { return "the session has no network" }
            policy = .ntuple(network)
        default:
            lanes = Array(repeating: nil, count: lanes.count)
            return nil
        }
        let wasKnown = isKnown
        var (frames, rows, finals) = (lanes.indices.map(row), [Row?](), [Row?]())
        for step in 0..<Int(done.steps) {
            let ended = finals.count
            for lane in lanes.indices {
                var action = 0
                if let policy {
                    // Each step draws one word, even if the policy does not use it.
                    if let word = lanes[lane]?.policy.next() { action = policy.action(lanes[lane]!, word) }
                } else {
                    action = Int(payload[step * lanes.count + lane])
                }
                var row = play(lane, action, finals: &finals)
                row?.action = action
                rows.append(row)
            }
            for final in ended..<finals.count { finals[final]!.step = step }
            frames += rows.suffix(lanes.count)
        }
        for array in done.arrays.arrays {
            let isFrame = array.name == "observation" || array.name == "action_mask"
            if let wrong = difference(isFrame ? frames : rows, array, reply) { return wrong }
        }
        return wasKnown ? difference(finals, done.finals, reply) : nil
    }

    // MARK: comparing

    private func difference(
        _ rows: [Row?], _ layout: PayloadLayoutMessage, _ reply: [UInt8]
    ) -> String? {
        for array in layout.arrays {
            if let wrong = difference(rows, array, reply) { return wrong }
        }
        return nil
    }

    private func difference(
        _ rows: [Row?], _ array: Twofold_V1_ArrayLayout, _ reply: [UInt8]
    ) -> String? {
        for (number, row) in rows.enumerated() {
            guard let expected = row?.bytes(of: array.name) else { continue }
            let start = Int(array.offset) + number * expected.count
            guard start + expected.count <= reply.count else { return "\(array.name) is too short" }
            let found = reply[start..<start + expected.count]
            if !found.elementsEqual(expected) {
                return "\(array.name)[\(number)] is \(Array(found)); expected \(expected)"
            }
        }
        return nil
    }
}

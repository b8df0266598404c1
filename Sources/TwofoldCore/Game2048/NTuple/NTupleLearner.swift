internal import Platform
internal import Synchronization

/// A learner that plays 2048 and improves an n-tuple network: undiscounted TD(0) on afterstates (Szubert and Jaśkowski
/// 2014) with temporal coherence (Beal and Smith 1999; Jaśkowski 2017). The reward is the raw score.
///
/// On each board, the learner plays the action with the highest reward + V(afterstate), as ``NTuplePolicy`` does. Before
/// the move, it corrects V of the board's previous afterstate:
///
///     previous afterstate ──spawn──► board ──┬─► reward + V(afterstate)     error = highest sum - V(previous),
///                                            ├─► reward + V(afterstate)     0 - V(previous) after a game has ended
///                                            └─► …
///
/// V(previous) is a sum of m weights. Each of them changes by rate / m · error · |E| / A. E is the sum of the errors with
/// which the weight was corrected so far, A is the sum of their magnitudes, and |E| / A is 1 for the first correction.
///
/// Each worker plays all steps on its own boards, in blocks of 64. With one worker, the weights are a pure function of
/// the arguments. Several workers share the weights.
///
/// This type and ``Weights`` hold unsafe memory. `@unchecked Sendable` because workers have disjoint lanes, and because
/// the weights may be shared without locks (Hogwild: Niu, Recht, Ré and Wright 2011): a correction that another worker
/// overwrites is lost, which only delays learning.
package final class NTupleLearner: @unchecked Sendable {
    /// The weights of a network and the history of their errors, in the caller's memory.
    package struct Weights: @unchecked Sendable {
        /// The number of elements for each weight.
        static let stride = 3

        /// For each weight, in the order of ``NTupleNetwork``: the weight, the sum of its errors, and the sum of their
        /// magnitudes. They are neighbours because a correction of a weight needs all three.
        let elements: UnsafeMutablePointer<Float>

        package init(_ elements: UnsafeMutablePointer<Float>) { self.elements = elements }

        /// Returns the weight and its sums.
        subscript(place: UInt32) -> UnsafeMutablePointer<Float> { elements + Self.stride &* Int(place) }
    }

    /// The counts of the moves and games in one call.
    package struct Counts: Sendable {
        package var moves = 0
        /// The number of games that have ended.
        package var episodes = 0
        /// The sum of the final scores of these games.
        package var score = 0
        /// The number of these games that reached the goal.
        package var goals = 0

        static func += (counts: inout Counts, more: Counts) {
            counts.moves += more.moves
            counts.episodes += more.episodes
            counts.score += more.score
            counts.goals += more.goals
        }
    }

    private let batch: Batch
    private let features: NTupleFeatures
    private let rate: Float
    private let infos: Game2048.Infos
    private let steps: ArrayMemory
    private let afterstates: AfterstateMemory
    /// The afterstate of each board's last move: `cells` exponents, all of them 0 at the start of a game.
    private let previous: UnsafeMutablePointer<UInt8>
    private let actions: UnsafeMutablePointer<UInt8>
    private let memory: OwnedMemory
    /// One chunk of boards for each thread.
    private let workers: Workers

    /// Makes a learner that plays on the boards of `batch`. Throws if an argument is invalid, or if there is too little
    /// memory.
    package init(
        _ batch: Batch, _ form: NTupleNetwork.Form, rate: Float, maxBytes: Int
    ) throws(EnvironmentError) {
        guard batch.autoreset == .nextStep else {
            throw .invalid("autoreset_mode", "a learner plays with NEXT_STEP autoreset; omit autoreset_mode")
        }
        guard let game = batch.game as? Game2048 else {
            throw .invalid("environment_id", "only 2048 has afterstates, whose values a learner learns")
        }
        guard batch.options.maxEpisodeSteps == nil else {
            throw .invalid(
                "max_episode_steps", "a learner plays every game to its end; omit max_episode_steps")
        }
        guard rate > 0, rate <= 1 else {
            throw .invalid("learning_rate", "learning_rate is \(rate); it must be above 0 and at most 1")
        }
        features = try NTupleFeatures(
            form, rows: game.config.rows, columns: game.config.columns, maxBytes: maxBytes)
        self.batch = batch
        self.rate = rate
        let threads = batch.options.workers.threads
        workers = Workers(threads: threads, chunk: (batch.lanes + threads - 1) / threads)
        var (arrays, infos) = (ArrayList(), Game2048.Infos?.none)
        _ = BatchKeys(game, in: &arrays, infos: &infos)
        self.infos = infos!
        let reserve = batch.options.reserve
        steps = try ArrayMemory(batch.stepArrays, lanes: batch.lanes, for: "num_envs", reserve: reserve)
        afterstates = try AfterstateMemory(batch, policy: "ntuple", for: "num_envs", reserve: reserve)
        memory = try OwnedMemory(
            byteCount: batch.lanes * (features.cells + 1), for: "num_envs", reserve: reserve)
        previous = memory.initialized(repeating: UInt8(0)).baseAddress!
        actions = previous + batch.lanes * features.cells
    }

    package var lanes: Int { batch.lanes }
    package var weightCount: Int { features.bytes / 4 }
    /// The size of the learner's state in bytes: for each board, its record and the afterstate of its last move.
    package var stateSize: Int { batch.lanes * (batch.recordSize + features.cells) }

    /// Starts a game on each board. `seeds` holds one little-endian number of 64 bits per board.
    package func start(seeds: UnsafeRawBufferPointer) throws(EnvironmentError) {
        try batch.reset(ResetInput(seeds: seeds), into: steps.arrays)
        previous.update(repeating: 0, count: batch.lanes * features.cells)
    }

    /// Continues from a state that ``save(into:)`` has written.
    package func restore(_ state: UnsafeRawBufferPointer) throws(EnvironmentError) {
        let lanes = Array(0..<batch.lanes)
        let input = RestoreInput(lanes: lanes, rows: lanes, seeds: nil, records: state)
        try batch.restore(input, into: steps.arrays)
        let rest = state[(batch.lanes * batch.recordSize)...]
        UnsafeMutableRawPointer(previous).copyMemory(
            from: UnsafeRawBufferPointer(rebasing: rest).baseAddress!, byteCount: batch.lanes * features.cells
        )
    }

    /// Writes the boards to `state`, which has ``stateSize`` bytes.
    package func save(into state: UnsafeMutableRawBufferPointer) throws(EnvironmentError) {
        let records = batch.lanes * batch.recordSize
        try batch.snapshot(
            Array(0..<batch.lanes), into: UnsafeMutableRawBufferPointer(rebasing: state[..<records]))
        (state.baseAddress! + records).copyMemory(
            from: previous, byteCount: batch.lanes * features.cells)
    }

    /// Plays `steps` steps on each board and learns from them. A step on a board whose game has ended starts the next
    /// game instead.
    package func run(steps: Int, _ weights: Weights) throws(EnvironmentError) -> Counts {
        try batch.checkSeeded()
        let total = Mutex(Counts())
        workers.run(lanes: batch.lanes, nanosecondsPerLane: batch.nanosecondsPerLane) { lanes, worker in
            var counts = Counts()
            NTupleBlock.with(features) { block in
                withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64 * features.count) { places in
                    for _ in 0..<steps {
                        for first in stride(from: lanes.lowerBound, to: lanes.upperBound, by: 64) {
                            let lanes = first..<min(first + 64, lanes.upperBound)
                            step(lanes, weights, block, places.baseAddress!, worker, &counts)
                        }
                    }
                }
            }
            total.withLock { $0 += counts }
        }
        return total.withLock { $0 }
    }

    /// Plays one step on each of at most 64 boards.
    private func step(
        _ lanes: Range<Int>, _ weights: Weights, _ block: NTupleBlock, _ places: UnsafeMutablePointer<UInt32>,
        _ worker: Int, _ counts: inout Counts
    ) {
        let (first, cells) = (lanes.lowerBound, features.cells)
        // The places of the weights to correct: one row of 64 lanes for each feature.
        for lane in lanes { block.store(previous + lane &* cells, at: lane &- first) }
        for feature in 0..<features.count {
            let row = places + 64 &* feature
            block.findPlaces(feature, count: lanes.count, into: row)
        }

        afterstates.fill(lanes, from: batch, worker: worker)
        let stride = Weights.stride
        block.forEachBest(lanes, of: afterstates, with: weights.elements, stride: stride) { lane, best in
            let last = previous + lane &* cells
            if (0..<cells).contains(where: { last[$0] != 0 }) {
                // After the end of a game, no reward can follow.
                correct(places + (lane &- first), towards: best?.value ?? 0, weights)
            }
            if let best {
                last.update(from: afterstates.board(lane, best.action, cells: cells), count: cells)
                counts.moves &+= 1
            } else {
                last.update(repeating: 0, count: cells)
            }
            actions[lane] = UInt8(best?.action ?? 0)
        }

        let (arrays, keys) = (steps.arrays, batch.keys)
        let chosen = LaneInput<UInt8>(UnsafeRawBufferPointer(start: actions, count: batch.lanes))
        batch.engine.step(lanes, actions: chosen, into: arrays, worker: worker)
        batch.phases.advance(lanes, in: arrays, keys)
        arrays.forEachEnded(keys, among: lanes) { lane in
            counts.episodes &+= 1
            counts.score &+= Int(arrays.address(infos.score, lane: lane).loadUnaligned(as: Int32.self))
            let reached = arrays.address(infos.goalReached, lane: lane).load(as: UInt8.self)
            counts.goals &+= Int(reached)
        }
    }

    /// Corrects the value of an afterstate. `places` points to its lane in the rows of places.
    @inline(__always)
    private func correct(_ places: UnsafePointer<UInt32>, towards target: Float, _ weights: Weights) {
        var value: Float = 0
        for tuple in 0..<features.tuples {
            var sum: Float = 0
            for feature in features.range(of: tuple) { sum += weights[places[64 &* feature]][0] }
            value += sum
        }
        let error = target - value
        let change = rate / Float(features.count) * error
        for feature in 0..<features.count {
            let weight = weights[places[64 &* feature]]
            let (sum, size) = (weight[1], weight[2])
            // The ratio is limited to 1: |E| > A if another worker has overwritten only one of the two.
            weight[0] += size > 0 ? change * min(1, abs(sum) / size) : change
            weight[1] = sum + error
            weight[2] = size + abs(error)
        }
    }
}

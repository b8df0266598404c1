/// What chooses an action for each lane of a batch; a rollout asks it before each step.
///
/// Used by one caller at a time; may spread over threads inside.
public protocol Policy: AnyObject {
    /// Writes an action for each lane; 0 where none is legal. Throws when it is not done at its `end`, and
    /// then nothing has come of it.
    func choose(_ view: PolicyView, until end: SearchEnd?) throws(EnvironmentError)
}

/// What a policy sees of a batch before a step, and where its actions go.
///
/// `@unchecked Sendable` because the rows are only read, each lane's action is written by one worker, and
/// all of it outlives the call.
public struct PolicyView: @unchecked Sendable {
    /// The batch.
    let environment: any VectorEnvironment
    /// Observation after observation.
    let observations: UnsafeRawPointer
    /// 0 or 1 for each lane and action.
    let masks: UnsafeRawPointer
    /// One word of each lane's stream.
    let words: UnsafePointer<UInt32>
    /// One byte for each lane.
    let actions: UnsafeMutableRawPointer

    var lanes: Int { environment.lanes }

    /// Whether an action is legal.
    @inline(__always)
    func isLegal(_ lane: Int, _ action: Int, of count: Int) -> Bool {
        masks.load(fromByteOffset: lane * count + action, as: UInt8.self) != 0
    }

    @inline(__always)
    func choose(_ action: Int, lane: Int) {
        actions.storeBytes(of: UInt8(truncatingIfNeeded: action), toByteOffset: lane, as: UInt8.self)
    }
}

/// The k-th of `count` things that are all alike, k = (word x count) >> 32.
@inline(__always)
func pick(_ word: UInt32, of count: Int) -> Int { Int((UInt64(word) &* UInt64(count)) >> 32) }

/// A legal action, all alike: the k-th, k = (word x legal actions) >> 32.
public final class RandomPolicy: Policy {
    private let scratch = UnsafeMutableRawPointer.allocate(byteCount: 2048, alignment: 64)

    /// There is nothing to say about it.
    public init() {}

    deinit { scratch.deallocate() }

    public func choose(
        _ view: PolicyView, until end: SearchEnd?
    ) throws(EnvironmentError) {
        let actions = view.environment.actions.count
        // The kernel has four actions, and whole blocks.
        let whole = actions == 4 ? view.lanes / 64 * 64 : 0
        for first in stride(from: 0, to: whole, by: 64) {
            KernelOperations.avx2.chooseUniformly(
                view.words + first, view.masks + first * 4, view.actions + first, scratch)
        }
        for lane in whole..<view.lanes {
            var count = 0
            for action in 0..<actions where view.isLegal(lane, action, of: actions) { count += 1 }
            var skip = pick(view.words[lane], of: count)
            var chosen = 0
            for action in 0..<actions where view.isLegal(lane, action, of: actions) {
                if skip == 0 { chosen = action }
                skip -= 1
            }
            view.choose(chosen, lane: lane)
        }
    }
}

/// The highest reward of the next move; the k-th of equal ones, k = (word x equal ones) >> 32.
public final class GreedyPolicy: Policy {
    private let afterstates: AfterstateRoom

    /// Throws where the game has no afterstates.
    public init(_ environment: any VectorEnvironment) throws(EnvironmentError) {
        afterstates = try AfterstateRoom(environment, policy: "greedy")
    }

    public func choose(
        _ view: PolicyView, until end: SearchEnd?
    ) throws(EnvironmentError) {
        try afterstates.ask(view.environment)
        let actions = view.environment.actions.count
        for lane in 0..<view.lanes {
            var best = -Float.infinity
            var ties = 0
            for action in 0..<actions where view.isLegal(lane, action, of: actions) {
                let reward = afterstates.reward(lane, action)
                if reward > best { ties = 0 }
                if reward >= best { ties += 1 }
                best = max(best, reward)
            }
            var skip = pick(view.words[lane], of: ties)
            var chosen = 0
            for action in 0..<actions
            where view.isLegal(lane, action, of: actions) && afterstates.reward(lane, action) == best {
                if skip == 0 { chosen = action }
                skip -= 1
            }
            view.choose(chosen, lane: lane)
        }
    }
}

/// The afterstates of a batch, in memory of their own.
///
/// They are filled before workers read them.
public final class AfterstateRoom: Sendable {
    private let own: OwnArrays
    private let boards: Int
    private let rewards: Int

    /// Memory that a batch takes.
    public static func bytes(_ environment: any VectorEnvironment) -> Int {
        OwnArrays.bytes(environment.afterstateArrays, lanes: environment.lanes)
    }

    init(_ environment: any VectorEnvironment, policy: String) throws(EnvironmentError) {
        let specs = environment.afterstateArrays
        guard let boards = specs.firstIndex(where: { $0.name == "boards" }),
            let rewards = specs.firstIndex(where: { $0.name == "rewards" })
        else {
            throw .invalid("policy", "the policy '\(policy)' needs a game that has afterstates")
        }
        self.boards = boards
        self.rewards = rewards
        own = OwnArrays(specs, lanes: environment.lanes)
    }

    private var arrays: BatchArrays { own.arrays }

    func ask(_ environment: any VectorEnvironment) throws(EnvironmentError) {
        try environment.afterstates(into: arrays)
    }

    @inline(__always)
    func reward(_ lane: Int, _ action: Int) -> Float {
        arrays.address(array: rewards, lane: lane).load(fromByteOffset: action * 4, as: Float.self)
    }

    /// The exponents of one afterstate of `cells` cells.
    @inline(__always)
    func board(_ lane: Int, _ action: Int, cells: Int) -> UnsafePointer<UInt8> {
        let board = arrays.address(array: boards, lane: lane) + action * cells
        return UnsafePointer(board.assumingMemoryBound(to: UInt8.self))
    }
}

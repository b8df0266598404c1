// 2048 by docs/reference/determinism.md and docs/environments, once more and for readers: it shares no code with the
// sources, and is not fast.

/// The stream of one board: xoshiro128++, begun by SplitMix64.
struct PlainStream {
    private var words: [UInt32] = []

    init(seed: UInt64) {
        var state = seed
        for _ in 0..<2 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = (state ^ state >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
            words += [UInt32(mixed & 0xffff_ffff), UInt32(mixed >> 32)]
        }
    }

    mutating func next() -> UInt32 {
        func rotate(_ word: UInt32, by count: UInt32) -> UInt32 { word << count | word >> (32 - count) }
        let (a, b, c, d) = (words[0], words[1], words[2], words[3])
        words = [a ^ b ^ d, a ^ b ^ c, a ^ c ^ b << 9, rotate(b ^ d, by: 11)]
        return rotate(a &+ d, by: 7) &+ a
    }
}

/// The arguments of a game.
struct PlainRules {
    var rows = 4
    var columns = 4
    var startTiles = 2
    var fourProbability = 0.1
    var goal = 2048
    var goalEnds = false
    var illegalEnds = false
    /// Nil for no limit.
    var maxSteps: Int?
}

/// One board's row in each array of a reply.
struct PlainRow {
    var cells: [UInt8]
    var mask: [UInt8]
    var score: Int
    var length: Int
    var moves: Int
    var isGoalReached: Bool
    var reward = 0
    var isTerminated = false
    var isTruncated = false

    /// The row of the array with this name; nil where it is not known.
    func bytes(of array: String) -> [UInt8]? {
        switch array {
        case "observation": cells
        case "action_mask": mask
        case "score": Self.littleEndian(Int32(score))
        case "max_exponent": [cells.max()!]
        case "episode_length": Self.littleEndian(Int32(length))
        case "moves": Self.littleEndian(Int32(moves))
        case "goal_reached": [isGoalReached ? 1 : 0]
        case "reward": Self.littleEndian(Int32(bitPattern: Float(reward).bitPattern))
        case "terminated": [isTerminated ? 1 : 0]
        case "truncated": [isTruncated ? 1 : 0]
        default: nil
        }
    }

    private static func littleEndian(_ number: Int32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }
}

/// One board, with its stream.
struct PlainBoard {
    private let rules: PlainRules
    private var stream: PlainStream
    private var cells: [UInt8] = []
    private var score = 0
    private var length = 0
    private var moves = 0
    private var isTerminated = false
    /// The episode has ended, and the next one has not begun.
    private(set) var isOver = false

    init(_ rules: PlainRules, seed: UInt64) {
        self.rules = rules
        stream = PlainStream(seed: seed)
    }

    /// A new episode, from the start tiles or from given `cells`. The stream goes on.
    mutating func begin(from given: [UInt8]? = nil) {
        (score, length, moves, isTerminated, isOver) = (0, 0, 0, false, false)
        cells = given ?? [UInt8](repeating: 0, count: rules.rows * rules.columns)
        if given == nil { for _ in 0..<rules.startTiles { spawn() } }
    }

    /// Plays an action, and returns what the step reports.
    mutating func play(_ action: Int) -> PlainRow {
        var slid = slide(action)
        let isLegal = slid.cells != cells
        if isLegal {
            cells = slid.cells
            score += slid.reward
            moves += 1
            spawn()
        } else {
            slid.reward = 0
        }
        length += 1
        isTerminated =
            legalActions.isEmpty || (!isLegal && rules.illegalEnds) || (rules.goalEnds && isGoalReached)
        let isTruncated = length == rules.maxSteps
        isOver = isTerminated || isTruncated
        var row = row
        (row.reward, row.isTerminated, row.isTruncated) = (slid.reward, isTerminated, isTruncated)
        return row
    }

    /// The board as it is.
    var row: PlainRow {
        let legal = isTerminated ? [] : legalActions
        return PlainRow(
            cells: cells, mask: (0..<4).map { legal.contains($0) ? 1 : 0 }, score: score, length: length,
            moves: moves, isGoalReached: isGoalReached)
    }

    private var legalActions: [Int] { (0..<4).filter { slide($0).cells != cells } }

    private var isGoalReached: Bool { 1 << Int(cells.max()!) >= rules.goal }

    private mutating func spawn() {
        let empty = cells.indices.filter { cells[$0] == 0 }
        let cell = empty[Int((UInt64(stream.next()) * UInt64(empty.count)) >> 32)]
        let threshold = UInt64(rules.fourProbability * 0x1p32 + 0.5)
        cells[cell] = UInt64(stream.next()) < threshold ? 2 : 1
    }

    /// The board after an action, before the new tile: 0 up, 1 right, 2 down, 3 left.
    private func slide(_ action: Int) -> (cells: [UInt8], reward: Int) {
        let (rows, columns) = (rules.rows, rules.columns)
        let isAcross = action % 2 == 1
        var (after, reward) = (cells, 0)
        for line in 0..<(isAcross ? rows : columns) {
            // From the wall that the tiles slide to.
            var places =
                isAcross
                ? (0..<columns).map { line * columns + $0 } : (0..<rows).map { $0 * columns + line }
            if action == 1 || action == 2 { places.reverse() }
            var tiles = places.map { cells[$0] }.filter { $0 > 0 }
            var slid: [UInt8] = []
            while !tiles.isEmpty {
                var tile = tiles.removeFirst()
                if tiles.first == tile {
                    tiles.removeFirst()
                    tile += 1
                    reward += 1 << Int(tile)
                }
                slid.append(tile)
            }
            for (place, tile) in zip(places, slid + [UInt8](repeating: 0, count: places.count)) {
                after[place] = tile
            }
        }
        return (after, reward)
    }
}

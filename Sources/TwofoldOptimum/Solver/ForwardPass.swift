internal import Platform
internal import Synchronization
internal import TwofoldCore

/// The reachable boards, up to symmetry: from the start boards by layers of the tile sum, which a move keeps and a new
/// tile raises by 2 or 4.
///
///     layer s: every board ──move──► afterstates ──new tile──► boards of layers s + 2 and s + 4
///
/// A bit for each possible board says whether it was found before. When a layer is done, its boards on which play goes
/// on are written to the log, and the bits of the others are cleared.
final class ForwardPass {
    private let rules: OptimumRules
    private let workers: Workers
    private let log: LayerLog
    /// The boards on which play goes on.
    let playable: BitSet
    /// Boards that were found, terminal ones too.
    private(set) var states = 0
    /// Boards without a legal action.
    private(set) var terminal = 0
    private var waiting: [Int: [UInt64]] = [:]

    /// About how long a board takes.
    private static let nanosecondsPerBoard = 500

    init(_ rules: OptimumRules, _ workers: Workers, _ log: LayerLog) {
        self.rules = rules
        self.workers = workers
        self.log = log
        playable = BitSet(numbers: rules.numbers.count)
    }

    /// Finds all boards, or those that the log does not have yet; `report` is called after each layer.
    func run(_ report: (_ tileSum: Int, _ states: Int) -> Void) throws(SystemError) {
        try goOn()
        while let sum = waiting.keys.min() {
            var layer = expand(waiting.removeValue(forKey: sum)!, sum, beyond: sum)
            // In one order, whatever the threads and the stops: sums in that order are the same bits.
            layer.playable.sort()
            try log.append(tileSum: sum, ended: layer.ended, rows: try LayerRows(layer.playable))
            states += layer.playable.count + layer.ended
            terminal += layer.ended
            report(sum, states)
        }
        if log.layers.last?.tileSum != 0 {
            try log.append(tileSum: 0, rows: try LayerRows([]))
        }
        playable.seal()
    }

    /// Takes the layers of the log as found, and expands the last two again for what follows them. A layer of other
    /// boards than the problem has there is cut off, and all behind it.
    private func goOn() throws(SystemError) {
        for (index, layer) in log.layers.enumerated() {
            let rows = try log.rows(of: layer)
            let before = index == 0 ? 0 : log.layers[index - 1].tileSum
            let isEnd = layer.tileSum == 0 && layer.rows == 0 && index == log.layers.count - 1
            guard isEnd || layer.tileSum > before && areBoards(rows, layer.tileSum) else {
                try log.cut(to: index)
                break
            }
            let (numbers, playable) = (rules.numbers, playable)
            workers.run(lanes: layer.rows, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
                for index in range { _ = playable.insert(numbers.number(rows.board(index))) }
            }
            states += layer.rows + layer.ended
            terminal += layer.ended
        }
        let last = log.layers.map(\.tileSum).max() ?? 0
        // A layer of tile sum 0 says that there are no more.
        guard log.layers.last?.tileSum != 0 || last == 0 else { return }
        for (board, _) in rules.starts() where rules.tileSum(board) > last {
            if playable.insert(rules.numbers.number(board)) {
                waiting[rules.tileSum(board), default: []].append(board)
            }
        }
        for layer in log.layers.suffix(2) {
            _ = expand(try log.rows(of: layer).boards, layer.tileSum, beyond: last)
        }
    }

    /// Whether rows are canonical boards of this tile sum on which play may go on.
    private func areBoards(_ rows: LayerRows, _ tileSum: Int) -> Bool {
        let rules = rules
        let wrong = Atomic(false)
        workers.run(lanes: rows.boardCount, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            for index in range {
                let board = rows.board(index)
                guard !rules.isBoard(board, tileSum) else { continue }
                wrong.store(true, ordering: .relaxed)
            }
        }
        return !wrong.load(ordering: .relaxed)
    }

    /// What the boards of a layer lead to.
    private struct Layer {
        var playable: [UInt64] = []
        var ended = 0
        var following: [Int: [UInt64]] = [:]
    }

    /// Finds the boards beyond a tile sum that follow the boards of a layer; they wait for their turn.
    private func expand(_ boards: [UInt64], _ sum: Int, beyond: Int) -> Layer {
        let (rules, playable) = (rules, playable)
        let result = Mutex(Layer())
        workers.run(lanes: boards.count, nanosecondsPerLane: Self.nanosecondsPerBoard) { range, _ in
            var layer = Layer()
            var (byTwo, byFour): ([UInt64], [UInt64]) = ([], [])
            for board in boards[range] {
                var isOver = true
                rules.moves.forEachLegal(board) { _, afterstate, _ in
                    isOver = false
                    guard !rules.isEnd(afterstate) else { return }
                    rules.forEachNewTile(afterstate) { next, _, added in
                        guard sum + added > beyond else { return }
                        let next = rules.boards.canonical(next)
                        guard playable.insert(rules.numbers.number(next)) else { return }
                        if added == 2 { byTwo.append(next) } else { byFour.append(next) }
                    }
                }
                if isOver {
                    layer.ended += 1
                    playable.remove(rules.numbers.number(board))
                } else {
                    layer.playable.append(board)
                }
            }
            result.withLock {
                $0.playable += layer.playable
                $0.ended += layer.ended
                $0.following[sum + 2, default: []] += byTwo
                $0.following[sum + 4, default: []] += byFour
            }
        }
        let layer = result.withLock { $0 }
        for (sum, boards) in layer.following where !boards.isEmpty { waiting[sum, default: []] += boards }
        return layer
    }
}

extension LayerRows {
    /// Rows of these boards.
    convenience init(_ boards: [UInt64]) throws(SystemError) {
        try self.init(bytes: 8 * boards.count)
        boards.withUnsafeBytes { memory.copyMemory(from: $0) }
    }

    /// How many boards these rows are.
    var boardCount: Int { memory.count / 8 }

    /// One of the boards.
    @inline(__always)
    func board(_ index: Int) -> UInt64 { memory.load(fromByteOffset: 8 &* index, as: UInt64.self) }

    /// All boards.
    var boards: [UInt64] { (0..<boardCount).map { board($0) } }
}

internal import TwofoldProtocol

/// A policy of the server that the plain rules implement as well.
enum PlainPolicy {
    case random
    case fixedOrder
    case greedy
    case ntuple(PlainNetwork)

    /// Returns the action for a lane; `word` is the next word of its policy's stream.
    func action<Game: PlainGame>(_ lane: PlainLane<Game>, _ word: UInt32) -> Int {
        let legal = lane.legalActions
        guard !legal.isEmpty else { return 0 }
        func any(of actions: [Int]) -> Int { actions[PlainStream.number(word, below: actions.count)] }
        switch self {
        case .random: return any(of: legal)
        case .fixedOrder: return legal[0]
        case .greedy:
            let rewards = legal.map { lane.game.afterstate($0)!.reward }
            return any(of: zip(legal, rewards).filter { $0.1 == rewards.max()! }.map(\.0))
        case .ntuple(let network):
            let values = legal.map { action in
                let (cells, reward) = lane.game.afterstate(action)!
                return Float(reward) + network.value(cells)
            }
            let best = values.max()!
            return zip(legal, values).first { $0.1 == best }!.0
        }
    }
}

/// The n-tuple network of a session.
struct PlainNetwork {
    /// For each tuple and each image of the board, the tuple's cells.
    private let tuples: [[[Int]]]
    private let exponents: Int
    private let size: Int
    private var weights: [Float] = []

    init(_ form: NTupleForm, rows: Int, columns: Int) {
        let images = form.symmetric ? Self.images(rows, columns) : [Array(0..<rows * columns)]
        let tuples = form.tuples.map { tuple in tuple.cells.map(Int.init) }
        self.tuples = tuples.map { tuple in images.map { image in tuple.map { image[$0] } } }
        exponents = Int(form.exponents)
        size = tuples.reduce(0) { $0 + Self.power(Int(form.exponents), $1.count) }
    }

    /// Whether all weights have arrived.
    var isComplete: Bool { weights.count == size }

    mutating func add(_ bytes: [UInt8]) {
        for start in stride(from: 0, to: bytes.count, by: 4) {
            let word = bytes[start..<start + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) }
            weights.append(Float(bitPattern: word))
        }
    }

    /// Returns the network's value of a board: the sum of one weight per tuple and image. The weights are added up over
    /// the images of each tuple first, and then those sums over the tuples.
    func value(_ cells: [UInt8]) -> Float {
        var (value, table): (Float, Int) = (0, 0)
        for images in tuples {
            var sum: Float = 0
            for image in images {
                let place = image.reversed().reduce(0) { $0 * exponents + min(Int(cells[$1]), exponents - 1) }
                sum += weights[table + place]
            }
            value += sum
            table += Self.power(exponents, images[0].count)
        }
        return value
    }

    private static func power(_ base: Int, _ count: Int) -> Int {
        (0..<count).reduce(1) { power, _ in power * base }
    }

    /// Returns the images of a board, each as the board's cells in the image's order. For each number of quarter turns
    /// anticlockwise, these are the turned board and its transpose. A board that is not square has only the four
    /// images that keep its shape.
    private static func images(_ rows: Int, _ columns: Int) -> [[Int]] {
        func cell(_ row: Int, _ column: Int) -> Int { row * columns + column }
        func image(_ cell: (_ row: Int, _ column: Int) -> Int) -> [Int] {
            (0..<rows).flatMap { row in (0..<columns).map { cell(row, $0) } }
        }
        let (bottom, right) = (rows - 1, columns - 1)
        let half = image { cell(bottom - $0, right - $1) }
        guard rows == columns else {
            return [
                image { cell($0, $1) }, image { cell($0, right - $1) }, half, image { cell(bottom - $0, $1) },
            ]
        }
        return [
            image { cell($0, $1) }, image { cell($1, $0) },
            image { cell($1, right - $0) }, image { cell($0, right - $1) },
            half, image { cell(bottom - $1, right - $0) },
            image { cell(bottom - $1, $0) }, image { cell(bottom - $0, $1) },
        ]
    }
}

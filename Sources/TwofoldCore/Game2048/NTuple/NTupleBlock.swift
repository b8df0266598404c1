internal import Platform

/// The memory in which an n-tuple network computes the values of up to 256 boards at once: all afterstates of 64 lanes.
/// Each row has an element for each board.
///
///     places          256 UInt32, twice   the places of the weights that one feature and the next feature select
///     sums            256 Float           the sum of one tuple's weights
///     values          256 Float
///     columns   cells x 256 UInt8         exponents, cell by cell, at most `exponents - 1`
///
/// This type holds the unsafe memory. Only one worker may use it at a time.
struct NTupleBlock {
    static let capacity = 256

    private let features: NTupleFeatures
    private let places: (UnsafeMutablePointer<UInt32>, UnsafeMutablePointer<UInt32>)
    private let sums: UnsafeMutablePointer<Float>
    let values: UnsafeMutablePointer<Float>
    private let columns: UnsafeMutablePointer<UInt8>

    /// Calls `body` with memory for the boards of a network.
    static func with(_ features: NTupleFeatures, _ body: (NTupleBlock) -> Void) {
        let size = capacity * (16 + features.cells)
        withUnsafeTemporaryAllocation(byteCount: size, alignment: 64) { memory in
            body(NTupleBlock(features, memory.baseAddress!))
        }
    }

    private init(_ features: NTupleFeatures, _ memory: UnsafeMutableRawPointer) {
        typealias Row = UnsafeMutablePointer
        func row<Element>(_ offset: Int, of type: Element.Type, times: Int = 1) -> Row<Element> {
            (memory + offset * Self.capacity).bindMemory(to: type, capacity: times * Self.capacity)
        }
        self.features = features
        places = (row(0, of: UInt32.self), row(4, of: UInt32.self))
        (sums, values) = (row(8, of: Float.self), row(12, of: Float.self))
        columns = row(16, of: UInt8.self, times: features.cells)
    }

    /// Stores the exponents of a board.
    @inline(__always)
    func store(_ board: UnsafePointer<UInt8>, at index: Int) {
        let largest = UInt8(features.form.exponents - 1)
        for cell in 0..<features.cells {
            columns[cell &* Self.capacity &+ index] = min(board[cell], largest)
        }
    }

    /// Calls `body` for each of at most 64 lanes with its best legal action. This is the action with the highest sum of
    /// reward and afterstate value, which is passed as `value`. If several actions are equally good, `body` gets the
    /// one with the lowest number. If no action is legal, `body` gets nil. All values are computed before the first
    /// call. Weight k is element `stride` * k of `weights`.
    @inline(__always)
    func forEachBest(
        _ lanes: Range<Int>, of afterstates: AfterstateMemory, with weights: UnsafePointer<Float>,
        stride: Int = 1, _ body: (_ lane: Int, _ best: (action: Int, value: Float)?) -> Void
    ) {
        var count = 0
        for lane in lanes {
            afterstates.forEachLegal(lane) { action in
                store(afterstates.board(lane, action, cells: features.cells), at: count)
                count &+= 1
            }
        }
        evaluate(count, with: weights, stride: stride)
        var index = 0
        for lane in lanes {
            var best: (action: Int, value: Float)?
            afterstates.forEachLegal(lane) { action in
                let value = afterstates.reward(lane, action) + values[index]
                // The first legal action counts, even if its value is -infinity or not a number.
                if best == nil || value > best!.value { best = (action, value) }
                index &+= 1
            }
            body(lane, best)
        }
    }

    /// Computes the values of the first `count` boards, in Float: first the sum of each tuple's weights over the images
    /// of the board, then the sum over the tuples.
    @inline(__always)
    func evaluate(_ count: Int, with weights: UnsafePointer<Float>, stride: Int = 1) {
        values.update(repeating: 0, count: count)
        var (now, next) = places
        findPlaces(0, count: count, into: next)
        for tuple in 0..<features.tuples {
            sums.update(repeating: 0, count: count)
            for feature in features.range(of: tuple) {
                swap(&now, &next)
                findPlaces(min(feature &+ 1, features.count &- 1), count: count, into: next)
                // Most of the time is spent waiting for memory, so the next feature's weights are requested now.
                for index in 0..<count {
                    sums[index] += weights[stride &* Int(now[index])]
                    prefetch(weights + stride &* Int(next[index]))
                }
            }
            for index in 0..<count { values[index] += sums[index] }
        }
    }

    /// Writes the index of the weight that a feature selects on each of the first `count` boards.
    func findPlaces(_ feature: Int, count: Int, into places: UnsafeMutablePointer<UInt32>) {
        features.lists[feature].withUnsafeBufferPointer { cells in
            Kernels.findPlaces(
                cells, columns, Self.capacity, UInt32(features.form.exponents),
                UInt32(features.tables[feature]),
                count, places)
        }
    }
}

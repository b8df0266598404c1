import Testing

@testable import TwofoldCore

extension NTupleNetwork {
    /// Returns the value of a board.
    fileprivate func value(_ board: [UInt8]) -> Float {
        var value = Float.nan
        NTupleBlock.with(features) { block in
            block.store(board, at: 0)
            block.evaluate(1, with: values)
            value = block.values[0]
        }
        return value
    }
}

/// Tests n-tuple networks and the policy that plays with them.
@Suite struct NTupleNetworkTests {
    private static func network(_ form: NTupleNetwork.Form) throws -> (NTupleNetwork, [Float]) {
        let network = try NTupleNetwork(form, rows: 4, columns: 4, maxBytes: 1 << 24)
        var generator = Generator(seed: 1)
        let weights = (0..<network.bytes / 4).map { _ in Float(generator.next(below: 2000)) / 16 - 50 }
        try weights.withUnsafeBytes { bytes in
            let half = bytes.count / 8 * 4
            try network.add(UnsafeRawBufferPointer(rebasing: bytes[..<half]), at: 0)
            #expect(!network.isComplete)
            try network.add(UnsafeRawBufferPointer(rebasing: bytes[half...]), at: half)
        }
        #expect(network.isComplete)
        return (network, weights)
    }

    @Test func `a network's value is the sum of the weights at the documented places`() throws {
        let form = NTupleNetwork.Form(
            tuples: [[0, 1, 4], [5], [3, 7, 11, 15]], exponents: 6, isSymmetric: true)
        let (network, weights) = try Self.network(form)
        var generator = Generator(seed: 2)
        for _ in 0..<500 {
            let board = (0..<16).map { _ in UInt8(generator.next(below: 9)) }
            // Create all eight images by rotating and mirroring the board itself.
            var images: [[UInt8]] = []
            var image = board
            for _ in 0..<4 {
                let mirrored = (0..<16).map { image[$0 % 4 * 4 + $0 / 4] }
                images += [image, mirrored]
                image = (0..<16).map { image[$0 % 4 * 4 + 3 - $0 / 4] }
            }
            var value: Float = 0
            var table = 0
            for tuple in form.tuples {
                for image in images {
                    var place = 0
                    var digit = 1
                    for cell in tuple {
                        place += Int(min(image[cell], 5)) * digit
                        digit *= 6
                    }
                    value += weights[table + place]
                }
                table += tuple.reduce(1) { size, _ in size * 6 }
            }
            // All weights are multiples of 1/16, so that the order of the additions does not change the sum.
            #expect(network.value(board) == value)
        }
    }

    @Test(arguments: [(2, 2, 8), (4, 4, 8), (3, 4, 4), (2, 5, 4)])
    func `the images of a board are its distinct rotations and reflections`(
        rows: Int, columns: Int, count: Int
    ) {
        let images = boardImages(rows: rows, columns: columns)
        #expect(images.count == count && Set(images).count == count)
        #expect(images[0] == Array(0..<rows * columns))
        for image in images { #expect(image.sorted() == images[0]) }
    }

    @Test func `ntuple takes the action with the best reward plus value`() throws {
        let (network, _) = try Self.network(
            .init(tuples: [[0, 1], [5, 6]], exponents: 12, isSymmetric: true))
        let lanes = 90
        let player = try Player(makeBoards(lanes: lanes), seed: 12)
        let results = try player.play(
            NTuplePolicy(player.environment, network, workers: Workers(threads: 2)), steps: 60)
        for step in 0..<60 {
            for lane in 0..<lanes where results.cell("valid", step, lane) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: results.cell("observation", step, lane))
                let worth = Direction.allCases.map { direction -> Float in
                    let slide = Slide(board, towards: direction)
                    let value = network.value(slide.afterstate.exponents)
                    return slide.moved ? Float(slide.mergeScore) + value : -.infinity
                }
                let action = Int(results.cell("action", step, lane)[0])
                #expect(action == worth.firstIndex(of: worth.max()!)!)
            }
        }
    }

    @Test func `the error for a wrong network argument names it, and weights must arrive in order`() throws {
        func refusal(_ form: NTupleNetwork.Form, maxBytes: Int = 1 << 20) -> EnvironmentError? {
            do throws(EnvironmentError) {
                _ = try NTupleNetwork(form, rows: 4, columns: 4, maxBytes: maxBytes)
                return nil
            } catch {
                return error
            }
        }
        typealias Form = NTupleNetwork.Form
        #expect(refusal(Form(tuples: [], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0], []], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0, 16]], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0, 0]], exponents: 4, isSymmetric: true))?.field == "tuples")
        for (tuples, reason) in [
            ([[Int]](repeating: [0], count: 257), "there are 257 tuples; expected 1...256"),
            ([Array(0..<13)], "tuple 0 has cells \(Array(0..<13)); expected 1...12 different cells"),
        ] {
            let form = Form(tuples: tuples, exponents: 2, isSymmetric: true)
            #expect(refusal(form)?.message.hasPrefix(reason) == true)
        }
        #expect(refusal(Form(tuples: [[0]], exponents: 1, isSymmetric: true))?.field == "exponents")
        #expect(refusal(Form(tuples: [[0]], exponents: 33, isSymmetric: true))?.field == "exponents")
        let large = Form(
            tuples: [[Int]](repeating: Array(0..<12), count: 256), exponents: 32, isSymmetric: true)
        #expect(refusal(large)?.kind == .resourceExhausted)
        let size = "the network's weights take 1180591620717411303424 bytes"
        #expect(refusal(large)?.message.hasPrefix(size) == true)
        // The indices of 2^32 weights and more would not fit into 32 bits.
        let beyond = Form(tuples: [Array(0..<8)], exponents: 16, isSymmetric: true)
        #expect(throws: EnvironmentError.self) {
            try NTupleFeatures(beyond, rows: 4, columns: 4, maxBytes: .max)
        }
        #expect(refusal(Form(tuples: [[0, 1]], exponents: 4, isSymmetric: true), maxBytes: 63) != nil)
        #expect(refusal(Form(tuples: [[0, 1]], exponents: 4, isSymmetric: true), maxBytes: 64) == nil)

        let network = try NTupleNetwork(
            Form(tuples: [[0]], exponents: 4, isSymmetric: false), rows: 4, columns: 4, maxBytes: 64)
        let environment = try makeBoards(lanes: 1)
        #expect(throws: EnvironmentError.self) {
            _ = try NTuplePolicy(environment, network, workers: Workers(threads: 1))
        }
        let weights = [UInt8](repeating: 0, count: 20)
        weights.withUnsafeBytes { bytes in
            for (count, offset) in [(4, 4), (3, 0), (0, 0), (20, 0)] {
                #expect(throws: EnvironmentError.self) {
                    try network.add(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: offset)
                }
            }
        }
        #expect(network.received == 0)
    }
}

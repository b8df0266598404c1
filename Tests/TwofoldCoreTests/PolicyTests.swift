import Testing

@testable import TwofoldCore

/// Tests the policies that need neither a search nor a network.
@Suite struct PolicyTests {
    @Test func `one word of the salted stream determines the legal action that random takes`() throws {
        let lanes = 200
        let player = try Player(makeBoards(lanes: lanes), seed: 5)
        let results = try player.play(RandomPolicy(), steps: 300)
        for lane in 0..<lanes {
            var generator = Generator(seed: (5 + UInt64(lane)) ^ 0x706f_6c69_6379_0000)
            for step in 0..<300 {
                let mask = results.cell("action_mask", step, lane)
                let legal = (0..<4).filter { mask[$0] == 1 }
                let word = generator.next()
                let expected = legal.isEmpty ? 0 : legal[Int((UInt64(word) * UInt64(legal.count)) >> 32)]
                #expect(results.cell("action", step, lane) == [UInt8(expected)])
            }
        }
    }

    @Test func `fixed order takes the legal action with the lowest number, and ignores the words`() throws {
        let lanes = 70
        let player = try Player(makeBoards(lanes: lanes), seed: 5)
        let twin = try Player(makeBoards(lanes: lanes), seed: 5)
        for lane in 0..<lanes { twin.streams.seed(lane, 99) }
        let results = try player.play(FixedOrderPolicy(), steps: 300)
        for step in 0..<300 {
            for lane in 0..<lanes {
                let mask = results.cell("action_mask", step, lane)
                let expected = UInt8(mask.firstIndex(of: 1) ?? 0)
                #expect(results.cell("action", step, lane) == [expected])
            }
        }
        #expect(try twin.play(FixedOrderPolicy(), steps: 300) == results)
    }

    @Test func `greedy takes the highest reward, and breaks ties at random`() throws {
        let lanes = 100
        let player = try Player(makeBoards(lanes: lanes), seed: 6)
        let results = try player.play(GreedyPolicy(player.environment), steps: 100)
        var ties: [Int: Int] = [:]
        for step in 0..<100 {
            for lane in 0..<lanes where results.cell("valid", step, lane) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: results.cell("observation", step, lane))
                let slides = Direction.allCases.map { Slide(board, towards: $0) }
                let best = slides.filter(\.moved).map(\.mergeScore).max()!
                let action = Int(results.cell("action", step, lane)[0])
                #expect(slides[action].moved && slides[action].mergeScore == best)
                if slides.allSatisfy({ $0.moved && $0.mergeScore == 0 }) { ties[action, default: 0] += 1 }
            }
        }
        #expect(ties.count == 4 && ties.values.min()! > ties.values.max()! / 2, "\(ties)")
    }
}

import Testing

@testable import TwofoldCore

@Suite struct GeneratorTests {
    /// The numbers come from a C program that calls the authors' splitmix64.c.
    @Test func `SplitMix64 gives the published numbers`() {
        var seeder = SplitMix64(seed: 1_234_567)
        let numbers: [UInt64] = [
            6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
            4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
        ]
        #expect(numbers.map { _ in seeder.next() } == numbers)
    }

    /// The numbers come from a C program that calls the authors' xoshiro128plusplus.c.
    @Test func `xoshiro128++ gives the published numbers`() {
        var generator = Generator(words: (1, 2, 3, 4))
        let numbers: [UInt32] = [
            641, 1_573_767, 3_222_811_527, 3_517_856_514, 836_907_274, 4_247_214_768, 3_867_114_732,
            1_355_841_295, 495_546_011, 621_204_420,
        ]
        #expect(numbers.map { _ in generator.next() } == numbers)
    }

    /// The states and the first five numbers of several seeds, from the same C program.
    static let seeded: [(seed: UInt64, words: [UInt32], numbers: [UInt32])] = [
        (
            0, [2_065_550_767, 3_793_791_033, 2_713_282_036, 1_853_398_634],
            [1_179_900_579, 1_938_959_192, 3_089_844_957, 3_657_088_315, 1_015_453_891]
        ),
        (
            1, [2_298_633_409, 2_433_363_436, 1_703_865_447, 3_203_108_257],
            [2_146_930_148, 2_585_199_205, 3_670_091_704, 2_556_029_204, 1_296_777_651]
        ),
        (
            42, [803_958_421, 3_184_996_902, 2_993_090_819, 686_809_907],
            [2_643_743_425, 1_762_251_840, 1_632_151_183, 1_417_845_339, 3_326_664_244]
        ),
        (
            1 << 63, [313_127_899, 1_209_974_946, 2_788_200_466, 3_295_651_384],
            [2_675_375_558, 2_777_507_670, 2_071_913_867, 2_909_175_649, 3_803_098_704]
        ),
        (
            .max, [459_615_264, 3_839_455_607, 3_690_365_641, 3_919_575_143],
            [2_650_238_882, 1_278_636_629, 2_532_285_648, 588_492_107, 1_360_811_846]
        ),
    ]

    @Test(arguments: seeded)
    func `the stream of a seed is frozen`(seed: UInt64, words: [UInt32], numbers: [UInt32]) {
        var generator = Generator(seed: seed)
        #expect(generator.words == (words[0], words[1], words[2], words[3]))
        #expect(numbers.map { _ in generator.next() } == numbers)
    }

    @Test func `the state is correct after a million numbers`() {
        var generator = Generator(seed: 1)
        for _ in 0..<1_000_000 { _ = generator.next() }
        #expect(generator.words == (3_747_616_369, 1_628_347_560, 3_433_296_100, 1_190_156_208))
    }

    @Test func `a stream continues from the words of its state`() {
        var generator = Generator(seed: 7)
        for _ in 0..<10 { _ = generator.next() }
        var copy = Generator(words: generator.words)
        #expect(copy == generator)
        for _ in 0..<10 { #expect(copy.next() == generator.next()) }
        _ = copy.next()
        #expect(copy != generator)
    }

    @Test(arguments: 1...64)
    func `a number below a count is the high half of word x count`(count: Int) {
        var generator = Generator(seed: 3)
        var words = generator
        for _ in 0..<50 {
            let word = words.next()
            #expect(generator.next(below: count) == Int(word.multipliedFullWidth(by: UInt32(count)).high))
            #expect(generator == words, "one word, whatever its value")
        }
    }

    /// The first number after the state (0, x, x, word) is rotl(word, 7).
    @Test func `the smallest word gives 0 and the largest the last number`() {
        var smallest = Generator(words: (0, 1, 1, 0))
        #expect(smallest.next(below: 16) == 0)
        var largest = Generator(words: (0, 1, 1, .max))
        #expect(largest.next(below: 16) == 15)
    }

    @Test(arguments: [2, 3, 10, 16])
    func `numbers below a count are uniform`(count: Int) {
        var generator = Generator(seed: 11)
        var counts = [Int](repeating: 0, count: count)
        for _ in 0..<20_000 { counts[generator.next(below: count)] += 1 }
        let z = chiSquare(counts, [Double](repeating: 1 / Double(count), count: count))
        #expect(abs(z) < 4.5, "\(counts)")
    }
}

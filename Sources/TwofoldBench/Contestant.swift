internal import Platform
internal import TwofoldCore

/// An engine of the benchmark, with the game and the reward that it plays.
struct Contestant {
    /// The name in the reports.
    let name: String
    /// The implementation of 2048's rules. Concentration has only one.
    var engine = Engine.automatic
    /// The game, and its size if that is not the default.
    var game = "2048"
    /// The declared reward; nil for the game's own.
    var reward: RewardSpec?

    private static let all = [
        Contestant(name: "kernel, AVX2", engine: .avx2),
        Contestant(name: "kernel, baseline", engine: .baseline),
        Contestant(name: "reference", engine: .reference),
        Contestant(name: "kernel, AVX2, eight reward terms", engine: .avx2, reward: eightTerms),
        Contestant(name: "kernel, baseline, eight reward terms", engine: .baseline, reward: eightTerms),
        Contestant(name: "reference, eight reward terms", engine: .reference, reward: eightTerms),
        Contestant(name: "3 x 3, kernel, AVX2", engine: .avx2, game: small),
        Contestant(name: "3 x 3, kernel, baseline", engine: .baseline, game: small),
        Contestant(name: "3 x 3, reference", engine: .reference, game: small),
        Contestant(name: concentration, game: concentration),
    ]
    private static let small = "2048 on 3 x 3"
    private static let concentration = "Concentration"

    /// A reward with all potentials of 2048, and with merges weighted by a table.
    private static let eightTerms = RewardSpec([
        .init("merge_score", weight: 0.1),
        .init("merge_table", parameters: [.init("table", (0..<32).map { Double($0 * $0) / 7 })]),
        .init("empty_cells", weight: 2.5, gamma: 0.99), .init("monotonicity", weight: 1.1, gamma: 0.99),
        .init("smoothness", weight: 0.3, gamma: 0.99), .init("corner", weight: 0.7, gamma: 0.99),
        .init(
            "cell_weights", weight: 0.01, gamma: 0.99,
            table: [15, 14, 13, 12, 8, 9, 10, 11, 7, 6, 5, 4, 0, 1, 2, 3]),
        .init("tile_sum", weight: 0.001, gamma: 0.99),
    ])

    /// The engines that run on this processor.
    static var available: [Contestant] { all.filter { $0.engine != .avx2 || Platform.hasAVX2 } }

    /// The game and its reward; engines with the same `play` have the same signature.
    var play: String { reward == nil ? game : "\(game), eight reward terms" }

    func makeBatch(lanes: Int, workers: Workers) throws(EnvironmentError) -> Batch {
        var options = BatchOptions(lanes: lanes, workers: workers, engine: engine)
        options.reward = reward
        if game == Self.concentration { return try Batch(Concentration(.init()), options) }
        var config = Game2048.Config()
        if game == Self.small { (config.rows, config.columns) = (3, 3) }
        return try Game2048(config).makeBatch(options)
    }
}

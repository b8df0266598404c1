internal import Platform
internal import TwofoldCore

/// An engine of the benchmark. The raw value is its name in the reports.
enum Contestant: String, CaseIterable {
    /// The kernel that steps 64 boards at a time, compiled for AVX2.
    case avx2 = "kernel, AVX2"
    /// The kernel that steps 64 boards at a time, compiled for any processor.
    case baseline = "kernel, baseline"
    /// The best scalar technique: see ``RowTableEngine``.
    case rowTables = "row tables"
    /// The engine that runs the readable rules.
    case reference = "reference"
    /// `avx2` with the reward `eightTerms`, the eight slowest terms.
    case avx2Terms = "kernel, AVX2, eight reward terms"
    /// `baseline` with the same reward.
    case baselineTerms = "kernel, baseline, eight reward terms"
    /// `reference` with the same reward; for the signature only.
    case referenceTerms = "reference, eight reward terms"
    /// `avx2` on 3 x 3 boards.
    case avx2Small = "3 x 3, kernel, AVX2"
    /// `baseline` on 3 x 3 boards.
    case baselineSmall = "3 x 3, kernel, baseline"
    /// `reference` on 3 x 3 boards; for the signature only.
    case referenceSmall = "3 x 3, reference"
    /// Concentration with its default arguments, played by its readable rules.
    case concentration = "Concentration"

    /// The engines that run on this processor.
    static var available: [Contestant] {
        allCases.filter { ![.avx2, .avx2Terms, .avx2Small].contains($0) || Platform.hasAVX2 }
    }

    /// Whether the benchmark measures the engine's speed.
    var isMeasured: Bool { self != .referenceTerms && self != .referenceSmall }

    /// The game, and its size if that is not the default.
    var game: String {
        switch self {
        case .concentration: "Concentration"
        case _ where isSmall: "2048 on 3 x 3"
        default: "2048"
        }
    }

    private var isSmall: Bool { self == .avx2Small || self == .baselineSmall || self == .referenceSmall }

    /// The game and its reward; engines with the same `play` have the same signature.
    var play: String {
        switch self {
        case .avx2, .baseline, .rowTables, .reference, .concentration, .avx2Small, .baselineSmall,
            .referenceSmall:
            game
        case .avx2Terms, .baselineTerms, .referenceTerms: "\(game), eight reward terms"
        }
    }

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

    func makeBatch(lanes: Int, workers: Workers) throws(EnvironmentError) -> Batch {
        var options = BatchOptions(lanes: lanes, workers: workers)
        switch self {
        case .avx2, .avx2Terms, .avx2Small: options.engine = .avx2
        case .baseline, .baselineTerms, .baselineSmall: options.engine = .baseline
        case .reference, .referenceTerms, .referenceSmall: options.engine = .reference
        case .rowTables: return try RowTableEngine.makeBatch(options)
        case .concentration: return try Batch(Concentration(.init()), options)
        }
        if play != game { options.reward = Contestant.eightTerms }
        var config = Game2048.Config()
        if isSmall { (config.rows, config.columns) = (3, 3) }
        return try Game2048(config).makeBatch(options)
    }
}

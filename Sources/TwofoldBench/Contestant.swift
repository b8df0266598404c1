internal import TwofoldCore

/// One way to run the boards, as the benchmark calls it.
enum Contestant: String, CaseIterable {
    /// 64 boards at a time, AVX2.
    case avx2 = "kernel, AVX2"
    /// 64 boards at a time, any processor.
    case baseline = "kernel, baseline"
    /// The best scalar technique.
    case rowTables = "row tables"
    /// The readable rules.
    case reference = "reference"

    /// Those that this processor can run.
    static var available: [Contestant] {
        allCases.filter { $0 != .avx2 || Engine.hasAVX2 }
    }

    func makeEnvironment(lanes: Int, workers: Workers) throws(EnvironmentError) -> any VectorEnvironment {
        var options = BatchOptions(lanes: lanes, workers: workers)
        switch self {
        case .avx2: options.engine = .avx2
        case .baseline: options.engine = .baseline
        case .reference: options.engine = .reference
        case .rowTables: return try RowTableEnvironment(options)
        }
        return try Game2048(.init()).makeEnvironment(options)
    }
}

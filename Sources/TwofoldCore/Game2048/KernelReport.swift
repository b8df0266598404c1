internal import Kernel2048

/// The declared reward and the extra infos that a kernel computes in each step: the compiled reward program with its
/// tables, and the keys of the arrays to fill.
///
/// This type holds the program's unsafe memory. `@unchecked Sendable` because nothing writes to it after init.
final class KernelReport: @unchecked Sendable {
    let program: KernelRewardProgram
    private let terms: UnsafeMutableBufferPointer<KernelRewardTerm>
    private let tables: UnsafeMutableBufferPointer<Double>
    private let cellWeights: UnsafeMutableBufferPointer<Int16>
    private let reward: ArrayKey<Float>
    private let termsKey: ArrayKey<Float>?
    private let infos: [Game2048.ExtraKey]

    /// The number of entries in a table: one for each byte value.
    private static let exponents = 256

    init(_ plan: BatchPlan<Game2048>) {
        let report = plan.report
        let lines = report.program.lines
        (reward, termsKey, infos) = (plan.keys.reward, report.terms, report.infos)
        terms = .allocate(capacity: lines.count)
        tables = .allocate(capacity: lines.count * KernelReport.exponents)
        tables.initialize(repeating: 0)
        cellWeights = .allocate(capacity: lines.count * 16)
        cellWeights.initialize(repeating: 0)
        for (index, line) in lines.enumerated() {
            let table = tables.baseAddress! + index * KernelReport.exponents
            let weights = cellWeights.baseAddress! + index * 16
            switch line.term {
            // Entry 0 stays 0, because it stands for no merge.
            case .mergeTable:
                for entry in 1..<KernelReport.exponents {
                    table[entry] = line.table[min(entry, line.table.count - 1)]
                }
            case .cellWeights: for cell in line.table.indices { weights[cell] = Int16(line.table[cell]) }
            default: break
            }
            var term = KernelRewardTerm(kind: line.term, weight: line.weight)
            (term.gamma, term.table, term.cellWeights) = (
                line.gamma, UnsafePointer(table), UnsafePointer(weights)
            )
            terms.initializeElement(at: index, to: term)
        }
        var program = KernelRewardProgram(
            terms: UnsafeBufferPointer(terms), goalExponent: plan.game.goalExponent)
        (program.scale, program.low, program.high) = (
            report.program.scale, report.program.low, report.program.high
        )
        self.program = program
    }

    deinit {
        terms.deallocate()
        tables.deallocate()
        cellWeights.deallocate()
    }

    /// Returns the addresses of row `row` in the report's arrays. The kernel writes 64 rows, starting there.
    @inline(__always)
    func outputs(_ arrays: BatchArrays, _ row: Int) -> KernelReportOutputs {
        var outputs = KernelReportOutputs(reward: arrays.address(reward, lane: row))
        if let termsKey { outputs.terms = arrays.address(termsKey, lane: row) }
        for key in infos {
            switch key {
            case .merges(let key): outputs.merges = arrays.address(key, lane: row)
            case .chance(let key): outputs.chance = arrays.address(key, lane: row)
            case .afterstates(let key): outputs.afterstates = arrays.address(key, lane: row)
            }
        }
        return outputs
    }
}

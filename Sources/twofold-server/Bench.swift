import ArgumentParser
import FoundationEssentials
import Platform
import TwofoldBench
import TwofoldService

/// The command `twofold-server bench`.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure the engines in this process, without any transport.",
        discussion: """
            Prints board steps per second under random legal play, including all arrays that a client would \
            receive, as medians over interleaved rounds. Then prints signatures: hashes of all replies of a fixed \
            run, which are equal for every engine, thread count and chunk size. There is one for each game, one \
            for 2048 on 3 x 3, and one for a reward of eight terms. They change only when behaviour changes.
            """)

    @Option(help: "Number of boards in a batch. May be repeated.")
    var boards = [1, 16, 256, 4096, 65_536, 1_048_576]

    @Option(help: "Number of rounds.")
    var rounds = 5

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Print only the signatures.")
    var signatureOnly = false

    private struct Report: Encodable {
        let version: String
        let rows: [BenchmarkRow]
        let signatures: [BenchmarkSignature]
    }

    func validate() throws {
        let limit = 1 << 40
        guard boards.allSatisfy({ 1...limit ~= $0 }), rounds >= 1 else {
            throw ValidationError("--boards must be in 1...\(limit); --rounds must be at least 1")
        }
    }

    func run() throws {
        let threads = Set([1, availableProcessors()]).sorted()
        let rows = signatureOnly ? [] : try benchmark(sizes: boards, threads: threads, rounds: rounds)
        let signatures = try signatures(threads: threads)
        if json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            let report = Report(version: EnvironmentService.version, rows: rows, signatures: signatures)
            print(String(decoding: try encoder.encode(report), as: UTF8.self))
        } else {
            if !rows.isEmpty { printTable(rows) }
            printSignatures(signatures)
        }
        let runs = Dictionary(grouping: signatures, by: \.play)
        guard runs.values.allSatisfy({ Set($0.map(\.signature)).count == 1 }) else {
            throw Reason("the engines disagree: their signatures differ")
        }
    }

    private func printTable(_ rows: [BenchmarkRow]) {
        print("million steps per second, median (slowest to fastest round)\n")
        print("| boards | threads | engine | median | range |")
        print("|---:|---:|---|---:|---:|")
        for row in rows {
            print(
                "| \(row.boards) | \(row.threads) | \(row.engine) | \(millions(row.median)) "
                    + "| \(millions(row.minimum)) to \(millions(row.maximum)) |")
        }
        print("")
    }

    private func printSignatures(_ signatures: [BenchmarkSignature]) {
        for signature in Set(signatures.map(\.signature)).sorted() {
            let runs = signatures.filter { $0.signature == signature }
            print(
                "signature \(signature) from \(runs.count) runs of \(runs[0].play): "
                    + "every engine, thread count and chunk size")
        }
    }

    private func millions(_ rate: Double) -> Double { (rate / 1000).rounded() / 1000 }
}

internal import Platform

/// The pass that plays optimally, forward from the start boards. It computes the probability that a game visits each
/// board. From these it derives the expected score, the expected number of moves and the distribution of the highest
/// tile. It looks boards up in the table as a game does, so its value checks the backward pass.
struct PlayPass {
    let rules: OptimumRules
    let log: LayerLog
    let table: OptimumTable

    /// Plays all games at once. Returns their results and the objective's expected value.
    func run(
        _ report: (_ tileSum: Int, _ states: Int) -> Void
    ) throws -> (results: OptimumResults, value: Double) {
        var results = OptimumResults()
        var value = 0.0
        let visits = try BoardValues(count: table.records)
        func arrive(_ board: UInt64, _ probability: Double) {
            let canonical = rules.boards.canonical(board)
            let rank = table.rank(rules.numbers.number(canonical))
            if rank >= 0 { visits[rank] += probability } else { end(board, probability) }
        }
        func end(_ board: UInt64, _ probability: Double) {
            results.highestTiles[Int(rules.boards.exponents(board).max()!)] += probability
        }
        for (board, probability) in rules.starts() { arrive(board, probability) }
        var done = 0
        for layer in log.layers {
            for board in try log.boards(of: layer) {
                let rank = table.rank(rules.numbers.number(board))
                let probability = visits[rank]
                guard probability > 0 else { continue }
                let actions = table.record(rank)
                let best = (0..<4).max { actions[$0] < actions[$1] }!
                rules.moves.forEachLegal(board) { action, afterstate, score in
                    guard action == best else { return }
                    let isEnd = rules.isEnd(afterstate)
                    results.moves += probability
                    results.score += probability * Double(score)
                    value += probability * rules.reward(score: score, isEnd: isEnd)
                    if isEnd { return end(afterstate, probability) }
                    rules.forEachNewTile(afterstate) { next, share, _ in arrive(next, probability * share) }
                }
            }
            done += layer.count
            report(layer.tileSum, done)
        }
        return (results, value)
    }
}

// Declared rewards and requested infos of a step, for 64 boards at once.
//
// These passes run only on request. They read the scratch memory of the step: the board before it, the
// afterstate, the board after the spawn, the merges, and the lanes that played. The code follows the
// conventions of Kernel.swift. Numbers stay integers until the last loop of a term, which weights them in
// Double:
//
//     count of an event                    weight · count
//     potential before, potential after    weight · (gamma · after - before)
//
// The Double operations have the same order as in RewardProgram, so the resulting bytes are equal.

#if KERNEL_AVX2
internal import Kernel2048
#endif

/// Fills a row of bytes, one register at a time.
@inline(__always) private func fill(_ row: Bytes, _ lanes: (_ lane: Int) -> Lanes) {
    for lane in Lanes.starts { lanes(lane).store(row, lane) }
}

// MARK: - events: a count for each lane

extension KernelSize {
    /// Returns the sum of the merged tiles' exponents. There are at most eight merges, so the sum fits
    /// into a byte.
    @inline(__always) private static func mergeExponents(_ merges: Bytes, _ lane: Int) -> Lanes {
        var sum = Lanes(0)
        for row in 0..<mergeRows { sum = sum &+ Lanes(merges + row * 64, lane) }
        return sum
    }

    @inline(__always) private static func mergeCounts(_ merges: Bytes, _ lane: Int) -> Lanes {
        var count = Lanes(UInt8(truncatingIfNeeded: mergeRows))
        for row in 0..<mergeRows { count = count &+ Lanes(merges + row * 64, lane).isZero }
        return count
    }

    /// Sums a table's entries for the merged tiles, in the order of the merges. Entry 0 must be 0. This is the
    /// only loop in this file that is not vector code, because it looks up each entry.
    private static func tableSums(_ table: UnsafePointer<Double>, _ scratch: KernelScratch) {
        let (made, sums) = (scratch.boards, scratch.values)
        for row in stride(from: 0, to: mergeRows * 64, by: 64) {
            fill(made + row) { Lanes(scratch.merges + row, $0) & Lanes(scratch.played, $0) }
        }
        for lane in 0..<64 {
            var sum = 0.0
            for row in 0..<mergeRows { sum += table[Int(made[lane + row * 64])] }
            sums[lane] = sum
        }
    }
}

// MARK: - potentials: an integer for each board

/// Returns `to` minus `from`, or 0 if `to` is not larger.
@inline(__always) private func rise(_ from: Lanes, _ to: Lanes) -> Lanes { .max(from, to) &- from }

/// Returns the line's disorder: the smaller of its total rise and its total fall, at most 46.
@inline(__always) private func disorder(_ line: Line, length: Int) -> Lanes {
    var (rises, falls) = (rise(line.a, line.b), rise(line.b, line.a))
    if length > 2 { (rises, falls) = (rises &+ rise(line.b, line.c), falls &+ rise(line.c, line.b)) }
    if length > 3 { (rises, falls) = (rises &+ rise(line.c, line.d), falls &+ rise(line.d, line.c)) }
    return .min(rises, falls)
}

/// Returns the absolute difference of two neighbours' exponents; 0 where one of the cells is empty.
@inline(__always) private func gap(_ a: Lanes, _ b: Lanes) -> Lanes {
    let smaller = Lanes.min(a, b)
    return (.max(a, b) &- smaller) & ~smaller.isZero
}

/// Returns the sum of a line's gaps, at most 90.
@inline(__always) private func gaps(_ line: Line) -> Lanes {
    gap(line.a, line.b) &+ gap(line.b, line.c) &+ gap(line.c, line.d)
}

extension KernelSize {
    /// Writes two rows: the disorder of the rows, and the disorder of the columns.
    @inline(__always) private static func monotonicity(_ cells: Bytes, _ lane: Int, into part: Bytes) {
        var (inRows, inColumns) = (Lanes(0), Lanes(0))
        for number in 0..<rows { inRows = inRows &+ disorder(row(cells, number, lane), length: columns) }
        for number in 0..<columns {
            inColumns = inColumns &+ disorder(column(cells, number, lane), length: rows)
        }
        inRows.store(part, lane)
        inColumns.store(part + 64, lane)
    }

    /// Writes `longest` rows of bytes. Each contains the sum of the gaps in the board's row and column with the
    /// same number.
    @inline(__always) private static func smoothness(_ cells: Bytes, _ lane: Int, into part: Bytes) {
        for number in 0..<longest {
            let row = gaps(row(cells, number, lane))
            (row &+ gaps(column(cells, number, lane))).store(part + number * 64, lane)
        }
    }

    /// Returns the largest exponent.
    @inline(__always) private static func largest(_ cells: Bytes, _ lane: Int) -> Lanes {
        var largest = Lanes(0)
        for cell in 0..<cellCount { largest = .max(largest, Lanes(cells + cell * 64, lane)) }
        return largest
    }

    /// Returns each board's largest exponent if it is in a corner, and 0 otherwise.
    @inline(__always) private static func corner(_ cells: Bytes, _ lane: Int) -> Lanes {
        let bottom = cells + (cellCount - columns) * 64
        let atTop = Lanes.max(Lanes(cells, lane), Lanes(cells + (columns - 1) * 64, lane))
        let atBottom = Lanes.max(Lanes(bottom, lane), Lanes(bottom + (columns - 1) * 64, lane))
        let largest = largest(cells, lane)
        return largest & (.max(atTop, atBottom) .== largest)
    }

    /// Adds the weighted exponents to `phi`. Weights have 16 bits, so their products with bytes need no
    /// 32-bit multiplication.
    private static func addWeighted(_ cells: Bytes, _ weights: UnsafePointer<Int16>, into phi: Ints) {
        typealias Weights = (Int32, Int32, Int32, Int32)
        @inline(__always) func row(_ number: Int) -> Weights {
            @inline(__always) func weight(_ column: Int) -> Int32 {
                number < rows && column < columns ? Int32(weights[number * columns + column]) : 0
            }
            return (weight(0), weight(1), weight(2), weight(3))
        }
        @inline(__always) func sum(_ weights: Weights, _ number: Int, _ lane: Int) -> Int32 {
            @inline(__always) func product(_ weight: Int32, _ column: Int) -> Int32 {
                guard number < rows, column < columns else { return 0 }
                return weight &* Int32(cells[(number * columns + column) * 64 + lane])
            }
            return product(weights.0, 0) &+ product(weights.1, 1) &+ product(weights.2, 2)
                &+ product(weights.3, 3)
        }
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3))
        for lane in 0..<64 {
            phi[lane] = sum(r0, 0, lane) &+ sum(r1, 1, lane) &+ sum(r2, 2, lane) &+ sum(r3, 3, lane)
        }
    }

    /// Returns the exponent of the tile that the spawn placed; 0 if there is none.
    @inline(__always) private static func spawned(_ scratch: KernelScratch, _ lane: Int) -> Lanes {
        var tile = Lanes(0)
        for cell in stride(from: 0, to: cellCount * 64, by: 64) {
            tile |= Lanes(scratch.afterstate + cell, lane) ^ Lanes(scratch.after + cell, lane)
        }
        return tile
    }
}

// MARK: - weigh

/// Adds a weighted term to the total. Adding 0.0 turns a negative zero into a positive one.
@inline(__always) private func weigh(
    _ weight: Double, _ scratch: KernelScratch, _ value: (_ lane: Int) -> Double
) {
    let (total, term) = (scratch.total, scratch.weighted)
    for lane in 0..<64 {
        let weighted = weight * value(lane) + 0.0
        total[lane] = total[lane] + weighted
        term[lane] = Float(weighted)
    }
}

/// Adds the weighted change of a potential from `phi` to `nextPhi`, in the lanes that played. `nextPhi` counts as 0
/// where the episode has terminated.
private func weighPotential(_ term: KernelRewardTerm, _ scratch: KernelScratch) {
    let (phi, nextPhi, gamma) = (scratch.phi, scratch.nextPhi, term.gamma)
    let (played, terminated) = (scratch.played, scratch.terminated)
    for lane in 0..<64 { phi[lane] &= widen(played[lane]) }
    for lane in 0..<64 { nextPhi[lane] &= widen(played[lane] & ~terminated[lane]) }
    weigh(term.weight, scratch) { gamma * Double(nextPhi[$0]) - Double(phi[$0]) }
}

/// Adds the weighted change of a potential: the sum of rows of bytes, or minus that sum. `store` fills the rows.
@inline(__always) private func weighPotential(
    _ term: KernelRewardTerm, _ scratch: KernelScratch, rows: Int, isNegative: Bool = false,
    _ store: (_ cells: Bytes, _ lane: Int) -> Void
) {
    for lane in Lanes.starts { store(scratch.before, lane) }
    addRows(scratch.part, rows, into: scratch.phi, isNegative: isNegative)
    for lane in Lanes.starts { store(scratch.after, lane) }
    addRows(scratch.part, rows, into: scratch.nextPhi, isNegative: isNegative)
    weighPotential(term, scratch)
}

private func addRows(_ rows: Bytes, _ count: Int, into sums: Ints, isNegative: Bool = false) {
    for lane in stride(from: 0, to: 64, by: Numbers.scalarCount) {
        var sum = Numbers()
        for row in 0..<count { sum = sum &+ Numbers(rows + row * 64, lane, less: 0) }
        if isNegative { sum = Numbers() &- sum }
        UnsafeMutableRawPointer(sums + lane).storeBytes(of: sum, as: Numbers.self)
    }
}

/// Adds an event's weighted counts in the lanes that played. `events` returns the counts as bytes.
@inline(__always) private func weighEvent(
    _ term: KernelRewardTerm, _ scratch: KernelScratch, _ events: (_ lane: Int) -> Lanes
) {
    let (part, counts) = (scratch.part, scratch.counts)
    fill(part) { events($0) & Lanes(scratch.played, $0) }
    addRows(part, 1, into: counts)
    weigh(term.weight, scratch) { Double(counts[$0]) }
}

extension KernelSize {
    /// Adds one term's weighted counts or potentials to `total`, and writes them to `weighted`.
    private static func add(_ term: KernelRewardTerm, goalExponent: UInt8, _ scratch: KernelScratch) {
        let (before, after) = (scratch.before, scratch.after)
        let (part, phi, nextPhi) = (scratch.part, scratch.phi, scratch.nextPhi)
        let one = Lanes(1)
        switch term.kind {
        case .mergeScore:
            let earned = scratch.earned
            weigh(term.weight, scratch) { Double(earned[$0]) }
        case .mergeExponent: weighEvent(term, scratch) { mergeExponents(scratch.merges, $0) }
        case .mergeCount: weighEvent(term, scratch) { mergeCounts(scratch.merges, $0) }
        case .mergeTable:
            tableSums(term.table!, scratch)
            let values = scratch.values
            weigh(term.weight, scratch) { values[$0] }
        case .newMaxTile:
            weighEvent(term, scratch) { one & ~(largest(before, $0) .>= largest(after, $0)) }
        case .goal:
            let goal = Lanes(goalExponent)
            weighEvent(term, scratch) {
                one & (largest(after, $0) .>= goal) & ~(largest(before, $0) .>= goal)
            }
        case .survival:
            weighEvent(term, scratch) { one & Lanes(scratch.moved, $0) & ~Lanes(scratch.terminated, $0) }
        case .illegalAction: weighEvent(term, scratch) { one & ~Lanes(scratch.moved, $0) }
        case .gameOver: weighEvent(term, scratch) { one & Lanes(scratch.terminated, $0) }
        case .emptyCells:
            weighPotential(term, scratch, rows: 1) { countEmpty($0, $1).store(part, $1) }
        case .monotonicity:
            weighPotential(term, scratch, rows: 2, isNegative: true) { monotonicity($0, $1, into: part) }
        case .smoothness:
            weighPotential(term, scratch, rows: longest, isNegative: true) { smoothness($0, $1, into: part) }
        case .corner:
            weighPotential(term, scratch, rows: 1) { corner($0, $1).store(part, $1) }
        case .cellWeights:
            addWeighted(before, term.cellWeights!, into: phi)
            addWeighted(after, term.cellWeights!, into: nextPhi)
            weighPotential(term, scratch)
        case .tileSum:
            // Merges preserve the sum; the spawn increases it.
            addValues(before, rows: cellCount, into: phi)
            fill(part) { spawned(scratch, $0) }
            addValues(part, rows: 1, into: nextPhi)
            for lane in 0..<64 { nextPhi[lane] = nextPhi[lane] &+ phi[lane] }
            weighPotential(term, scratch)
        }
    }
}

// MARK: - the operations

extension KernelSize {
    static func report(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, scratch: KernelScratch
    ) {
        writeReward(program, outputs, scratch)
        if let merges = outputs.merges { writeMerges(scratch, into: merges) }
        if let afterstates = outputs.afterstates {
            writePlayed(scratch.afterstate, into: afterstates, scratch)
        }
        if let chance = outputs.chance {
            writeOutcomes(scratch.afterstate, scratch.after, into: chance, scratch)
        }
    }

    private static func writeReward(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, _ scratch: KernelScratch
    ) {
        let (total, weighted, played, terms) = (
            scratch.total, scratch.weighted, scratch.played, scratch.terms
        )
        for lane in 0..<64 { total[lane] = 0 }
        for index in 0..<program.terms.count {
            add(program.terms[index], goalExponent: program.goalExponent, scratch)
            if outputs.terms != nil {
                for lane in 0..<64 { terms[lane * program.terms.count + index] = weighted[lane] }
            }
        }
        outputs.terms?.copyMemory(from: terms, byteCount: 256 * program.terms.count)
        let (scale, low, high) = (program.scale, program.low, program.high)
        for lane in 0..<64 {
            let scaled = total[lane] * scale + 0.0
            weighted[lane] = Float(scaled < low ? low : scaled > high ? high : scaled)
        }
        let bits = UnsafeMutableRawPointer(weighted).assumingMemoryBound(to: Int32.self)
        for lane in 0..<64 { bits[lane] &= widen(played[lane]) }
        outputs.reward.copyMemory(from: weighted, byteCount: 256)
    }

    /// Repeats the slide and writes the exponent of each merged tile to its cell.
    private static func writeMerges(_ scratch: KernelScratch, into merges: UnsafeMutableRawPointer) {
        for lane in Lanes.starts {
            let turn = Turn(scratch.action, lane)
            @inline(__always) func merged(_ number: Int) -> Line {
                var line = line(scratch.before, number, turn, lane)
                var moved = Lanes(0)
                var made = line.slide(&moved)
                mirror(&made, turn)
                return made
            }
            let third = longest > 2 ? merged(2) : Line()
            let fourth = longest > 3 ? merged(3) : Line()
            store(merged(0), merged(1), third, fourth, turn, into: scratch.boards, lane)
        }
        writePlayed(scratch.boards, into: merges, scratch)
    }

    /// Writes boards, with zeros in the lanes that did not play.
    private static func writePlayed(
        _ cells: Bytes, into boards: UnsafeMutableRawPointer, _ scratch: KernelScratch
    ) {
        for cell in stride(from: 0, to: cellCount * 64, by: 64) {
            fill(scratch.boards + cell) { Lanes(cells + cell, $0) & Lanes(scratch.played, $0) }
        }
        writeBoards(scratch.boards, into: boards, scratch)
    }
}

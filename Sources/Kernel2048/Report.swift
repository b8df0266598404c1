// What a step did, for 64 boards of 4x4 at once: declared rewards, and the infos on request.
//
// These passes read what a step leaves in its scratch memory: the board before it, the afterstate, the board
// after the spawn, the merges, and which lanes played at all. They run only on request. Their manner is that of
// Kernel.swift. Numbers stay integers until the last loop of a term, which weighs them in Double:
//
//     count of an event                    weight · count
//     potential before, potential after    weight · (gamma · after - before)
//
// The order of every Double operation is that of RewardProgram, so that the bytes are the same.

#if KERNEL_AVX2
public import Kernel2048
#endif

/// A row of bytes, a register at a time.
@inline(__always) private func fill(_ row: Bytes, _ lanes: (_ lane: Int) -> Lanes) {
    for lane in Lanes.starts { lanes(lane).store(row, lane) }
}

// MARK: - events: a count for each lane

/// Sum of the exponents that merges made: at most eight merges, so a byte holds it.
@inline(__always) private func mergeExponents(_ merges: Bytes, _ lane: Int) -> Lanes {
    var sum = Lanes(0)
    for row in 0..<8 { sum = sum &+ Lanes(merges + row * 64, lane) }
    return sum
}

@inline(__always) private func mergeCounts(_ merges: Bytes, _ lane: Int) -> Lanes {
    var count = Lanes(8)
    for row in 0..<8 { count = count &+ Lanes(merges + row * 64, lane).isZero }
    return count
}

/// Sum of a table's entries for the tiles made, in the order of the merges; entry 0 is 0. The one loop that
/// is not vector code: each entry is looked up.
private func tableSums(_ table: UnsafePointer<Double>, _ scratch: KernelScratch) {
    let (made, sums) = (scratch.boards, scratch.values)
    for row in stride(from: 0, to: 512, by: 64) {
        fill(made + row) { Lanes(scratch.merges + row, $0) & Lanes(scratch.played, $0) }
    }
    for lane in 0..<64 {
        var sum = 0.0
        for row in 0..<8 { sum += table[Int(made[lane + row * 64])] }
        sums[lane] = sum
    }
}

// MARK: - potentials: an integer for each board

/// How much `to` is above `from`, 0 where it is not.
@inline(__always) private func rise(_ from: Lanes, _ to: Lanes) -> Lanes { .max(from, to) &- from }

/// What a line lacks of being sorted: the smaller one of its rises and its falls, at most 46.
@inline(__always) private func lack(_ line: Line) -> Lanes {
    let (a, b, c, d) = (line.a, line.b, line.c, line.d)
    return .min(rise(a, b) &+ rise(b, c) &+ rise(c, d), rise(b, a) &+ rise(c, b) &+ rise(d, c))
}

/// Two rows: what the rows and the columns lack.
@inline(__always) private func monotonicity(_ cells: Bytes, _ lane: Int, into part: Bytes) {
    var (rows, columns) = (Lanes(0), Lanes(0))
    for line in 0..<4 {
        rows = rows &+ lack(Line(cells + line * 256, step: 64, lane))
        columns = columns &+ lack(Line(cells + line * 64, step: 256, lane))
    }
    rows.store(part, lane)
    columns.store(part + 64, lane)
}

/// How much two neighbours differ, 0 where one of the cells is empty.
@inline(__always) private func gap(_ a: Lanes, _ b: Lanes) -> Lanes {
    let smaller = Lanes.min(a, b)
    return (.max(a, b) &- smaller) & ~smaller.isZero
}

/// The gaps of a line, at most 90.
@inline(__always) private func gaps(_ line: Line) -> Lanes {
    gap(line.a, line.b) &+ gap(line.b, line.c) &+ gap(line.c, line.d)
}

/// Four rows: the gaps of each row and column of the boards together.
@inline(__always) private func smoothness(_ cells: Bytes, _ lane: Int, into part: Bytes) {
    for line in 0..<4 {
        let row = gaps(Line(cells + line * 256, step: 64, lane))
        (row &+ gaps(Line(cells + line * 64, step: 256, lane))).store(part + line * 64, lane)
    }
}

/// The largest exponent.
@inline(__always) private func largest(_ cells: Bytes, _ lane: Int) -> Lanes {
    var largest = Lanes(0)
    for cell in 0..<16 { largest = .max(largest, Lanes(cells + cell * 64, lane)) }
    return largest
}

/// The largest exponent where a corner has it, else 0.
@inline(__always) private func corner(_ cells: Bytes, _ lane: Int) -> Lanes {
    let top = Lanes.max(Lanes(cells, lane), Lanes(cells + 192, lane))
    let bottom = Lanes.max(Lanes(cells + 768, lane), Lanes(cells + 960, lane))
    let largest = largest(cells, lane)
    return largest & (.max(top, bottom) .== largest)
}

/// Weights of 16 bits: their products with bytes need no 32-bit multiplication.
private func addWeighted(_ cells: Bytes, _ weights: UnsafePointer<Int16>, into phi: Ints) {
    typealias Weights = (Int32, Int32, Int32, Int32)
    func row(_ first: Int) -> Weights {
        let (a, b, c, d) = (weights[first], weights[first + 1], weights[first + 2], weights[first + 3])
        return (Int32(a), Int32(b), Int32(c), Int32(d))
    }
    @inline(__always) func sum(_ weights: Weights, _ first: Int) -> Int32 {
        weights.0 &* Int32(cells[first]) &+ weights.1 &* Int32(cells[first + 64])
            &+ weights.2 &* Int32(cells[first + 128]) &+ weights.3 &* Int32(cells[first + 192])
    }
    let (r0, r1, r2, r3) = (row(0), row(4), row(8), row(12))
    for lane in 0..<64 {
        phi[lane] = sum(r0, lane) &+ sum(r1, lane + 256) &+ sum(r2, lane + 512) &+ sum(r3, lane + 768)
    }
}

/// The exponent of the tile that the spawn placed, 0 for none.
@inline(__always) private func spawned(_ scratch: KernelScratch, _ lane: Int) -> Lanes {
    var tile = Lanes(0)
    for cell in stride(from: 0, to: 1024, by: 64) {
        tile |= Lanes(scratch.afterstate + cell, lane) ^ Lanes(scratch.after + cell, lane)
    }
    return tile
}

// MARK: - weigh

/// Adds a term to the total. Adding 0.0 makes every zero the positive one.
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

/// Adds a potential, in `phi` and `nextPhi`, in the lanes that played; the second counts as 0 where the episode
/// has terminated.
private func weighPotential(_ term: KernelRewardTerm, _ scratch: KernelScratch) {
    let (phi, nextPhi, gamma) = (scratch.phi, scratch.nextPhi, term.gamma)
    let (played, terminated) = (scratch.played, scratch.terminated)
    for lane in 0..<64 { phi[lane] &= widen(played[lane]) }
    for lane in 0..<64 { nextPhi[lane] &= widen(played[lane] & ~terminated[lane]) }
    weigh(term.weight, scratch) { gamma * Double(nextPhi[$0]) - Double(phi[$0]) }
}

/// Adds a potential that is the sum of rows of bytes, or less than 0 by it; `store` fills them.
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

/// Adds an event's counts, a row of bytes, in the lanes that played.
@inline(__always) private func weighEvent(
    _ term: KernelRewardTerm, _ scratch: KernelScratch, _ events: (_ lane: Int) -> Lanes
) {
    let (part, counts) = (scratch.part, scratch.counts)
    fill(part) { events($0) & Lanes(scratch.played, $0) }
    addRows(part, 1, into: counts)
    weigh(term.weight, scratch) { Double(counts[$0]) }
}

/// One term: its counts or potentials, weighed into `total` and `weighted`.
private func add(_ term: KernelRewardTerm, goalExponent: UInt8, _ scratch: KernelScratch) {
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
        weighPotential(term, scratch, rows: 4, isNegative: true) { smoothness($0, $1, into: part) }
    case .corner:
        weighPotential(term, scratch, rows: 1) { corner($0, $1).store(part, $1) }
    case .cellWeights:
        addWeighted(before, term.cellWeights!, into: phi)
        addWeighted(after, term.cellWeights!, into: nextPhi)
        weighPotential(term, scratch)
    case .tileSum:
        // Merges keep the sum, the spawn adds to it.
        addValues(before, rows: 16, into: phi)
        fill(part) { spawned(scratch, $0) }
        addValues(part, rows: 1, into: nextPhi)
        for lane in 0..<64 { nextPhi[lane] = nextPhi[lane] &+ phi[lane] }
        weighPotential(term, scratch)
    }
}

// MARK: - the operations

extension Kernel {
    /// Writes the declared reward of the step that has just used this scratch memory, and the infos that the
    /// outputs ask for. The step's rules must have said `isReported`.
    public static func report(
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

    /// Slides once more, and keeps of each cell the exponent of the tile that a merge made there.
    private static func writeMerges(_ scratch: KernelScratch, into merges: UnsafeMutableRawPointer) {
        for lane in Lanes.starts {
            let turn = Turn(scratch.action, lane)
            var moved = Lanes(0)
            for number in 0..<4 {
                var line = Line(scratch.before, number, turn, lane)
                var made = line.slide(&moved)
                made.mirror(where: turn.isReversed)
                made.store(scratch.boards + number * 256, lane)
            }
            turn.back(scratch.boards, lane)
        }
        writePlayed(scratch.boards, into: merges, scratch)
    }

    /// Boards, with zeros in the lanes that did not play.
    private static func writePlayed(
        _ cells: Bytes, into boards: UnsafeMutableRawPointer, _ scratch: KernelScratch
    ) {
        for cell in stride(from: 0, to: 1024, by: 64) {
            fill(scratch.boards + cell) { Lanes(cells + cell, $0) & Lanes(scratch.played, $0) }
        }
        writeBoards(scratch.boards, into: boards, scratch)
    }
}

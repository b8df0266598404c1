// What a step did, for 64 boards of 4x4 at once: declared rewards, and the infos that are told on request.
//
// A step leaves in its scratch memory what these passes take up (KernelTrace): the board before it, the
// afterstate, the board after the spawn, the merges, and which lanes played at all. Nobody pays for them
// who does not ask. The manner is that of Kernel.swift: loops over the lanes without a branch, byte work
// and 32-bit work apart. Numbers stay integers until the last loop of a term, which weighs them in Double:
//
//     count of an event                    weight · count
//     potential before, potential after    weight · (gamma · after - before)
//
// The order of every Double operation is that of RewardProgram, so that the bytes are the same.

#if KERNEL_AVX2
public import Kernel2048
#endif

private typealias Doubles = UnsafeMutablePointer<Double>

// MARK: - the trace of a step

/// A step's scratch memory after the step, and the rows behind it that these passes use.
private struct Trace {
    let scratch: UnsafeMutableRawPointer

    @inline(__always)
    func bytes(_ offset: Int) -> Bytes { (scratch + offset).assumingMemoryBound(to: UInt8.self) }

    var before: Bytes { @inline(__always) get { bytes(KernelTrace.before) } }
    var afterstate: Bytes { @inline(__always) get { bytes(KernelTrace.afterstate) } }
    var after: Bytes { @inline(__always) get { bytes(KernelTrace.after) } }
    var merges: Bytes { @inline(__always) get { bytes(KernelTrace.merges) } }
    var action: Bytes { @inline(__always) get { bytes(KernelTrace.action) } }
    var moved: Bytes { @inline(__always) get { bytes(KernelTrace.moved) } }
    var played: Bytes { @inline(__always) get { bytes(KernelTrace.played) } }
    var terminated: Bytes { @inline(__always) get { bytes(KernelTrace.terminated) } }
    var earned: Ints {
        @inline(__always) get { (scratch + KernelTrace.earned).assumingMemoryBound(to: Int32.self) }
    }

    /// Three rows of bytes for what comes between.
    var part: Bytes { @inline(__always) get { bytes(9216) } }
    /// What an event counts; 0 in a lane that did not play.
    var counts: Ints { @inline(__always) get { (scratch + 9472).assumingMemoryBound(to: Int32.self) } }
    /// A potential before the step; 0 in a lane that did not play.
    var phi: Ints { @inline(__always) get { (scratch + 9728).assumingMemoryBound(to: Int32.self) } }
    /// A potential after the step; 0 in a lane that did not play or has terminated.
    var nextPhi: Ints { @inline(__always) get { (scratch + 9984).assumingMemoryBound(to: Int32.self) } }
    /// The value of a term that is no integer.
    var values: Doubles { @inline(__always) get { (scratch + 10_240).assumingMemoryBound(to: Double.self) } }
    /// The sum of the terms so far.
    var total: Doubles { @inline(__always) get { (scratch + 10_752).assumingMemoryBound(to: Double.self) } }
    /// One term of each lane as it is told.
    var told: UnsafeMutablePointer<Float> {
        @inline(__always) get { (scratch + 11_264).assumingMemoryBound(to: Float.self) }
    }
    /// All terms of each lane.
    var toldTerms: UnsafeMutablePointer<Float> {
        @inline(__always) get { (scratch + 16_384).assumingMemoryBound(to: Float.self) }
    }
    /// Whole boards.
    var boards: Bytes { @inline(__always) get { bytes(12_288) } }
    var moreBoards: Bytes { @inline(__always) get { bytes(13_312) } }
    /// What telling boards needs.
    var rest: Bytes { @inline(__always) get { bytes(14_336) } }
}

/// A byte condition as a 32-bit one.
@inline(__always)
private func widened(_ mask: UInt8) -> Int32 { Int32(bitPattern: widen(mask)) }

// MARK: - events: a count for each lane

/// A row of bytes, each counting in the lanes that played.
@inline(__always)
private func count(_ bytes: Bytes, _ played: Bytes, into counts: Ints) {
    for lane in 0..<64 { counts[lane] = Int32(bytes[lane] & played[lane]) }
}

/// Sum of the exponents that merges made: at most eight merges, so a byte holds it.
@inline(__always)
private func mergeExponents(_ merges: Bytes, into sums: Bytes) {
    for lane in 0..<64 {
        var sum = merges[lane] &+ merges[lane + 64] &+ merges[lane + 128] &+ merges[lane + 192]
        sum = sum &+ merges[lane + 256] &+ merges[lane + 320] &+ merges[lane + 384] &+ merges[lane + 448]
        sums[lane] = sum
    }
}

@inline(__always)
private func mergeCounts(_ merges: Bytes, into counts: Bytes) {
    for lane in 0..<64 {
        // Each comparison is -1 or 0 as a signed byte.
        var none = equal(merges[lane], 0) &+ equal(merges[lane + 64], 0) &+ equal(merges[lane + 128], 0)
        none = none &+ equal(merges[lane + 192], 0) &+ equal(merges[lane + 256], 0)
        none = none &+ equal(merges[lane + 320], 0) &+ equal(merges[lane + 384], 0)
        none = none &+ equal(merges[lane + 448], 0)
        counts[lane] = 8 &+ none
    }
}

/// Sum of a table's entries for the tiles made, in the order of the merges; entry 0 is 0. The one loop that
/// is not vector code: each entry is looked up. `made` is scratch memory for eight rows.
@inline(__always)
private func tableSums(
    _ merges: Bytes, _ played: Bytes, _ table: UnsafePointer<Double>, into sums: Doubles, _ made: Bytes
) {
    for lane in 0..<64 {
        let plays = played[lane]
        made[lane] = merges[lane] & plays
        made[lane + 64] = merges[lane + 64] & plays
        made[lane + 128] = merges[lane + 128] & plays
        made[lane + 192] = merges[lane + 192] & plays
        made[lane + 256] = merges[lane + 256] & plays
        made[lane + 320] = merges[lane + 320] & plays
        made[lane + 384] = merges[lane + 384] & plays
        made[lane + 448] = merges[lane + 448] & plays
    }
    for lane in 0..<64 {
        var sum = 0.0 + table[Int(made[lane])]
        sum += table[Int(made[lane + 64])]
        sum += table[Int(made[lane + 128])]
        sum += table[Int(made[lane + 192])]
        sum += table[Int(made[lane + 256])]
        sum += table[Int(made[lane + 320])]
        sum += table[Int(made[lane + 384])]
        sum += table[Int(made[lane + 448])]
        sums[lane] = sum
    }
}

@inline(__always)
private func maxima(_ cells: Bytes, into largest: Bytes) {
    for lane in 0..<64 { largest[lane] = Cells(cells, lane).largest }
}

extension Cells {
    /// The largest exponent.
    @inline(__always)
    fileprivate var largest: UInt8 {
        let top = max(max(max(c0, c1), max(c2, c3)), max(max(c4, c5), max(c6, c7)))
        return max(top, max(max(max(c8, c9), max(c10, c11)), max(max(c12, c13), max(c14, c15))))
    }
}

/// 1 where the first row is below the goal and the second is not.
@inline(__always)
private func rises(_ before: Bytes, _ after: Bytes, to goal: UInt8, into risen: Bytes) {
    for lane in 0..<64 {
        let was = unsafeBitCast(before[lane] >= goal, to: UInt8.self)
        risen[lane] = unsafeBitCast(after[lane] >= goal, to: UInt8.self) & ~was
    }
}

// MARK: - potentials: an integer for each board

/// How many cells are empty.
@inline(__always)
private func emptyCells(_ cells: Bytes, _ part: Bytes, into phi: Ints) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        var empty = equal(board.c0, 0) &+ equal(board.c1, 0) &+ equal(board.c2, 0) &+ equal(board.c3, 0)
        empty = empty &+ equal(board.c4, 0) &+ equal(board.c5, 0) &+ equal(board.c6, 0)
        empty = empty &+ equal(board.c7, 0) &+ equal(board.c8, 0) &+ equal(board.c9, 0)
        empty = empty &+ equal(board.c10, 0) &+ equal(board.c11, 0) &+ equal(board.c12, 0)
        empty = empty &+ equal(board.c13, 0) &+ equal(board.c14, 0) &+ equal(board.c15, 0)
        part[lane] = 0 &- empty
    }
    for lane in 0..<64 { phi[lane] = Int32(part[lane]) }
}

/// How much `to` is above `from`, 0 where it is not.
@inline(__always)
private func rise(_ from: UInt8, _ to: UInt8) -> UInt8 { max(from, to) &- from }

/// What a line lacks of being sorted: the smaller one of its rises and its falls.
@inline(__always)
private func lack(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) -> UInt8 {
    min(rise(a, b) &+ rise(b, c) &+ rise(c, d), rise(b, a) &+ rise(c, b) &+ rise(d, c))
}

@inline(__always)
private func monotonicity(_ cells: Bytes, _ part: Bytes, into phi: Ints) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        // A line lacks at most 46, so a byte holds four of them.
        var rows = lack(board.c0, board.c1, board.c2, board.c3)
        rows = rows &+ lack(board.c4, board.c5, board.c6, board.c7)
        rows = rows &+ lack(board.c8, board.c9, board.c10, board.c11)
        part[lane] = rows &+ lack(board.c12, board.c13, board.c14, board.c15)
        var columns = lack(board.c0, board.c4, board.c8, board.c12)
        columns = columns &+ lack(board.c1, board.c5, board.c9, board.c13)
        columns = columns &+ lack(board.c2, board.c6, board.c10, board.c14)
        part[lane + 64] = columns &+ lack(board.c3, board.c7, board.c11, board.c15)
    }
    for lane in 0..<64 { phi[lane] = 0 &- Int32(part[lane]) &- Int32(part[lane + 64]) }
}

/// How much two neighbours differ, 0 where one of the cells is empty.
@inline(__always)
private func gap(_ a: UInt8, _ b: UInt8) -> UInt8 {
    (max(a, b) &- min(a, b)) & ~equal(min(a, b), 0)
}

@inline(__always)
private func smoothness(_ cells: Bytes, _ part: Bytes, into phi: Ints) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        // A gap is at most 30, so a byte holds eight of them.
        var gaps = gap(board.c0, board.c1) &+ gap(board.c1, board.c2) &+ gap(board.c2, board.c3)
        gaps = gaps &+ gap(board.c4, board.c5) &+ gap(board.c5, board.c6) &+ gap(board.c6, board.c7)
        part[lane] = gaps &+ gap(board.c8, board.c9) &+ gap(board.c9, board.c10)
        gaps = gap(board.c10, board.c11) &+ gap(board.c12, board.c13) &+ gap(board.c13, board.c14)
        gaps = gaps &+ gap(board.c14, board.c15) &+ gap(board.c0, board.c4) &+ gap(board.c4, board.c8)
        part[lane + 64] = gaps &+ gap(board.c8, board.c12) &+ gap(board.c1, board.c5)
        gaps = gap(board.c5, board.c9) &+ gap(board.c9, board.c13) &+ gap(board.c2, board.c6)
        gaps = gaps &+ gap(board.c6, board.c10) &+ gap(board.c10, board.c14) &+ gap(board.c3, board.c7)
        part[lane + 128] = gaps &+ gap(board.c7, board.c11) &+ gap(board.c11, board.c15)
    }
    for lane in 0..<64 {
        phi[lane] = 0 &- Int32(part[lane]) &- Int32(part[lane + 64]) &- Int32(part[lane + 128])
    }
}

@inline(__always)
private func corner(_ cells: Bytes, _ part: Bytes, into phi: Ints) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        let largest = board.largest
        part[lane] = largest & equal(max(max(board.c0, board.c3), max(board.c12, board.c15)), largest)
    }
    for lane in 0..<64 { phi[lane] = Int32(part[lane]) }
}

/// Weights of 16 bits: their products with bytes need no 32-bit multiplication.
@inline(__always)
private func cellWeights(_ cells: Bytes, _ weights: UnsafePointer<Int16>, into phi: Ints) {
    let w0 = Int32(weights[0]), w1 = Int32(weights[1]), w2 = Int32(weights[2]), w3 = Int32(weights[3])
    let w4 = Int32(weights[4]), w5 = Int32(weights[5]), w6 = Int32(weights[6]), w7 = Int32(weights[7])
    let w8 = Int32(weights[8]), w9 = Int32(weights[9]), w10 = Int32(weights[10])
    let w11 = Int32(weights[11]), w12 = Int32(weights[12]), w13 = Int32(weights[13])
    let w14 = Int32(weights[14]), w15 = Int32(weights[15])
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        var sum = w0 &* Int32(board.c0) &+ w1 &* Int32(board.c1) &+ w2 &* Int32(board.c2)
        sum = sum &+ w3 &* Int32(board.c3) &+ w4 &* Int32(board.c4) &+ w5 &* Int32(board.c5)
        sum = sum &+ w6 &* Int32(board.c6) &+ w7 &* Int32(board.c7) &+ w8 &* Int32(board.c8)
        sum = sum &+ w9 &* Int32(board.c9) &+ w10 &* Int32(board.c10) &+ w11 &* Int32(board.c11)
        sum = sum &+ w12 &* Int32(board.c12) &+ w13 &* Int32(board.c13) &+ w14 &* Int32(board.c14)
        phi[lane] = sum &+ w15 &* Int32(board.c15)
    }
}

@inline(__always)
private func tileSums(_ cells: Bytes, into phi: Ints) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        var sum = value(board.c0) &+ value(board.c1) &+ value(board.c2) &+ value(board.c3)
        sum = sum &+ value(board.c4) &+ value(board.c5) &+ value(board.c6) &+ value(board.c7)
        sum = sum &+ value(board.c8) &+ value(board.c9) &+ value(board.c10) &+ value(board.c11)
        phi[lane] = sum &+ value(board.c12) &+ value(board.c13) &+ value(board.c14) &+ value(board.c15)
    }
}

/// A potential's two integers count in the lanes that played, the second not where the episode has
/// terminated.
@inline(__always)
private func close(_ trace: Trace) {
    let (phi, nextPhi, counts) = (trace.phi, trace.nextPhi, trace.counts)
    let (played, terminated) = (trace.played, trace.terminated)
    for lane in 0..<64 { counts[lane] = phi[lane] & widened(played[lane]) }
    for lane in 0..<64 { nextPhi[lane] = nextPhi[lane] & widened(played[lane] & ~terminated[lane]) }
}

// MARK: - the spawn

/// The exponent of the new tile, 0 where none, and one more than its cell.
@inline(__always)
private func findSpawn(_ afterstate: Bytes, _ after: Bytes, into cell: Bytes, exponent: Bytes) {
    for lane in 0..<64 {
        let old = Cells(afterstate, lane)
        let new = Cells(after, lane)
        let d0 = old.c0 ^ new.c0, d1 = old.c1 ^ new.c1, d2 = old.c2 ^ new.c2, d3 = old.c3 ^ new.c3
        let d4 = old.c4 ^ new.c4, d5 = old.c5 ^ new.c5, d6 = old.c6 ^ new.c6, d7 = old.c7 ^ new.c7
        let d8 = old.c8 ^ new.c8, d9 = old.c9 ^ new.c9, d10 = old.c10 ^ new.c10, d11 = old.c11 ^ new.c11
        let d12 = old.c12 ^ new.c12, d13 = old.c13 ^ new.c13, d14 = old.c14 ^ new.c14
        let d15 = old.c15 ^ new.c15
        var place = (~equal(d0, 0) & 1) | (~equal(d1, 0) & 2) | (~equal(d2, 0) & 3) | (~equal(d3, 0) & 4)
        place |= (~equal(d4, 0) & 5) | (~equal(d5, 0) & 6) | (~equal(d6, 0) & 7) | (~equal(d7, 0) & 8)
        place |= (~equal(d8, 0) & 9) | (~equal(d9, 0) & 10) | (~equal(d10, 0) & 11)
        place |= (~equal(d11, 0) & 12) | (~equal(d12, 0) & 13) | (~equal(d13, 0) & 14)
        place |= (~equal(d14, 0) & 15) | (~equal(d15, 0) & 16)
        cell[lane] = place
        exponent[lane] =
            d0 | d1 | d2 | d3 | d4 | d5 | d6 | d7 | d8 | d9 | d10 | d11 | d12 | d13 | d14 | d15
    }
}

// MARK: - weigh

/// Adds a term of counts to the total. Adding 0.0 makes every zero the positive one.
@inline(__always)
private func weigh(counts: Ints, _ weight: Double, into total: Doubles, _ told: UnsafeMutablePointer<Float>) {
    for lane in 0..<64 {
        let weighted = weight * Double(counts[lane]) + 0.0
        total[lane] = total[lane] + weighted
        told[lane] = Float(weighted)
    }
}

@inline(__always)
private func weigh(
    values: Doubles, _ weight: Double, into total: Doubles, _ told: UnsafeMutablePointer<Float>
) {
    for lane in 0..<64 {
        let weighted = weight * values[lane] + 0.0
        total[lane] = total[lane] + weighted
        told[lane] = Float(weighted)
    }
}

@inline(__always)
private func weigh(
    potential phi: Ints, _ nextPhi: Ints, gamma: Double, _ weight: Double, into total: Doubles,
    _ told: UnsafeMutablePointer<Float>
) {
    for lane in 0..<64 {
        let weighted = weight * (gamma * Double(nextPhi[lane]) - Double(phi[lane])) + 0.0
        total[lane] = total[lane] + weighted
        told[lane] = Float(weighted)
    }
}

// MARK: - the operations

/// One term: its counts or potentials, weighed into the total and into `told`.
private func add(_ term: KernelRewardTerm, goalExponent: UInt8, _ trace: Trace) {
    let (part, counts) = (trace.part, trace.counts)
    switch term.kind {
    case .mergeScore:
        // The lanes that did not play have earned nothing.
        return weigh(counts: trace.earned, term.weight, into: trace.total, trace.told)
    case .mergeExponent:
        mergeExponents(trace.merges, into: part)
    case .mergeCount:
        mergeCounts(trace.merges, into: part)
    case .mergeTable:
        tableSums(trace.merges, trace.played, term.table!, into: trace.values, trace.boards)
        return weigh(values: trace.values, term.weight, into: trace.total, trace.told)
    case .newMaxTile:
        maxima(trace.before, into: part + 64)
        maxima(trace.after, into: part + 128)
        for lane in 0..<64 {
            part[lane] = unsafeBitCast(part[lane + 128] > part[lane + 64], to: UInt8.self)
        }
    case .goal:
        maxima(trace.before, into: part + 64)
        maxima(trace.after, into: part + 128)
        rises(part + 64, part + 128, to: goalExponent, into: part)
    case .survival:
        let (moved, terminated) = (trace.moved, trace.terminated)
        for lane in 0..<64 { part[lane] = moved[lane] & ~terminated[lane] & 1 }
    case .illegalAction:
        let moved = trace.moved
        for lane in 0..<64 { part[lane] = ~moved[lane] & 1 }
    case .gameOver:
        let terminated = trace.terminated
        for lane in 0..<64 { part[lane] = terminated[lane] & 1 }
    case .emptyCells:
        emptyCells(trace.before, part, into: trace.phi)
        emptyCells(trace.after, part, into: trace.nextPhi)
        return addPotential(term, trace)
    case .monotonicity:
        monotonicity(trace.before, part, into: trace.phi)
        monotonicity(trace.after, part, into: trace.nextPhi)
        return addPotential(term, trace)
    case .smoothness:
        smoothness(trace.before, part, into: trace.phi)
        smoothness(trace.after, part, into: trace.nextPhi)
        return addPotential(term, trace)
    case .corner:
        corner(trace.before, part, into: trace.phi)
        corner(trace.after, part, into: trace.nextPhi)
        return addPotential(term, trace)
    case .cellWeights:
        cellWeights(trace.before, term.cellWeights!, into: trace.phi)
        cellWeights(trace.after, term.cellWeights!, into: trace.nextPhi)
        return addPotential(term, trace)
    case .tileSum:
        // Merges keep the sum, the spawn adds to it.
        tileSums(trace.before, into: trace.phi)
        findSpawn(trace.afterstate, trace.after, into: part, exponent: part + 64)
        let (phi, nextPhi) = (trace.phi, trace.nextPhi)
        for lane in 0..<64 { nextPhi[lane] = phi[lane] &+ value(part[lane + 64]) }
        return addPotential(term, trace)
    }
    count(part, trace.played, into: counts)
    weigh(counts: counts, term.weight, into: trace.total, trace.told)
}

@inline(__always)
private func addPotential(_ term: KernelRewardTerm, _ trace: Trace) {
    close(trace)
    weigh(
        potential: trace.counts, trace.nextPhi, gamma: term.gamma, term.weight, into: trace.total,
        trace.told)
}

extension Kernel {
    /// Tells the declared reward of the step that has just used this scratch memory, and the infos that
    /// the outputs ask for. `KernelTrace.before` has to hold the cells from before the step.
    public static func report(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, scratch: UnsafeMutableRawPointer
    ) {
        let trace = Trace(scratch: scratch)
        tellReward(program, outputs, trace)
        if let merges = outputs.merges { tellMerges(trace, into: merges) }
        if let afterstates = outputs.afterstates {
            keepPlayed(trace.afterstate, trace.played, into: trace.boards)
            tellBoards(trace.boards, into: afterstates, trace.rest)
        }
        if let chance = outputs.chance { tellChance(trace, into: chance) }
    }

    private static func tellReward(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, _ trace: Trace
    ) {
        let (total, told, played) = (trace.total, trace.told, trace.played)
        let toldTerms = trace.toldTerms
        for lane in 0..<64 { total[lane] = 0 }
        for index in 0..<program.count {
            add(program.terms[index], goalExponent: program.goalExponent, trace)
            if outputs.terms != nil {
                for lane in 0..<64 { toldTerms[lane * program.count + index] = told[lane] }
            }
        }
        outputs.terms?.copyMemory(from: toldTerms, byteCount: 256 * program.count)
        let (scale, low, high) = (program.scale, program.low, program.high)
        for lane in 0..<64 {
            let scaled = total[lane] * scale + 0.0
            told[lane] = Float(scaled < low ? low : scaled > high ? high : scaled)
        }
        let bits = UnsafeMutableRawPointer(told).assumingMemoryBound(to: UInt32.self)
        for lane in 0..<64 { bits[lane] &= widen(played[lane]) }
        outputs.reward.copyMemory(from: told, byteCount: 256)
    }

    /// Slides once more, and keeps of each cell the exponent of the tile that a merge made there.
    private static func tellMerges(_ trace: Trace, into merges: UnsafeMutableRawPointer) {
        let (boards, made) = (trace.boards, trace.moreBoards)
        orient(trace.before, trace.action, into: boards)
        slideRow(boards, into: trace.rest, merges: made, ofEachCell: true)
        slideRow(boards + 256, into: trace.rest, merges: made + 256, ofEachCell: true)
        slideRow(boards + 512, into: trace.rest, merges: made + 512, ofEachCell: true)
        slideRow(boards + 768, into: trace.rest, merges: made + 768, ofEachCell: true)
        let action = trace.action
        for lane in 0..<64 {
            var board = Cells(made, lane)
            board.mirror(where: equal((action[lane] &+ 1) & 2, 2))
            board.transpose(where: equal(action[lane] & 1, 0))
            board.store(boards, lane)
        }
        keepPlayed(boards, trace.played, into: made)
        tellBoards(made, into: merges, trace.rest)
    }

    /// Boards without those of the lanes that did not play.
    @inline(__always)
    private static func keepPlayed(_ cells: Bytes, _ played: Bytes, into kept: Bytes) {
        for cell in 0..<16 {
            for lane in 0..<64 { kept[cell * 64 + lane] = cells[cell * 64 + lane] & played[lane] }
        }
    }

    private static func tellChance(_ trace: Trace, into chance: UnsafeMutableRawPointer) {
        let (part, outcomes) = (trace.part, trace.counts)
        findSpawn(trace.afterstate, trace.after, into: part, exponent: part + 64)
        for lane in 0..<64 {
            outcomes[lane] = Int32(part[lane] &+ (part[lane + 64] & 2) &* 8) &- 1
        }
        chance.copyMemory(from: outcomes, byteCount: 256)
    }
}

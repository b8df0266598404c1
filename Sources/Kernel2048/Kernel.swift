// The rules of 2048 for 64 boards at once. This is the fast path; read it from top to bottom. A board has at
// most four rows and four columns. Sizes.swift has a type for each size, and the compiler specialises the
// operations for each type. Rows, columns and the numbers derived from them are therefore constants.
//
// A block is 64 boards side by side. Byte `cell * 64 + lane` is the exponent in one cell of one lane's board,
// so one vector instruction works on 16 boards (SSE2, NEON) or 32 boards (AVX2). Operations on bytes use
// `Lanes`, one register at a time. Operations on 32-bit numbers are loops over the 64 lanes that LLVM
// vectorises. Such a loop has no branch. It reads one row and writes another, or overwrites the elements that
// it has just read: a store that might change a later load prevents vectorisation.
//
// One step of a block:
//
//     actions ─► slide (turn, slide, turn back) ─► draw ─► place ─► count ─► restart ─► look ─► write
//
// Report.swift computes declared rewards and requested infos from the scratch memory that a step has filled.
//
// The kernel must agree bit for bit with the readable rules (Board, Slide, Spawn, Game2048); tests compare the
// two. All files but Layout.swift and Operations.swift are compiled twice: once for every processor, once for
// AVX2. The AVX2 flags apply to nothing else, so these files must not use another module's generics: their
// specialisations could be shared with code that runs on every processor.

#if KERNEL_AVX2
internal import Kernel2048
#endif

// MARK: - slide: every direction becomes "left"

/// The rotation, for each lane, that turns its action into a slide to the left. Actions are 0 up, 1 right, 2 down,
/// 3 left.
struct Turn {
    /// Whether columns are read as rows.
    let isVertical: Lanes
    /// Whether each line is read backwards.
    let isReversed: Lanes

    init(_ actions: Bytes, _ lane: Int) {
        let action = Lanes(actions, lane)
        isVertical = (action & Lanes(1)).isZero
        isReversed = ((action &+ Lanes(1)) & Lanes(2)) .== Lanes(2)
    }
}

/// Up to four cells of each board, starting at the wall. The cells beyond the end of a shorter line are 0.
struct Line {
    var a = Lanes(0), b = Lanes(0), c = Lanes(0), d = Lanes(0)

    /// Creates a line without cells.
    @inline(__always) init() {}

    /// Reads `length` cells, the first of them at `first`.
    @inline(__always) init(_ first: Bytes, step: Int, length: Int, _ lane: Int) {
        if length > 0 { a = Lanes(first, lane) }
        if length > 1 { b = Lanes(first + step, lane) }
        if length > 2 { c = Lanes(first + 2 * step, lane) }
        if length > 3 { d = Lanes(first + 3 * step, lane) }
    }

    /// Selects the cells of `yes` in lanes where the condition holds, and the cells of `no` elsewhere.
    @inline(__always) static func select(_ condition: Lanes, _ yes: Line, _ no: Line) -> Line {
        var line = Line()
        line.a = .select(condition, yes.a, no.a)
        line.b = .select(condition, yes.b, no.b)
        line.c = .select(condition, yes.c, no.c)
        line.d = .select(condition, yes.d, no.d)
        return line
    }

    /// Reverses the first `length` cells where the condition holds.
    @inline(__always) mutating func mirror(_ length: Int, where condition: Lanes) {
        switch length {
        case 2: Lanes.exchange(&a, &b, where: condition)
        case 3: Lanes.exchange(&a, &c, where: condition)
        default:
            Lanes.exchange(&a, &d, where: condition)
            Lanes.exchange(&b, &c, where: condition)
        }
    }

    /// Writes the first `length` cells to a row of cells.
    @inline(__always) func store(_ first: Bytes, length: Int, _ lane: Int) {
        if length > 0 { a.store(first, lane) }
        if length > 1 { b.store(first + 64, lane) }
        if length > 2 { c.store(first + 128, lane) }
        if length > 3 { d.store(first + 192, lane) }
    }

    /// Counts the empty cells among the first `length`.
    @inline(__always) func countEmpty(length: Int) -> Lanes {
        var empties = Lanes(0) &- a.isZero &- b.isZero
        if length > 2 { empties = empties &- c.isZero }
        if length > 3 { empties = empties &- d.isZero }
        return empties
    }

    /// Slides the line to the wall; `moved` stays 0 where nothing moves. Returns the exponent of each merged
    /// tile in its cell, and 0 in the other cells. At most two cells hold a merged tile: `a`, and one of `b`
    /// and `c`.
    @inline(__always) mutating func slide(_ moved: inout Lanes) -> Line {
        //  push the zeros out      a . c d  ─►  a c d .
        var hole = c.isZero
        moved |= d & hole
        c |= d & hole
        d &= ~hole
        hole = b.isZero
        moved |= c & hole
        b |= c & hole
        c = .select(hole, d, c)
        d &= ~hole
        hole = a.isZero
        moved |= b & hole
        a |= b & hole
        b = .select(hole, c, b)
        c = .select(hole, d, c)
        d &= ~hole

        //  merge in order          2 2 4 .  ─►  4 4 . .   (a condition is -1, so subtracting it adds 1)
        let first = (a .== b) & ~a.isZero
        a = a &- first
        b = .select(first, c, b)
        c = .select(first, d, c)
        d &= ~first
        let second = (b .== c) & ~b.isZero
        b = b &- second
        c = .select(second, d, c)
        d &= ~second
        let third = (c .== d) & ~c.isZero
        c = c &- third
        d &= ~third

        moved |= first | second | third
        var made = self
        (made.a, made.b, made.c, made.d) = (a & first, b & second, c & third, Lanes(0))
        return made
    }
}

extension KernelSize {
    /// Returns a row of the boards, or a line without cells if the boards have fewer rows.
    @inline(__always) static func row(_ cells: Bytes, _ number: Int, _ lane: Int) -> Line {
        Line(cells + number * columns * 64, step: 64, length: number < rows ? columns : 0, lane)
    }

    /// Returns a column of the boards, or a line without cells if the boards have fewer columns.
    @inline(__always) static func column(_ cells: Bytes, _ number: Int, _ lane: Int) -> Line {
        Line(cells + number * 64, step: columns * 64, length: number < columns ? rows : 0, lane)
    }

    /// Returns the line with this number on the rotated boards.
    @inline(__always) static func line(_ cells: Bytes, _ number: Int, _ turn: Turn, _ lane: Int) -> Line {
        var line = Line.select(
            turn.isVertical, column(cells, number, lane), row(cells, number, lane))
        mirror(&line, turn)
        return line
    }

    /// Reverses the line in the lanes that read lines backwards.
    @inline(__always) static func mirror(_ line: inout Line, _ turn: Turn) {
        guard rows != columns else { return line.mirror(rows, where: turn.isReversed) }
        line.mirror(rows, where: turn.isReversed & turn.isVertical)
        line.mirror(columns, where: turn.isReversed & ~turn.isVertical)
    }

    /// Undoes the transposition of four lines where columns were read as rows, and writes the lines to the boards'
    /// rows.
    @inline(__always) static func store(
        _ first: Line, _ second: Line, _ third: Line, _ fourth: Line, _ turn: Turn, into cells: Bytes,
        _ lane: Int
    ) {
        var (first, second, third, fourth) = (first, second, third, fourth)
        Lanes.exchange(&first.b, &second.a, where: turn.isVertical)
        Lanes.exchange(&first.c, &third.a, where: turn.isVertical)
        Lanes.exchange(&first.d, &fourth.a, where: turn.isVertical)
        Lanes.exchange(&second.c, &third.b, where: turn.isVertical)
        Lanes.exchange(&second.d, &fourth.b, where: turn.isVertical)
        Lanes.exchange(&third.d, &fourth.c, where: turn.isVertical)
        first.store(cells, length: columns, lane)
        second.store(cells + columns * 64, length: columns, lane)
        third.store(cells + columns * 128, length: rows > 2 ? columns : 0, lane)
        fourth.store(cells + columns * 192, length: rows > 3 ? columns : 0, lane)
    }

    /// Plays the actions in `scratch.action` up to the afterstate. Fills in `afterstate`, `merges`, `moved`
    /// and `empties`.
    private static func slide(_ cells: Bytes, _ scratch: KernelScratch) {
        for lane in Lanes.starts {
            let turn = Turn(scratch.action, lane)
            // Every line is treated as if it were as long as the longest one. The cells beyond the board
            // count as empty.
            var (moved, empties) = (Lanes(0), Lanes(UInt8(truncatingIfNeeded: cellCount - longest * longest)))
            @inline(__always) func slideLine(_ number: Int) -> Line {
                var line = line(cells, number, turn, lane)
                let made = line.slide(&moved)
                empties = empties &+ line.countEmpty(length: longest)
                mirror(&line, turn)
                let merges = scratch.merges + number * mergesPerLine * 64
                if mergesPerLine == 1 {
                    (made.a | made.b).store(merges, lane)
                } else {
                    made.a.store(merges, lane)
                    (made.b | made.c).store(merges + 64, lane)
                }
                return line
            }
            // This is not a loop, because a loop would hide from LLVM that the turn consists of conditions.
            let (first, second) = (slideLine(0), slideLine(1))
            let third = longest > 2 ? slideLine(2) : Line()
            let fourth = longest > 3 ? slideLine(3) : Line()
            store(first, second, third, fourth, turn, into: scratch.afterstate, lane)
            (~moved.isZero).store(scratch.moved, lane)
            empties.store(scratch.empties, lane)
        }
    }
}

/// Sums the values of each lane's tiles, given as rows of exponents. Exponent 0 means no tile.
func addValues(_ exponents: Bytes, rows: Int, into sums: Ints) {
    for lane in stride(from: 0, to: 64, by: Numbers.scalarCount) {
        var halves = Numbers()
        for row in 0..<rows {
            // The shift is the exponent minus 1, so "no tile" sets bit 31. Doubling the sum then drops that bit.
            let shifts = Numbers(exponents + row * 64, lane, less: 1) & Numbers(repeating: 31)
            halves = halves &+ (Numbers(repeating: 1) &<< shifts)
        }
        UnsafeMutableRawPointer(sums + lane).storeBytes(of: halves &+ halves, as: Numbers.self)
    }
}

// MARK: - draw and place: the new tile

/// Widens a condition (0x00 or 0xff) to 32 bits.
@inline(__always) func widen(_ condition: UInt8) -> Int32 { Int32(Int8(bitPattern: condition)) }

/// Returns a number below `count` from a random word: the upper half of their 64-bit product. `count` is at most
/// 16, so 32-bit arithmetic is enough.
@inline(__always) private func scale(_ word: UInt32, below count: UInt32) -> UInt32 {
    ((word >> 16) &* count &+ (((word & 0xffff) &* count) >> 16)) >> 16
}

@inline(__always)
private func nextWord(_ s0: inout UInt32, _ s1: inout UInt32, _ s2: inout UInt32, _ s3: inout UInt32)
    -> UInt32
{
    let sum = s0 &+ s3
    let result = ((sum &<< 7) | (sum &>> 25)) &+ s0
    let shifted = s1 &<< 9
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 &<< 11) | (s3 &>> 21)
    return result
}

/// Draws a new tile in each lane that moved: its index among the empty cells, and its exponent. In the other
/// lanes the generator does not change, and the exponent is 0. As in SpawnLaw, a tile takes two words of
/// xoshiro128++.
private func draw(_ words: Words, fourThreshold: UInt64, _ scratch: KernelScratch) {
    let (empties, moved) = (scratch.empties, scratch.moved)
    let (place, tile) = (scratch.placeWords, scratch.tileWords)
    let lastFour = UInt32(truncatingIfNeeded: fourThreshold &- 1)
    let anyFour: UInt32 = fourThreshold == 0 ? 0 : 1
    for lane in 0..<64 {
        var (s0, s1, s2, s3) = (words[lane], words[lane + 64], words[lane + 128], words[lane + 192])
        let first = nextWord(&s0, &s1, &s2, &s3)
        let second = nextWord(&s0, &s1, &s2, &s3)
        let chosen = UInt32(bitPattern: widen(moved[lane]))
        words[lane] = (s0 & chosen) | (words[lane] & ~chosen)
        words[lane + 64] = (s1 & chosen) | (words[lane + 64] & ~chosen)
        words[lane + 128] = (s2 & chosen) | (words[lane + 128] & ~chosen)
        words[lane + 192] = (s3 & chosen) | (words[lane + 192] & ~chosen)
        place[lane] = scale(first, below: UInt32(empties[lane]))
        let isFour = UInt32(unsafeBitCast(second <= lastFour, to: UInt8.self)) & anyFour
        tile[lane] = (1 &+ isFour) & chosen
    }
    for lane in 0..<64 {
        scratch.place[lane] = UInt8(truncatingIfNeeded: place[lane])
        scratch.tile[lane] = UInt8(truncatingIfNeeded: tile[lane])
    }
}

extension KernelSize {
    /// Puts the drawn tile, if there is one, into the empty cell with the drawn index.
    private static func place(_ cells: Bytes, into placed: Bytes, _ scratch: KernelScratch) {
        for lane in Lanes.starts {
            // The number of empty cells still to skip: 0 at the chosen cell, negative (0xff …) after it.
            var skip = Lanes(scratch.place, lane)
            let tile = Lanes(scratch.tile, lane)
            for cell in stride(from: 0, to: cellCount * 64, by: 64) {
                let old = Lanes(cells + cell, lane)
                (old | (tile & (old | skip).isZero)).store(placed + cell, lane)
                skip = skip &+ old.isZero
            }
        }
    }
}

// MARK: - restart: a new episode in single lanes

extension KernelSize {
    /// Starts new episodes in the finished lanes. This is the only part that works lane by lane, because few
    /// lanes of a block start at the same time.
    private static func restartFinished(_ block: KernelBlock, _ phases: KernelPhases, rules: KernelRules) {
        for first in stride(from: 0, to: 64, by: 8) {
            // The phases of eight lanes; bit 0 or 1 of a finished lane's phase is set.
            let eight = UnsafeRawPointer(phases).load(fromByteOffset: first, as: UInt64.self)
            var finished = UInt64(littleEndian: eight | eight &>> 1) & 0x0101_0101_0101_0101
            while finished != 0 {
                start(block, lane: first + finished.trailingZeroBitCount / 8, rules: rules)
                finished &= finished &- 1
            }
        }
    }

    static func start(_ block: KernelBlock, lane: Int, rules: KernelRules) {
        let (cells, words) = (block.cells + lane, block.words + lane)
        for cell in 0..<cellCount { cells[cell * 64] = 0 }
        // One bit for each cell that has a tile.
        var tiles: UInt16 = 0
        for placed in 0..<rules.startTiles {
            let first = nextWord(&words[0], &words[64], &words[128], &words[192])
            let second = nextWord(&words[0], &words[64], &words[128], &words[192])
            // The new tile's cell, counted among the empty cells. Each tile at or before it shifts it by one.
            var cell = Int((UInt64(first) &* UInt64(cellCount - placed)) >> 32)
            var rest = tiles
            while rest != 0 {
                cell += rest.trailingZeroBitCount <= cell ? 1 : 0
                rest &= rest &- 1
            }
            tiles |= 1 &<< UInt16(truncatingIfNeeded: cell)
            cells[cell * 64] = UInt64(second) < rules.fourThreshold ? 2 : 1
        }
        block.begin(lane)
    }
}

// MARK: - look: which actions would move something

/// A board's legal directions, each as a condition, and its largest exponent.
private struct View {
    var up = Lanes(0), right = Lanes(0), down = Lanes(0), left = Lanes(0), maxExponent = Lanes(0)

    /// Adds a line's legal directions. Two equal neighbours can merge in either direction; a tile can move into
    /// an empty neighbour.
    @inline(__always) static func look(
        _ line: Line, length: Int, _ towardsFirst: inout Lanes, _ towardsLast: inout Lanes
    ) {
        let (a, b, c, d) = (line.a.isZero, line.b.isZero, line.c.isZero, line.d.isZero)
        // An empty cell counts as 0xff, which no tile has.
        let merges = (line.a .== (line.b | b)) | (line.b .== (line.c | c)) | (line.c .== (line.d | d))
        towardsFirst |= merges | (a & ~b) | (b & ~c) | (c & ~d)
        towardsLast |= merges | (b & ~a)
        if length > 2 { towardsLast |= c & ~b }
        if length > 3 { towardsLast |= d & ~c }
    }

    /// Writes four rows of 0 or 1; all four are 0 where the episode is `closed`.
    @inline(__always) func storeLegal(_ rows: Bytes, _ lane: Int, closed: Lanes) {
        let open = Lanes(1) & ~closed
        (up & open).store(rows, lane)
        (right & open).store(rows + 64, lane)
        (down & open).store(rows + 128, lane)
        (left & open).store(rows + 192, lane)
    }
}

extension KernelSize {
    @inline(__always) private static func view(_ cells: Bytes, _ lane: Int) -> View {
        var view = View()
        for number in 0..<rows {
            let row = row(cells, number, lane)
            View.look(row, length: columns, &view.left, &view.right)
            view.maxExponent = .max(view.maxExponent, .max(.max(row.a, row.b), .max(row.c, row.d)))
        }
        for number in 0..<columns {
            View.look(column(cells, number, lane), length: rows, &view.up, &view.down)
        }
        return view
    }
}

// MARK: - write: from rows of lanes to the arrays of a reply

@inline(__always) private func copy(_ from: UnsafeRawPointer, to: UnsafeMutableRawPointer, _ bytes: Int) {
    to.copyMemory(from: from, byteCount: bytes)
}

/// Interleaves the four quarters of `from`: byte i of quarter k goes to 4 i + k.
@inline(__always)
private func interleave(_ from: Bytes, into to: Bytes, quarter: Int, _ scratch: KernelScratch) {
    #if KERNEL_AVX2
    for index in 0..<quarter {
        to[4 * index] = from[index]
        to[4 * index + 1] = from[quarter + index]
        to[4 * index + 2] = from[2 * quarter + index]
        to[4 * index + 3] = from[3 * quarter + index]
    }
    #else
    // LLVM would not vectorise that loop here. Interleaving halves twice gives the same result.
    interleave(from, into: scratch.halfShuffled, half: 2 * quarter)
    interleave(scratch.halfShuffled, into: to, half: 2 * quarter)
    #endif
}

/// Interleaves the two halves of `from`: byte i of half k goes to 2 i + k.
@inline(__always)
private func interleave(_ from: Bytes, into to: Bytes, half: Int) {
    for index in 0..<half { (to[2 * index], to[2 * index + 1]) = (from[index], from[half + index]) }
}

extension KernelSize {
    /// Transposes `width` rows of 64 lanes into 64 rows of `width` cells. Interleaving quarters rotates the bits
    /// of the index (cell, lane) by two; interleaving halves rotates them by one. The final index is (lane, cell).
    private static func transpose(_ cells: Bytes, into boards: Bytes, _ scratch: KernelScratch) {
        switch width {
        case 4: interleave(cells, into: boards, quarter: 64, scratch)
        case 8:
            interleave(cells, into: scratch.shuffled, quarter: 128, scratch)
            interleave(scratch.shuffled, into: boards, half: 256)
        default:
            interleave(cells, into: scratch.shuffled, quarter: 256, scratch)
            interleave(scratch.shuffled, into: boards, quarter: 256, scratch)
        }
    }

    /// Transposes `cellCount` rows of 64 lanes into 64 boards.
    static func writeBoards(
        _ cells: Bytes, into boards: UnsafeMutableRawPointer, _ scratch: KernelScratch
    ) {
        if cellCount == width {
            return transpose(cells, into: boards.assumingMemoryBound(to: UInt8.self), scratch)
        }
        // The rows after the last cell hold arbitrary bytes. Each board is written with that many extra bytes, and the
        // next board overwrites them.
        transpose(cells, into: scratch.wide, scratch)
        for lane in 0..<63 { copy(scratch.wide + lane * width, to: boards + lane * cellCount, width) }
        copy(scratch.wide + 63 * width, to: boards + 63 * cellCount, cellCount)
    }
}

/// Transposes the four rows of `scratch.legal` into 64 rows of four.
private func writeLegal(_ scratch: KernelScratch, into mask: UnsafeMutableRawPointer) {
    interleave(scratch.legal, into: mask.assumingMemoryBound(to: UInt8.self), quarter: 64, scratch)
}

/// Writes, for one register of lanes, the results that steps and resets share.
@inline(__always) private func write(
    _ view: View, closed: Lanes, goalExponent: UInt8, _ outputs: KernelOutputs, _ scratch: KernelScratch,
    _ lane: Int
) {
    view.storeLegal(scratch.legal, lane, closed: closed)
    view.maxExponent.store(outputs.maxExponent, lane)
    ((view.maxExponent .>= Lanes(goalExponent)) & Lanes(1)).store(outputs.goalReached, lane)
}

/// Writes the results that steps and resets share, except the observation.
private func write(_ block: KernelBlock, _ outputs: KernelOutputs, _ scratch: KernelScratch) {
    writeLegal(scratch, into: outputs.actionMask)
    outputs.score.copyMemory(from: block.score, byteCount: 256)
    outputs.episodeLength.copyMemory(from: block.length, byteCount: 256)
    outputs.moves.copyMemory(from: block.moves, byteCount: 256)
}

private func writeRewards(_ earned: Ints, into rewards: UnsafeMutableRawPointer, _ scratch: KernelScratch) {
    let values = scratch.rewards
    for lane in 0..<64 { values[lane] = Float(earned[lane]) }
    rewards.copyMemory(from: values, byteCount: 256)
}

// MARK: - count: the episode

/// Updates the episodes' step and move counts. An illegal action counts as a step but not as a move.
private func count(_ block: KernelBlock, limit: Int32, _ scratch: KernelScratch) {
    let (score, length, moves, earned) = (block.score, block.length, block.moves, scratch.earned)
    let (played, moved, isLast) = (scratch.played, scratch.moved, scratch.isLast)
    for lane in 0..<64 {
        let plays = widen(played[lane])
        let reward = earned[lane] & plays
        earned[lane] = reward
        // Both numbers are at least 0, so a negative sum has overflowed and becomes the largest number.
        let sum = score[lane] &+ reward
        score[lane] = (sum | (sum >> 31)) & .max
        length[lane] = length[lane] &- plays
        moves[lane] = moves[lane] &- widen(moved[lane])
    }
    for lane in 0..<64 { isLast[lane] = 0 &- unsafeBitCast(length[lane] >= limit, to: UInt8.self) }
}

// MARK: - the operations

extension KernelSize {
    static func step(
        _ block: KernelBlock, actions: UnsafeRawPointer, phases: KernelPhases, rules: KernelRules,
        _ outputs: KernelOutputs, _ stepOutputs: KernelStepOutputs, scratch: KernelScratch
    ) {
        if rules.isReported { copy(block.cells, to: scratch.before, cellCount * 64) }
        copy(actions, to: scratch.action, 64)

        // The move and the new tile.
        slide(block.cells, scratch)
        var finished: UInt8 = 0
        for lane in 0..<64 { finished |= phases[lane] }
        let anyFinished = finished != KernelPhase.playing
        for lane in Lanes.starts {
            let playing = Lanes(phases, lane) .== Lanes(KernelPhase.playing)
            playing.store(scratch.played, lane)
            (Lanes(scratch.moved, lane) & playing).store(scratch.moved, lane)
        }
        draw(block.words, fourThreshold: rules.fourThreshold, scratch)
        addValues(scratch.merges, rows: mergeRows, into: scratch.earned)
        if anyFinished, rules.holdsFinished { hold(block.cells, scratch) }
        place(scratch.afterstate, into: block.cells, scratch)
        if rules.isReported { copy(block.cells, to: scratch.after, cellCount * 64) }
        count(block, limit: rules.maxEpisodeSteps, scratch)
        if anyFinished, !rules.holdsFinished { restartFinished(block, phases, rules: rules) }

        // The end, and the reply.
        let stopsAtGoal = Lanes(rules.stopAtGoal ? 0xff : 0)
        let illegalEnds = Lanes(rules.illegalTerminates ? 0xff : 0)
        let holds = Lanes(rules.holdsFinished ? 0xff : 0)
        for lane in Lanes.starts {
            let view = view(block.cells, lane)
            let playing = Lanes(scratch.played, lane)
            let stuck = (view.up | view.right | view.down | view.left).isZero
            let goal = (view.maxExponent .>= Lanes(rules.goalExponent)) & stopsAtGoal
            let illegal = ~Lanes(scratch.moved, lane) & illegalEnds
            let terminated = (stuck | goal | illegal) & playing
            let truncated = Lanes(scratch.isLast, lane) & playing
            terminated.store(scratch.terminated, lane)
            (terminated & Lanes(1)).store(stepOutputs.terminated, lane)
            (truncated & Lanes(1)).store(stepOutputs.truncated, lane)
            // A waiting lane may have terminated in an earlier step.
            let closed = terminated | ((Lanes(phases, lane) .== Lanes(KernelPhase.terminated)) & holds)
            write(view, closed: closed, goalExponent: rules.goalExponent, outputs, scratch, lane)
        }
        writeRewards(scratch.earned, into: stepOutputs.reward, scratch)
        write(block, outputs, scratch)
        writeBoards(block.cells, into: outputs.observation, scratch)
    }

    /// Leaves the boards of waiting lanes unchanged.
    private static func hold(_ cells: Bytes, _ scratch: KernelScratch) {
        for cell in stride(from: 0, to: cellCount * 64, by: 64) {
            for lane in Lanes.starts {
                let after = Lanes(scratch.afterstate + cell, lane)
                Lanes.select(Lanes(scratch.played, lane), after, Lanes(cells + cell, lane))
                    .store(scratch.afterstate + cell, lane)
            }
        }
    }

    static func observe(
        _ block: KernelBlock, phases: KernelPhases, rules: KernelRules, _ outputs: KernelOutputs,
        scratch: KernelScratch
    ) {
        for lane in Lanes.starts {
            let closed = Lanes(phases, lane) .== Lanes(KernelPhase.terminated)
            write(
                view(block.cells, lane), closed: closed, goalExponent: rules.goalExponent, outputs, scratch,
                lane)
        }
        write(block, outputs, scratch)
        writeBoards(block.cells, into: outputs.observation, scratch)
    }

    static func afterstates(
        _ block: KernelBlock, phases: KernelPhases?, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: KernelScratch
    ) {
        let (scores, values) = (scratch.scores, scratch.rewards)
        for direction in 0..<4 {
            for lane in Lanes.starts { Lanes(UInt8(direction)).store(scratch.action, lane) }
            slide(block.cells, scratch)
            addValues(scratch.merges, rows: mergeRows, into: scores + direction * 64)
            for lane in Lanes.starts {
                var closed = Lanes(0)
                if let phases { closed = Lanes(phases, lane) .== Lanes(KernelPhase.terminated) }
                (Lanes(scratch.moved, lane) & Lanes(1) & ~closed).store(scratch.legal + direction * 64, lane)
            }
            transpose(scratch.afterstate, into: scratch.boards, scratch)
            for lane in 0..<64 {
                copy(
                    scratch.boards + lane * width, to: boards + (lane * 4 + direction) * cellCount, cellCount)
            }
        }
        writeLegal(scratch, into: mask)
        for lane in 0..<64 {
            values[4 * lane] = Float(scores[lane])
            values[4 * lane + 1] = Float(scores[lane + 64])
            values[4 * lane + 2] = Float(scores[lane + 128])
            values[4 * lane + 3] = Float(scores[lane + 192])
        }
        copy(values, to: rewards, 1024)
    }
}

// MARK: - the rules alone: arbitrary boards, no episode

extension KernelSize {
    static func load(_ boards: UnsafeRawPointer, into block: KernelBlock, scratch: KernelScratch) {
        let cells = block.cells
        for lane in 0..<64 { copy(boards + lane * cellCount, to: cells + lane * width, cellCount) }
        // Rotates the index (lane, cell) by six bits. Within the scratch memory, LLVM would not vectorise the loops, so
        // each of them goes from the block to the scratch memory or back.
        interleave(cells, into: scratch.shuffled, quarter: width * 16, scratch)
        interleave(scratch.shuffled, into: cells, quarter: width * 16, scratch)
        interleave(cells, into: scratch.shuffled, quarter: width * 16, scratch)
        copy(scratch.shuffled, to: cells, width * 64)
    }

    static func move(
        _ block: KernelBlock, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: KernelScratch
    ) {
        copy(actions, to: scratch.action, 64)
        slide(block.cells, scratch)
        addValues(scratch.merges, rows: mergeRows, into: scratch.earned)
        writeBoards(scratch.afterstate, into: boards, scratch)
        writeRewards(scratch.earned, into: rewards, scratch)
        for lane in Lanes.starts { (Lanes(scratch.moved, lane) & Lanes(1)).store(legal, lane) }
    }

    static func legal(_ block: KernelBlock, mask: UnsafeMutableRawPointer, scratch: KernelScratch) {
        for lane in Lanes.starts {
            view(block.cells, lane).storeLegal(scratch.legal, lane, closed: Lanes(0))
        }
        writeLegal(scratch, into: mask)
    }

    static func spawn(
        _ block: KernelBlock, fourThreshold: UInt64, boards: UnsafeMutableRawPointer,
        outcomes: UnsafeMutableRawPointer, scratch: KernelScratch
    ) {
        for lane in Lanes.starts {
            let empties = countEmpty(block.cells, lane)
            empties.store(scratch.empties, lane)
            (~empties.isZero).store(scratch.moved, lane)
        }
        draw(block.words, fourThreshold: fourThreshold, scratch)
        place(block.cells, into: scratch.after, scratch)
        writeBoards(scratch.after, into: boards, scratch)
        writeOutcomes(block.cells, scratch.after, into: outcomes, scratch)
    }
}

extension KernelSize {
    /// Counts the empty cells.
    @inline(__always) static func countEmpty(_ cells: Bytes, _ lane: Int) -> Lanes {
        var empties = Lanes(0)
        for cell in 0..<cellCount { empties = empties &- Lanes(cells + cell * 64, lane).isZero }
        return empties
    }

    /// Writes the tile that is in `after` but not in `before`, as int32 [64]: `cell` for a 2, `cellCount + cell` for
    /// a 4, and -1 if there is none.
    static func writeOutcomes(
        _ before: Bytes, _ after: Bytes, into outcomes: UnsafeMutableRawPointer, _ scratch: KernelScratch
    ) {
        let (part, numbers) = (scratch.part, scratch.counts)
        for lane in Lanes.starts {
            // One more than the outcome, so that 0 means no tile.
            var outcome = Lanes(0)
            for cell in 0..<cellCount {
                let tile = Lanes(before + cell * 64, lane) ^ Lanes(after + cell * 64, lane)
                outcome |= Lanes(UInt8(truncatingIfNeeded: cell + 1)) & ~tile.isZero
                outcome = outcome &+ (Lanes(UInt8(truncatingIfNeeded: cellCount)) & (tile .== Lanes(2)))
            }
            outcome.store(part, lane)
        }
        for lane in 0..<64 { numbers[lane] = Int32(part[lane]) &- 1 }
        outcomes.copyMemory(from: numbers, byteCount: 256)
    }
}

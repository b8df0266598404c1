// The rules of 2048 for 64 boards of 4x4 at once: the fast path, to be read from top to bottom.
//
// A block is 64 boards side by side: byte `cell * 64 + lane` is the exponent in a cell of a lane's board, so
// that one vector instruction does the same to 16 (SSE2, NEON) or 32 (AVX2) boards. Work on bytes is written
// with `Lanes`, a register at a time. Work on 32-bit numbers is in loops over the 64 lanes that LLVM turns into
// vector code. Such a loop has no branch, and it reads one row and writes another, or the very elements that
// it has read: a store that might change a later load stops the vectoriser.
//
// One step of a block:
//
//     actions ─► slide (turn, slide, turn back) ─► draw ─► place ─► count ─► restart ─► look ─► write
//
// A declared reward and the infos on request come from Report.swift, which reads what a step leaves in its
// scratch memory.
//
// The kernel has to agree bit by bit with the readable rules (Board, Slide, Spawn, Game2048), and tests hold
// the two together. All files but Layout.swift are compiled twice, for every processor and for AVX2; the flags
// apply to nothing else, so they must not use anything generic of other modules that could be shared.

#if KERNEL_AVX2
public import Kernel2048
#endif

// MARK: - slide: every direction becomes "left"

/// How the boards turn so that each lane's action becomes "left": 0 up, 1 right, 2 down, 3 left.
struct Turn {
    /// Columns are read as rows.
    let isVertical: Lanes
    /// Each line is read backwards.
    let isReversed: Lanes

    init(_ actions: Bytes, _ lane: Int) {
        let action = Lanes(actions, lane)
        isVertical = (action & Lanes(1)).isZero
        isReversed = ((action &+ Lanes(1)) & Lanes(2)) .== Lanes(2)
    }

    /// Puts the cells of boards whose columns were read as rows where they belong.
    @inline(__always) func back(_ cells: Bytes, _ lane: Int) {
        for row in 0..<3 {
            for column in row + 1..<4 {
                let (upper, lower) = (cells + (row * 4 + column) * 64, cells + (column * 4 + row) * 64)
                var (first, second) = (Lanes(upper, lane), Lanes(lower, lane))
                Lanes.exchange(&first, &second, where: isVertical)
                first.store(upper, lane)
                second.store(lower, lane)
            }
        }
    }
}

/// Four cells of each board, from the wall on.
struct Line {
    var a, b, c, d: Lanes

    /// A row of cells from `first` on, or a column.
    @inline(__always) init(_ first: Bytes, step: Int, _ lane: Int) {
        (a, b) = (Lanes(first, lane), Lanes(first + step, lane))
        (c, d) = (Lanes(first + 2 * step, lane), Lanes(first + 3 * step, lane))
    }

    /// The line with this number, 0 ... 3, of the boards as they turn.
    @inline(__always) init(_ cells: Bytes, _ number: Int, _ turn: Turn, _ lane: Int) {
        self.init(cells + number * 256, step: 64, lane)
        let column = Line(cells + number * 64, step: 256, lane)
        a = .select(turn.isVertical, column.a, a)
        b = .select(turn.isVertical, column.b, b)
        c = .select(turn.isVertical, column.c, c)
        d = .select(turn.isVertical, column.d, d)
        mirror(where: turn.isReversed)
    }

    @inline(__always) mutating func mirror(where condition: Lanes) {
        Lanes.exchange(&a, &d, where: condition)
        Lanes.exchange(&b, &c, where: condition)
    }

    /// To a row of cells.
    @inline(__always) func store(_ first: Bytes, _ lane: Int) {
        a.store(first, lane)
        b.store(first + 64, lane)
        c.store(first + 128, lane)
        d.store(first + 192, lane)
    }

    /// Slides the line to the wall; `moved` stays 0 where nothing moves. Returns the exponents of the tiles that
    /// merges made, each in its cell, 0 elsewhere: at most two, the first pair's and one of the other two.
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

/// Plays the lanes' actions in `scratch.action` as far as the afterstate; fills in `afterstate`, `merges`,
/// `moved` and `empties`.
private func slide(_ cells: Bytes, _ scratch: KernelScratch) {
    for lane in Lanes.starts {
        let turn = Turn(scratch.action, lane)
        var (moved, empties) = (Lanes(0), Lanes(0))
        @inline(__always) func slideLine(_ number: Int) {
            var line = Line(cells, number, turn, lane)
            let made = line.slide(&moved)
            empties = empties &- line.a.isZero &- line.b.isZero &- line.c.isZero &- line.d.isZero
            line.mirror(where: turn.isReversed)
            line.store(scratch.afterstate + number * 256, lane)
            made.a.store(scratch.merges + number * 128, lane)
            (made.b | made.c).store(scratch.merges + number * 128 + 64, lane)
        }
        // Not a loop, which would hide from LLVM that the turn is made of conditions.
        slideLine(0)
        slideLine(1)
        slideLine(2)
        slideLine(3)
        turn.back(scratch.afterstate, lane)
        (~moved.isZero).store(scratch.moved, lane)
        empties.store(scratch.empties, lane)
    }
}

/// Sums of the values of the tiles with these exponents; 0 stands for no tile.
func addValues(_ exponents: Bytes, rows: Int, into sums: Ints) {
    for lane in stride(from: 0, to: 64, by: Numbers.scalarCount) {
        var halves = Numbers()
        for row in 0..<rows {
            // One less, so that no tile is bit 31, which doubling the sum drops.
            let shifts = Numbers(exponents + row * 64, lane, less: 1) & Numbers(repeating: 31)
            halves = halves &+ (Numbers(repeating: 1) &<< shifts)
        }
        UnsafeMutableRawPointer(sums + lane).storeBytes(of: halves &+ halves, as: Numbers.self)
    }
}

// MARK: - draw and place: the new tile

/// A 32-bit condition of a byte's.
@inline(__always) func widen(_ condition: UInt8) -> Int32 { Int32(Int8(bitPattern: condition)) }

/// Draws a number below `count`, at most 16: the upper half of the product with a word, in 32 bits.
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

/// Draws the new tile's place among the empty cells and its exponent in the lanes that moved; the other
/// generators stay as they are, and the exponent is 0. The recipe of SpawnLaw: two words, xoshiro128++.
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

/// Puts the drawn tile, where there is one, into the empty cell with the drawn number.
private func place(_ cells: Bytes, into placed: Bytes, _ scratch: KernelScratch) {
    for lane in Lanes.starts {
        // The empty cells still to pass: 0 at the one that is meant, below 0 (0xff …) behind it.
        var skip = Lanes(scratch.place, lane)
        let tile = Lanes(scratch.tile, lane)
        for cell in stride(from: 0, to: 1024, by: 64) {
            let old = Lanes(cells + cell, lane)
            (old | (tile & (old | skip).isZero)).store(placed + cell, lane)
            skip = skip &+ old.isZero
        }
    }
}

// MARK: - restart: a new episode in single lanes

/// Starts the new episodes of the lanes that have finished: the one part that goes lane by lane, since few
/// lanes of a block start at a time.
private func restartFinished(_ block: KernelBlock, rules: KernelRules) {
    for first in stride(from: 0, to: 64, by: 8) {
        // Eight lanes' phases, of which a finished one has bit 7.
        let eight = UnsafeRawPointer(block.phase).load(fromByteOffset: first, as: UInt64.self)
        var finished = UInt64(littleEndian: eight) & 0x8080_8080_8080_8080
        while finished != 0 {
            Kernel.start(block, lane: first + finished.trailingZeroBitCount / 8, rules: rules)
            finished &= finished &- 1
        }
    }
}

extension Kernel {
    /// Starts a new episode in one lane by drawing its start tiles.
    public static func start(_ block: KernelBlock, lane: Int, rules: KernelRules) {
        let (cells, words) = (block.cells + lane, block.words + lane)
        for cell in 0..<16 { cells[cell * 64] = 0 }
        // A bit for each cell that has a tile.
        var tiles: UInt16 = 0
        for placed in 0..<rules.startTiles {
            let first = nextWord(&words[0], &words[64], &words[128], &words[192])
            let second = nextWord(&words[0], &words[64], &words[128], &words[192])
            // The cell that so many empty ones are before: tiles that are not behind it push it on.
            var cell = Int((UInt64(first) &* UInt64(16 - placed)) >> 32)
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

/// What a board shows: a condition for each action that would move something, and the largest exponent.
private struct View {
    var up = Lanes(0), right = Lanes(0), down = Lanes(0), left = Lanes(0), maxExponent = Lanes(0)

    @inline(__always) init(_ cells: Bytes, _ lane: Int) {
        for line in 0..<4 {
            let (row, column) = (
                Line(cells + line * 256, step: 64, lane), Line(cells + line * 64, step: 256, lane)
            )
            Self.look(row, &left, &right)
            Self.look(column, &up, &down)
            maxExponent = .max(maxExponent, .max(.max(row.a, row.b), .max(row.c, row.d)))
        }
    }

    /// Two tiles that are equal can merge both ways; a tile can move into an empty neighbour.
    @inline(__always) private static func look(
        _ line: Line, _ towardsFirst: inout Lanes, _ towardsLast: inout Lanes
    ) {
        let (a, b, c, d) = (line.a.isZero, line.b.isZero, line.c.isZero, line.d.isZero)
        // An empty cell is made 0xff, which no tile is.
        let merges = (line.a .== (line.b | b)) | (line.b .== (line.c | c)) | (line.c .== (line.d | d))
        towardsFirst |= merges | (a & ~b) | (b & ~c) | (c & ~d)
        towardsLast |= merges | (b & ~a) | (c & ~b) | (d & ~c)
    }

    /// Four rows of 0 or 1; all 0 where the episode is `closed`.
    @inline(__always) func storeLegal(_ rows: Bytes, _ lane: Int, closed: Lanes) {
        let open = Lanes(1) & ~closed
        (up & open).store(rows, lane)
        (right & open).store(rows + 64, lane)
        (down & open).store(rows + 128, lane)
        (left & open).store(rows + 192, lane)
    }
}

// MARK: - write: from rows of lanes to the arrays of a reply

/// Interleaves the four quarters of `from`: byte i of the k-th goes to 4 i + k.
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
    // That loop would not be vector code; the halves interleaved, twice, is the same.
    let (half, once) = (2 * quarter, scratch.halfShuffled)
    for index in 0..<half { (once[2 * index], once[2 * index + 1]) = (from[index], from[half + index]) }
    for index in 0..<half { (to[2 * index], to[2 * index + 1]) = (once[index], once[half + index]) }
    #endif
}

/// 16 rows of 64 lanes become 64 rows of 16 cells: to interleave is to rotate the 10 bits of the index
/// (cell, lane) by two, and twice makes it (lane, cell).
func writeBoards(_ cells: Bytes, into boards: UnsafeMutableRawPointer, _ scratch: KernelScratch) {
    interleave(cells, into: scratch.shuffled, quarter: 256, scratch)
    interleave(scratch.shuffled, into: boards.assumingMemoryBound(to: UInt8.self), quarter: 256, scratch)
}

/// The four rows of `scratch.legal` become 64 rows of four.
private func writeLegal(_ scratch: KernelScratch, into mask: UnsafeMutableRawPointer) {
    interleave(scratch.legal, into: mask.assumingMemoryBound(to: UInt8.self), quarter: 64, scratch)
}

/// What both a step and a reset report of a view, for a register of lanes.
@inline(__always) private func write(
    _ view: View, _ block: KernelBlock, goalExponent: UInt8, _ outputs: KernelOutputs,
    _ scratch: KernelScratch, _ lane: Int
) {
    // The lane may have terminated long ago.
    let closed = Lanes(block.phase, lane) .== Lanes(KernelPhase.terminated)
    view.storeLegal(scratch.legal, lane, closed: closed)
    view.maxExponent.store(outputs.maxExponent, lane)
    ((view.maxExponent .>= Lanes(goalExponent)) & Lanes(1)).store(outputs.goalReached, lane)
}

/// The rest of what both report.
private func write(_ block: KernelBlock, _ outputs: KernelOutputs, _ scratch: KernelScratch) {
    writeBoards(block.cells, into: outputs.observation, scratch)
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

// MARK: - the operations

/// The kernel, as it was compiled in this module.
public enum Kernel {
    /// Plays one action (0 ... 3) on each board of a block, or starts the new episode of a lane that is
    /// finished (or lets it wait), and writes the result. `actions` are 64 bytes.
    public static func step(
        _ block: KernelBlock, actions: UnsafeRawPointer, rules: KernelRules,
        _ outputs: KernelOutputs, _ stepOutputs: KernelStepOutputs, scratch: KernelScratch
    ) {
        if rules.isReported { copy(block.cells, to: scratch.before, 1024) }
        copy(actions, to: scratch.action, 64)

        // The move and the new tile.
        slide(block.cells, scratch)
        var finished: UInt8 = 0
        for lane in 0..<64 { finished |= block.phase[lane] }
        let anyFinished = finished & 0x80 != 0
        for lane in Lanes.starts {
            let playing = Lanes(block.phase, lane) .== Lanes(KernelPhase.playing)
            playing.store(scratch.played, lane)
            (Lanes(scratch.moved, lane) & playing).store(scratch.moved, lane)
        }
        draw(block.words, fourThreshold: rules.fourThreshold, scratch)
        addValues(scratch.merges, rows: 8, into: scratch.earned)
        if anyFinished, rules.holdsFinished { hold(block.cells, scratch) }
        place(scratch.afterstate, into: block.cells, scratch)
        if rules.isReported { copy(block.cells, to: scratch.after, 1024) }
        count(block, limit: rules.maxEpisodeSteps, scratch)
        if anyFinished, !rules.holdsFinished { restartFinished(block, rules: rules) }

        // The end, and the reply.
        let stopsAtGoal = Lanes(rules.stopAtGoal ? 0xff : 0)
        let illegalEnds = Lanes(rules.illegalTerminates ? 0xff : 0)
        let restarts = Lanes(rules.holdsFinished ? 0 : 0xff)
        for lane in Lanes.starts {
            let view = View(block.cells, lane)
            let playing = Lanes(scratch.played, lane)
            let stuck = (view.up | view.right | view.down | view.left).isZero
            let goal = (view.maxExponent .>= Lanes(rules.goalExponent)) & stopsAtGoal
            let illegal = ~Lanes(scratch.moved, lane) & illegalEnds
            let terminated = (stuck | goal | illegal) & playing
            let truncated = Lanes(scratch.isLast, lane) & playing
            let cut = Lanes.select(truncated, Lanes(KernelPhase.truncated), Lanes(KernelPhase.playing))
            let now = Lanes.select(terminated, Lanes(KernelPhase.terminated), cut)
            Lanes.select(playing | restarts, now, Lanes(block.phase, lane)).store(block.phase, lane)
            terminated.store(scratch.terminated, lane)
            (terminated & Lanes(1)).store(stepOutputs.terminated, lane)
            (truncated & Lanes(1)).store(stepOutputs.truncated, lane)
            write(view, block, goalExponent: rules.goalExponent, outputs, scratch, lane)
        }
        writeRewards(scratch.earned, into: stepOutputs.reward, scratch)
        write(block, outputs, scratch)
    }

    /// A board that waits for its reset stays as it is.
    private static func hold(_ cells: Bytes, _ scratch: KernelScratch) {
        for cell in stride(from: 0, to: 1024, by: 64) {
            for lane in Lanes.starts {
                let after = Lanes(scratch.afterstate + cell, lane)
                Lanes.select(Lanes(scratch.played, lane), after, Lanes(cells + cell, lane))
                    .store(scratch.afterstate + cell, lane)
            }
        }
    }

    /// The counts of the episode; an illegal action counts as a step, not as a move.
    private static func count(_ block: KernelBlock, limit: Int32, _ scratch: KernelScratch) {
        let (score, length, moves, earned) = (block.score, block.length, block.moves, scratch.earned)
        let (played, moved, isLast) = (scratch.played, scratch.moved, scratch.isLast)
        for lane in 0..<64 {
            let plays = widen(played[lane])
            let reward = earned[lane] & plays
            earned[lane] = reward
            // Both are at least 0: a negative sum is too large, and becomes the largest number.
            let sum = score[lane] &+ reward
            score[lane] = (sum | (sum >> 31)) & .max
            length[lane] = length[lane] &- plays
            moves[lane] = moves[lane] &- widen(moved[lane])
        }
        for lane in 0..<64 { isLast[lane] = 0 &- unsafeBitCast(length[lane] >= limit, to: UInt8.self) }
    }

    private static func copy(_ from: UnsafeRawPointer, to: UnsafeMutableRawPointer, _ bytes: Int) {
        to.copyMemory(from: from, byteCount: bytes)
    }

    /// Writes the state of a block.
    public static func observe(
        _ block: KernelBlock, rules: KernelRules, _ outputs: KernelOutputs, scratch: KernelScratch
    ) {
        for lane in Lanes.starts {
            write(View(block.cells, lane), block, goalExponent: rules.goalExponent, outputs, scratch, lane)
        }
        write(block, outputs, scratch)
    }

    /// Writes what each action would make of each board of a block before the spawn: boards uint8
    /// [64, 4, 16], rewards float32 [64, 4], mask int8 [64, 4].
    public static func afterstates(
        _ block: KernelBlock, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: KernelScratch
    ) {
        let (scores, values) = (scratch.scores, scratch.rewards)
        for direction in 0..<4 {
            for lane in Lanes.starts { Lanes(UInt8(direction)).store(scratch.action, lane) }
            slide(block.cells, scratch)
            addValues(scratch.merges, rows: 8, into: scores + direction * 64)
            for lane in Lanes.starts {
                let open = Lanes(1) & ~(Lanes(block.phase, lane) .== Lanes(KernelPhase.terminated))
                (Lanes(scratch.moved, lane) & open).store(scratch.legal + direction * 64, lane)
            }
            writeBoards(scratch.afterstate, into: scratch.boards, scratch)
            for lane in 0..<64 {
                copy(scratch.boards + lane * 16, to: boards + lane * 64 + direction * 16, 16)
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

extension Kernel {
    /// Fills the cells of a block from 64 boards of 16 exponents each; nothing is assumed of their alignment.
    public static func load(_ boards: UnsafeRawPointer, into block: KernelBlock, scratch: KernelScratch) {
        copy(boards, to: scratch.boards, 1024)
        // The index (lane, cell) rotated by six bits.
        interleave(scratch.boards, into: scratch.shuffled, quarter: 256, scratch)
        interleave(scratch.shuffled, into: scratch.boards, quarter: 256, scratch)
        interleave(scratch.boards, into: block.cells, quarter: 256, scratch)
    }

    /// Writes what one action (0 ... 3) makes of each board of a block before the spawn: boards uint8
    /// [64, 16], rewards float32 [64], legal bool [64]. `actions` are 64 bytes.
    public static func move(
        _ block: KernelBlock, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: KernelScratch
    ) {
        copy(actions, to: scratch.action, 64)
        slide(block.cells, scratch)
        addValues(scratch.merges, rows: 8, into: scratch.earned)
        writeBoards(scratch.afterstate, into: boards, scratch)
        writeRewards(scratch.earned, into: rewards, scratch)
        for lane in Lanes.starts { (Lanes(scratch.moved, lane) & Lanes(1)).store(legal, lane) }
    }

    /// Writes which actions would move something: mask int8 [64, 4].
    public static func legal(_ block: KernelBlock, mask: UnsafeMutableRawPointer, scratch: KernelScratch) {
        for lane in Lanes.starts {
            View(block.cells, lane).storeLegal(scratch.legal, lane, closed: Lanes(0))
        }
        writeLegal(scratch, into: mask)
    }

    /// Draws a new tile for each board of a block, except full ones, from its generator; writes the boards with
    /// it, uint8 [64, 16], and the `writeOutcomes`. The block's cells stay as they are.
    public static func spawn(
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

/// How many cells are empty.
@inline(__always) func countEmpty(_ cells: Bytes, _ lane: Int) -> Lanes {
    var empties = Lanes(0)
    for cell in 0..<16 { empties = empties &- Lanes(cells + cell * 64, lane).isZero }
    return empties
}

/// The tile that appeared between two boards, int32 [64]: the cell for a 2, 16 + the cell for a 4, else -1.
func writeOutcomes(
    _ before: Bytes, _ after: Bytes, into outcomes: UnsafeMutableRawPointer, _ scratch: KernelScratch
) {
    let (part, numbers) = (scratch.part, scratch.counts)
    for lane in Lanes.starts {
        // One more, so that 0 means no tile.
        var outcome = Lanes(0)
        for cell in 0..<16 {
            let tile = Lanes(before + cell * 64, lane) ^ Lanes(after + cell * 64, lane)
            outcome |= Lanes(UInt8(cell + 1)) & ~tile.isZero
            outcome = outcome &+ (Lanes(16) & (tile .== Lanes(2)))
        }
        outcome.store(part, lane)
    }
    for lane in 0..<64 { numbers[lane] = Int32(part[lane]) &- 1 }
    outcomes.copyMemory(from: numbers, byteCount: 256)
}

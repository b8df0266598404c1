// The rules of 2048 for 64 boards of 4x4 at once: the fast path, to be read from top to bottom.
//
// A block is 64 boards side by side: byte `cell * 64 + lane` is the exponent in a cell of a lane's board,
// so that one vector instruction does the same to 16 (SSE2, NEON) or 32 (AVX2) boards. Every loop below
// runs over the lanes, its body has no branch, and LLVM turns it into vector code. What that takes:
//
// - A condition is a byte, 0x00 or 0xff, made without a branch (`equal`); a `?:` would become one.
// - A loop reads one buffer and writes another, or the very bytes that it has read; a store that might
//   change a later load stops the vectoriser. Hence the many small scratch rows.
// - Offsets are literals, and the 16 cells are written out by hand: an inner loop over them would not
//   be unrolled in time.
// - Byte work and 32-bit work (scores, generators) are in separate loops.
//
// One step of a block:
//
//     actions ─► orient ─► slide ─► orient back ─► draw ─► place ─► restart ─► legal ─► count ─► tell
//
// What a step did beyond that, when somebody asks, is told by Report.swift from what the step leaves in
// its scratch memory.
//
// It has to agree bit by bit with the readable rules (Board, Slide, Spawn, Game2048), and tests hold the
// two together. Both files are compiled twice, for every processor and for AVX2; the flags apply to
// nothing else, so they must not use anything generic of other modules that could be shared.

#if KERNEL_AVX2
public import Kernel2048
#endif

// MARK: - bytes as conditions

typealias Bytes = UnsafeMutablePointer<UInt8>
typealias Ints = UnsafeMutablePointer<Int32>
private typealias Words = UnsafeMutablePointer<UInt32>

/// 0xff where equal, else 0x00.
@inline(__always)
func equal(_ left: UInt8, _ right: UInt8) -> UInt8 {
    0 &- unsafeBitCast(left == right, to: UInt8.self)
}

/// `yes` where the mask is 0xff, `no` where it is 0x00.
@inline(__always)
func select(_ mask: UInt8, _ yes: UInt8, _ no: UInt8) -> UInt8 {
    no ^ ((yes ^ no) & mask)
}

@inline(__always)
private func exchange(_ left: inout UInt8, _ right: inout UInt8, where mask: UInt8) {
    let difference = (left ^ right) & mask
    left ^= difference
    right ^= difference
}

/// A byte condition as a 32-bit one.
@inline(__always)
func widen(_ mask: UInt8) -> UInt32 {
    UInt32(bitPattern: Int32(Int8(bitPattern: mask)))
}

// MARK: - orient: every direction becomes "left"

/// The 16 cells of one lane.
struct Cells {
    var c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15: UInt8

    @inline(__always)
    init(_ bytes: Bytes, _ lane: Int) {
        c0 = bytes[lane]
        c1 = bytes[lane + 64]
        c2 = bytes[lane + 128]
        c3 = bytes[lane + 192]
        c4 = bytes[lane + 256]
        c5 = bytes[lane + 320]
        c6 = bytes[lane + 384]
        c7 = bytes[lane + 448]
        c8 = bytes[lane + 512]
        c9 = bytes[lane + 576]
        c10 = bytes[lane + 640]
        c11 = bytes[lane + 704]
        c12 = bytes[lane + 768]
        c13 = bytes[lane + 832]
        c14 = bytes[lane + 896]
        c15 = bytes[lane + 960]
    }

    @inline(__always)
    func store(_ bytes: Bytes, _ lane: Int) {
        bytes[lane] = c0
        bytes[lane + 64] = c1
        bytes[lane + 128] = c2
        bytes[lane + 192] = c3
        bytes[lane + 256] = c4
        bytes[lane + 320] = c5
        bytes[lane + 384] = c6
        bytes[lane + 448] = c7
        bytes[lane + 512] = c8
        bytes[lane + 576] = c9
        bytes[lane + 640] = c10
        bytes[lane + 704] = c11
        bytes[lane + 768] = c12
        bytes[lane + 832] = c13
        bytes[lane + 896] = c14
        bytes[lane + 960] = c15
    }

    /// Rows become columns where the mask says so.
    @inline(__always)
    mutating func transpose(where mask: UInt8) {
        exchange(&c1, &c4, where: mask)
        exchange(&c2, &c8, where: mask)
        exchange(&c3, &c12, where: mask)
        exchange(&c6, &c9, where: mask)
        exchange(&c7, &c13, where: mask)
        exchange(&c11, &c14, where: mask)
    }

    /// Each row is read backwards where the mask says so.
    @inline(__always)
    mutating func mirror(where mask: UInt8) {
        exchange(&c0, &c3, where: mask)
        exchange(&c1, &c2, where: mask)
        exchange(&c4, &c7, where: mask)
        exchange(&c5, &c6, where: mask)
        exchange(&c8, &c11, where: mask)
        exchange(&c9, &c10, where: mask)
        exchange(&c12, &c15, where: mask)
        exchange(&c13, &c14, where: mask)
    }
}

/// Turns each board so that its action becomes "left": 0 up, 1 right, 2 down, 3 left.
@inline(__always)
func orient(_ cells: Bytes, _ actions: Bytes, into oriented: Bytes) {
    for lane in 0..<64 {
        var board = Cells(cells, lane)
        let action = actions[lane]
        let vertical = equal(action & 1, 0)
        let reversed = equal((action &+ 1) & 2, 2)
        board.transpose(where: vertical)
        board.mirror(where: reversed)
        board.store(oriented, lane)
    }
}

/// Turns the boards back, tells which of them have changed, and counts the empty cells.
@inline(__always)
private func orientBack(
    _ oriented: Bytes, _ actions: Bytes, before: Bytes, into cells: Bytes, changed: Bytes, empties: Bytes
) {
    for lane in 0..<64 {
        var board = Cells(oriented, lane)
        let action = actions[lane]
        let vertical = equal(action & 1, 0)
        let reversed = equal((action &+ 1) & 2, 2)
        board.mirror(where: reversed)
        board.transpose(where: vertical)
        board.store(cells, lane)
        let old = Cells(before, lane)
        var difference = (board.c0 ^ old.c0) | (board.c1 ^ old.c1) | (board.c2 ^ old.c2)
        difference |= (board.c3 ^ old.c3) | (board.c4 ^ old.c4) | (board.c5 ^ old.c5)
        difference |= (board.c6 ^ old.c6) | (board.c7 ^ old.c7) | (board.c8 ^ old.c8)
        difference |= (board.c9 ^ old.c9) | (board.c10 ^ old.c10) | (board.c11 ^ old.c11)
        difference |= (board.c12 ^ old.c12) | (board.c13 ^ old.c13) | (board.c14 ^ old.c14)
        difference |= board.c15 ^ old.c15
        changed[lane] = ~equal(difference, 0)
        // Each comparison is -1 or 0 as a signed byte.
        var empty = equal(board.c0, 0) &+ equal(board.c1, 0) &+ equal(board.c2, 0) &+ equal(board.c3, 0)
        empty = empty &+ equal(board.c4, 0) &+ equal(board.c5, 0) &+ equal(board.c6, 0)
        empty = empty &+ equal(board.c7, 0) &+ equal(board.c8, 0) &+ equal(board.c9, 0)
        empty = empty &+ equal(board.c10, 0) &+ equal(board.c11, 0) &+ equal(board.c12, 0)
        empty = empty &+ equal(board.c13, 0) &+ equal(board.c14, 0) &+ equal(board.c15, 0)
        empties[lane] = 0 &- empty
    }
}

// MARK: - slide: push the zeros out, then merge from the wall on

/// Slides one row of each board to the left, in place of four rows of bytes from `row` on. `merges` gets
/// two rows: the exponents of the tiles that were made, 0 where none. (A row has at most two merges:
/// the first pair, and one of the other two.) With `ofEachCell` it gets four, one for each cell.
@inline(__always)
func slideRow(_ from: Bytes, into to: Bytes, merges: Bytes, ofEachCell: Bool = false) {
    for lane in 0..<64 {
        var a = from[lane]
        var b = from[lane + 64]
        var c = from[lane + 128]
        var d = from[lane + 192]

        //  push the zeros out      a . c d  ─►  a c d .
        var hole = equal(c, 0)
        c |= d & hole
        d &= ~hole
        hole = equal(b, 0)
        b |= c & hole
        c = select(hole, d, c)
        d &= ~hole
        hole = equal(a, 0)
        a |= b & hole
        b = select(hole, c, b)
        c = select(hole, d, c)
        d &= ~hole

        //  merge in order          2 2 4 .  ─►  4 4 . .   (a mask is -1, so subtracting it adds 1)
        let first = equal(a, b) & ~equal(a, 0)
        a = a &- first
        b = select(first, c, b)
        c = select(first, d, c)
        d &= ~first
        let second = equal(b, c) & ~equal(b, 0)
        b = b &- second
        c = select(second, d, c)
        d &= ~second
        let third = equal(c, d) & ~equal(c, 0)
        c = c &- third
        d &= ~third

        to[lane] = a
        to[lane + 64] = b
        to[lane + 128] = c
        to[lane + 192] = d
        merges[lane] = a & first
        if ofEachCell {
            merges[lane + 64] = b & second
            merges[lane + 128] = c & third
            merges[lane + 192] = 0
        } else {
            merges[lane + 64] = (b & second) | (c & third)
        }
    }
}

@inline(__always)
private func slide(_ from: Bytes, into to: Bytes, merges: Bytes) {
    slideRow(from, into: to, merges: merges)
    slideRow(from + 256, into: to + 256, merges: merges + 128)
    slideRow(from + 512, into: to + 512, merges: merges + 256)
    slideRow(from + 768, into: to + 768, merges: merges + 384)
}

/// Sum of the values of the tiles that merges made; a merged tile's exponent is at least 2, and 0 stands
/// for no merge.
@inline(__always)
private func mergeScores(_ merges: Bytes, into scores: Ints) {
    for lane in 0..<64 {
        var sum = value(merges[lane]) &+ value(merges[lane + 64])
        sum = sum &+ value(merges[lane + 128]) &+ value(merges[lane + 192])
        sum = sum &+ value(merges[lane + 256]) &+ value(merges[lane + 320])
        sum = sum &+ value(merges[lane + 384]) &+ value(merges[lane + 448])
        scores[lane] = sum
    }
}

@inline(__always)
func value(_ exponent: UInt8) -> Int32 {
    (1 &<< Int32(exponent)) & ~1
}

// MARK: - draw and place: the new tile

/// Draws the new tile's place among the empty cells and its exponent, where the mask says so; the other
/// generators stay as they are. The recipe of SpawnLaw: two words, xoshiro128++.
@inline(__always)
private func draw(
    _ words: Words, _ empties: Bytes, fourThreshold: UInt64, where mask: Bytes,
    place: Words, exponent: Words
) {
    let lastFour = UInt32(truncatingIfNeeded: fourThreshold &- 1)
    let anyFour: UInt32 = fourThreshold == 0 ? 0 : 1
    for lane in 0..<64 {
        var s0 = words[lane]
        var s1 = words[lane + 64]
        var s2 = words[lane + 128]
        var s3 = words[lane + 192]
        let first = nextWord(&s0, &s1, &s2, &s3)
        let second = nextWord(&s0, &s1, &s2, &s3)
        let chosen = widen(mask[lane])
        words[lane] = (s0 & chosen) | (words[lane] & ~chosen)
        words[lane + 64] = (s1 & chosen) | (words[lane + 64] & ~chosen)
        words[lane + 128] = (s2 & chosen) | (words[lane + 128] & ~chosen)
        words[lane + 192] = (s3 & chosen) | (words[lane + 192] & ~chosen)
        // The upper half of the product, in 32 bits: there are at most 16 cells.
        let cells = UInt32(empties[lane])
        place[lane] = ((first >> 16) &* cells &+ (((first & 0xffff) &* cells) >> 16)) >> 16
        let isFour = UInt32(unsafeBitCast(second <= lastFour, to: UInt8.self)) & anyFour
        exponent[lane] = (1 &+ isFour) & chosen
    }
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

/// Puts the drawn exponent (0 where there is none) into the place-th empty cell.
@inline(__always)
private func place(_ cells: Bytes, _ place: Words, _ exponent: Words, into placed: Bytes, _ scratch: Bytes) {
    let skips = scratch
    let tiles = scratch + 64
    for lane in 0..<64 {
        skips[lane] = UInt8(truncatingIfNeeded: place[lane])
        tiles[lane] = UInt8(truncatingIfNeeded: exponent[lane])
    }
    for lane in 0..<64 {
        var board = Cells(cells, lane)
        var skip = skips[lane]
        let tile = tiles[lane]
        put(tile, &skip, &board.c0)
        put(tile, &skip, &board.c1)
        put(tile, &skip, &board.c2)
        put(tile, &skip, &board.c3)
        put(tile, &skip, &board.c4)
        put(tile, &skip, &board.c5)
        put(tile, &skip, &board.c6)
        put(tile, &skip, &board.c7)
        put(tile, &skip, &board.c8)
        put(tile, &skip, &board.c9)
        put(tile, &skip, &board.c10)
        put(tile, &skip, &board.c11)
        put(tile, &skip, &board.c12)
        put(tile, &skip, &board.c13)
        put(tile, &skip, &board.c14)
        put(tile, &skip, &board.c15)
        board.store(placed, lane)
    }
}

/// One cell of `place`: `skip` counts the empty cells still to pass; it is 0 at the one that is meant, and
/// below 0 (0xff …) behind it.
@inline(__always)
private func put(_ tile: UInt8, _ skip: inout UInt8, _ cell: inout UInt8) {
    let isMeant = equal(cell | skip, 0)
    skip = skip &+ equal(cell, 0)
    cell |= tile & isMeant
}

// MARK: - restart: a new episode in single lanes

/// Starts a lane's new episode by drawing its start tiles: the one part that goes lane by lane, since few
/// lanes of a block start at a time.
private func restart(_ block: UnsafeMutableRawPointer, lane: Int, rules: KernelRules) {
    let cells = block.assumingMemoryBound(to: UInt8.self) + lane
    let words = (block + KernelBlock.words).assumingMemoryBound(to: UInt32.self) + lane
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
    clearCounts(block, lane: lane)
}

/// The highest bits of the bytes of eight lanes whose episode has ended, the first lane's lowest.
@inline(__always)
private func eightFinished(_ phase: Bytes) -> UInt64 {
    UInt64(littleEndian: UnsafeRawPointer(phase).loadUnaligned(as: UInt64.self)) & 0x8080_8080_8080_8080
}

private func clearCounts(_ block: UnsafeMutableRawPointer, lane: Int) {
    (block + KernelBlock.score).assumingMemoryBound(to: Int32.self)[lane] = 0
    (block + KernelBlock.length).assumingMemoryBound(to: Int32.self)[lane] = 0
    (block + KernelBlock.moves).assumingMemoryBound(to: Int32.self)[lane] = 0
    (block + KernelBlock.phase).assumingMemoryBound(to: UInt8.self)[lane] = KernelPhase.playing
}

// MARK: - legal: which actions would move something

/// Four rows of masks, up, right, down, left, and a row of largest exponents.
@inline(__always)
private func look(_ cells: Bytes, legal: Bytes, maxExponents: Bytes) {
    for lane in 0..<64 {
        let board = Cells(cells, lane)
        let e0 = equal(board.c0, 0), e1 = equal(board.c1, 0), e2 = equal(board.c2, 0)
        let e3 = equal(board.c3, 0), e4 = equal(board.c4, 0), e5 = equal(board.c5, 0)
        let e6 = equal(board.c6, 0), e7 = equal(board.c7, 0), e8 = equal(board.c8, 0)
        let e9 = equal(board.c9, 0), e10 = equal(board.c10, 0), e11 = equal(board.c11, 0)
        let e12 = equal(board.c12, 0), e13 = equal(board.c13, 0), e14 = equal(board.c14, 0)
        let e15 = equal(board.c15, 0)
        // Two tiles that are equal can merge both ways; a tile can move into an empty neighbour. For a
        // pair of empty cells `pair` is set too, hence the last `&`.
        var right: UInt8 = 0
        var left: UInt8 = 0
        neighbours(board.c0, board.c1, e0, e1, &right, &left)
        neighbours(board.c1, board.c2, e1, e2, &right, &left)
        neighbours(board.c2, board.c3, e2, e3, &right, &left)
        neighbours(board.c4, board.c5, e4, e5, &right, &left)
        neighbours(board.c5, board.c6, e5, e6, &right, &left)
        neighbours(board.c6, board.c7, e6, e7, &right, &left)
        neighbours(board.c8, board.c9, e8, e9, &right, &left)
        neighbours(board.c9, board.c10, e9, e10, &right, &left)
        neighbours(board.c10, board.c11, e10, e11, &right, &left)
        neighbours(board.c12, board.c13, e12, e13, &right, &left)
        neighbours(board.c13, board.c14, e13, e14, &right, &left)
        neighbours(board.c14, board.c15, e14, e15, &right, &left)
        legal[lane + 64] = right
        legal[lane + 192] = left
        var down: UInt8 = 0
        var up: UInt8 = 0
        neighbours(board.c0, board.c4, e0, e4, &down, &up)
        neighbours(board.c4, board.c8, e4, e8, &down, &up)
        neighbours(board.c8, board.c12, e8, e12, &down, &up)
        neighbours(board.c1, board.c5, e1, e5, &down, &up)
        neighbours(board.c5, board.c9, e5, e9, &down, &up)
        neighbours(board.c9, board.c13, e9, e13, &down, &up)
        neighbours(board.c2, board.c6, e2, e6, &down, &up)
        neighbours(board.c6, board.c10, e6, e10, &down, &up)
        neighbours(board.c10, board.c14, e10, e14, &down, &up)
        neighbours(board.c3, board.c7, e3, e7, &down, &up)
        neighbours(board.c7, board.c11, e7, e11, &down, &up)
        neighbours(board.c11, board.c15, e11, e15, &down, &up)
        legal[lane] = up
        legal[lane + 128] = down
        var largest = max(max(board.c0, board.c1), max(board.c2, board.c3))
        largest = max(largest, max(max(board.c4, board.c5), max(board.c6, board.c7)))
        largest = max(largest, max(max(board.c8, board.c9), max(board.c10, board.c11)))
        largest = max(largest, max(max(board.c12, board.c13), max(board.c14, board.c15)))
        maxExponents[lane] = largest
    }
}

/// What two neighbours make legal: `towardsSecond` and `towardsFirst`; `e1`, `e2` tell which is empty.
@inline(__always)
private func neighbours(
    _ first: UInt8, _ second: UInt8, _ e1: UInt8, _ e2: UInt8, _ towardsSecond: inout UInt8,
    _ towardsFirst: inout UInt8
) {
    let pair = equal(first, second)
    towardsSecond |= (pair | e2) & ~e1
    towardsFirst |= (pair | e1) & ~e2
}

// MARK: - tell: from rows of lanes to the arrays of a reply

/// Interleaves the two halves of `from`: byte i goes to 2i, byte i + count/2 to 2i + 1.
@inline(__always)
private func shuffle(_ from: Bytes, into to: Bytes, half: Int) {
    for index in 0..<half {
        to[2 * index] = from[index]
        to[2 * index + 1] = from[half + index]
    }
}

/// 16 rows of 64 lanes become 64 rows of 16 cells: four perfect shuffles of the 10-bit index
/// (cell, lane) rotate it to (lane, cell).
@inline(__always)
func tellBoards(_ cells: Bytes, into observation: UnsafeMutableRawPointer, _ scratch: Bytes) {
    let other = scratch + 1024
    shuffle(cells, into: scratch, half: 512)
    shuffle(scratch, into: other, half: 512)
    shuffle(other, into: scratch, half: 512)
    shuffle(scratch, into: observation.assumingMemoryBound(to: UInt8.self), half: 512)
}

/// Four rows of masks become 64 rows of four 0 or 1.
@inline(__always)
private func tellMask(_ legal: Bytes, into actionMask: UnsafeMutableRawPointer, _ scratch: Bytes) {
    let ones = scratch
    let half = scratch + 256
    for index in 0..<256 { ones[index] = legal[index] & 1 }
    shuffle(ones, into: half, half: 128)
    shuffle(half, into: actionMask.assumingMemoryBound(to: UInt8.self), half: 128)
}

/// Everything that both a step and a reset tell. `terminated` is a mask: no action is legal any more.
@inline(__always)
private func tell(
    _ block: UnsafeMutableRawPointer, legal: Bytes, maxExponents: Bytes, terminated: Bytes,
    goalExponent: UInt8, _ outputs: KernelOutputs, _ scratch: Bytes
) {
    tellBoards(block.assumingMemoryBound(to: UInt8.self), into: outputs.observation, scratch)
    let offered = scratch + 2048
    for lane in 0..<64 {
        let open = ~terminated[lane]
        offered[lane] = legal[lane] & open
        offered[lane + 64] = legal[lane + 64] & open
        offered[lane + 128] = legal[lane + 128] & open
        offered[lane + 192] = legal[lane + 192] & open
    }
    tellMask(offered, into: outputs.actionMask, scratch)
    let reached = scratch + 2304
    for lane in 0..<64 {
        reached[lane] = unsafeBitCast(maxExponents[lane] >= goalExponent, to: UInt8.self)
    }
    outputs.goalReached.copyMemory(from: reached, byteCount: 64)
    outputs.maxExponent.copyMemory(from: maxExponents, byteCount: 64)
    outputs.score.copyMemory(from: block + KernelBlock.score, byteCount: 256)
    outputs.episodeLength.copyMemory(from: block + KernelBlock.length, byteCount: 256)
    outputs.moves.copyMemory(from: block + KernelBlock.moves, byteCount: 256)
}

// MARK: - the operations

/// The kernel, as it was compiled in this module. Each operation needs `KernelBlock.scratchSize` bytes of
/// scratch memory, aligned like the block to 64 bytes, that nobody else uses meanwhile.
public enum Kernel {
    /// Plays one action (0 ... 3) on each board of a block, or starts the new episode of a lane that is
    /// finished (or lets it wait), and tells the result. `actions` are 64 bytes.
    public static func step(
        _ block: UnsafeMutableRawPointer, actions: UnsafeRawPointer, rules: KernelRules,
        _ outputs: KernelOutputs, _ stepOutputs: KernelStepOutputs, scratch: UnsafeMutableRawPointer
    ) {
        let cells = block.assumingMemoryBound(to: UInt8.self)
        let words = (block + KernelBlock.words).assumingMemoryBound(to: UInt32.self)
        let score = (block + KernelBlock.score).assumingMemoryBound(to: Int32.self)
        let length = (block + KernelBlock.length).assumingMemoryBound(to: Int32.self)
        let moves = (block + KernelBlock.moves).assumingMemoryBound(to: Int32.self)
        let phase = cells + KernelBlock.phase

        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let oriented = bytes + KernelTrace.afterstate
        let slid = bytes + KernelTrace.after  // Until the new tile is there.
        let merges = bytes + KernelTrace.merges
        let action = bytes + KernelTrace.action
        let moved = bytes + KernelTrace.moved
        let playing = bytes + KernelTrace.played
        let empties = bytes + 2752
        let maxExponents = bytes + 2816
        let terminated = bytes + KernelTrace.terminated
        let truncated = bytes + 2944
        let closed = bytes + 3008
        let legal = bytes + 3072
        let earned = (scratch + KernelTrace.earned).assumingMemoryBound(to: Int32.self)
        let places = (scratch + 4608).assumingMemoryBound(to: UInt32.self)
        let exponents = (scratch + 4864).assumingMemoryBound(to: UInt32.self)
        let rest = bytes + 5120

        // The move.
        (UnsafeMutableRawPointer(action)).copyMemory(from: actions, byteCount: 64)
        orient(cells, action, into: oriented)
        slide(oriented, into: slid, merges: merges)
        orientBack(slid, action, before: cells, into: oriented, changed: moved, empties: empties)
        mergeScores(merges, into: earned)
        var finished: UInt8 = 0
        for lane in 0..<64 {
            finished |= phase[lane]
            playing[lane] = equal(phase[lane], KernelPhase.playing)
            moved[lane] &= playing[lane]
        }

        // The new tile.
        draw(
            words, empties, fourThreshold: rules.fourThreshold, where: moved, place: places,
            exponent: exponents)
        if finished & 0x80 != 0, rules.holdsFinished {
            // A board that waits stays as it is.
            for cell in stride(from: 0, to: 1024, by: 64) {
                for lane in 0..<64 {
                    oriented[cell + lane] = select(playing[lane], oriented[cell + lane], cells[cell + lane])
                }
            }
        }
        place(oriented, places, exponents, into: cells, rest)
        if rules.isReported { (scratch + KernelTrace.after).copyMemory(from: cells, byteCount: 1024) }

        // The counts; an illegal action counts as a step, not as a move.
        for lane in 0..<64 {
            let plays = Int32(bitPattern: widen(playing[lane]))
            let moves32 = Int32(bitPattern: widen(moved[lane]))
            let reward = earned[lane] & plays
            earned[lane] = reward
            // Both are at least 0: a negative sum is too large, and becomes the largest number.
            let sum = score[lane] &+ reward
            score[lane] = (sum | (sum >> 31)) & .max
            length[lane] = length[lane] &- plays
            moves[lane] = moves[lane] &- moves32
        }
        if finished & 0x80 != 0, !rules.holdsFinished {
            for first in stride(from: 0, to: 64, by: 8) {
                var waiting = eightFinished(phase + first)
                while waiting != 0 {
                    restart(block, lane: first + waiting.trailingZeroBitCount / 8, rules: rules)
                    waiting &= waiting &- 1
                }
            }
        }

        // The end.
        look(cells, legal: legal, maxExponents: maxExponents)
        let stopsAtGoal: UInt8 = rules.stopAtGoal ? 0xff : 0
        let illegalEnds: UInt8 = rules.illegalTerminates ? 0xff : 0
        for lane in 0..<64 {
            let stuck = equal(legal[lane] | legal[lane + 64] | legal[lane + 128] | legal[lane + 192], 0)
            let reached = 0 &- unsafeBitCast(maxExponents[lane] >= rules.goalExponent, to: UInt8.self)
            let ends = stuck | (reached & stopsAtGoal) | (~moved[lane] & illegalEnds)
            terminated[lane] = ends & playing[lane]
        }
        let limit = rules.maxEpisodeSteps
        for lane in 0..<64 {
            let isOver = 0 &- UInt32(unsafeBitCast(length[lane] >= limit, to: UInt8.self))
            truncated[lane] = UInt8(truncatingIfNeeded: isOver)
        }
        let holds: UInt8 = rules.holdsFinished ? 0xff : 0
        for lane in 0..<64 {
            truncated[lane] &= playing[lane]
            let cut = select(truncated[lane], KernelPhase.truncated, KernelPhase.playing)
            let now = select(terminated[lane], KernelPhase.terminated, cut)
            phase[lane] = select(playing[lane] | ~holds, now, phase[lane])
        }
        // Its lane may have terminated long ago.
        for lane in 0..<64 { closed[lane] = equal(phase[lane], KernelPhase.terminated) }

        // The reply.
        let rewards = (scratch + 3584).assumingMemoryBound(to: Float.self)
        for lane in 0..<64 { rewards[lane] = Float(earned[lane]) }
        stepOutputs.reward.copyMemory(from: rewards, byteCount: 256)
        for lane in 0..<64 {
            rest[lane] = terminated[lane] & 1
            truncated[lane] = truncated[lane] & 1
        }
        stepOutputs.terminated.copyMemory(from: rest, byteCount: 64)
        stepOutputs.truncated.copyMemory(from: truncated, byteCount: 64)
        tell(
            block, legal: legal, maxExponents: maxExponents, terminated: closed,
            goalExponent: rules.goalExponent, outputs, rest)
    }

    /// Starts a new episode in one lane, drawing from its generator.
    public static func start(_ block: UnsafeMutableRawPointer, lane: Int, rules: KernelRules) {
        restart(block, lane: lane, rules: rules)
    }

    /// Starts a new episode in one lane from 16 given exponents, drawing nothing.
    public static func start(
        _ block: UnsafeMutableRawPointer, lane: Int, from exponents: UnsafeRawPointer
    ) {
        let cells = block.assumingMemoryBound(to: UInt8.self) + lane
        for cell in 0..<16 { cells[cell * 64] = exponents.load(fromByteOffset: cell, as: UInt8.self) }
        clearCounts(block, lane: lane)
    }

    /// Tells the state of a block.
    public static func observe(
        _ block: UnsafeMutableRawPointer, rules: KernelRules, _ outputs: KernelOutputs,
        scratch: UnsafeMutableRawPointer
    ) {
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let phase = block.assumingMemoryBound(to: UInt8.self) + KernelBlock.phase
        let legal = bytes
        let maxExponents = bytes + 256
        let terminated = bytes + 320
        look(block.assumingMemoryBound(to: UInt8.self), legal: legal, maxExponents: maxExponents)
        for lane in 0..<64 { terminated[lane] = equal(phase[lane], KernelPhase.terminated) }
        tell(
            block, legal: legal, maxExponents: maxExponents, terminated: terminated,
            goalExponent: rules.goalExponent, outputs, bytes + 384)
    }

    /// Tells what each action would make of each board of a block before the spawn: boards uint8
    /// [64, 4, 16], rewards float32 [64, 4], mask int8 [64, 4].
    public static func afterstates(
        _ block: UnsafeMutableRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
    ) {
        let cells = block.assumingMemoryBound(to: UInt8.self)
        let phase = cells + KernelBlock.phase
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let oriented = bytes
        let slid = bytes + 1024
        let merges = bytes + 2048
        let action = bytes + 2560
        let empties = bytes + 2624
        let legal = bytes + 2688
        let earned = (scratch + 3072).assumingMemoryBound(to: Int32.self)
        let rest = bytes + 4096
        for direction in 0..<4 {
            for lane in 0..<64 { action[lane] = UInt8(truncatingIfNeeded: direction) }
            orient(cells, action, into: oriented)
            slide(oriented, into: slid, merges: merges)
            orientBack(
                slid, action, before: cells, into: oriented, changed: legal + direction * 64,
                empties: empties)
            mergeScores(merges, into: earned + direction * 64)
            tellBoards(oriented, into: rest + 2048, rest)
            for lane in 0..<64 {
                (boards + lane * 64 + direction * 16)
                    .copyMemory(from: rest + 2048 + lane * 16, byteCount: 16)
            }
        }
        for lane in 0..<64 {
            let open = ~equal(phase[lane], KernelPhase.terminated)
            legal[lane] &= open
            legal[lane + 64] &= open
            legal[lane + 128] &= open
            legal[lane + 192] &= open
        }
        tellMask(legal, into: mask, rest)
        let values = (scratch + 4096).assumingMemoryBound(to: Float.self)
        for lane in 0..<64 {
            values[4 * lane] = Float(earned[lane])
            values[4 * lane + 1] = Float(earned[lane + 64])
            values[4 * lane + 2] = Float(earned[lane + 128])
            values[4 * lane + 3] = Float(earned[lane + 192])
        }
        rewards.copyMemory(from: values, byteCount: 1024)
    }
}

// MARK: - the rules alone: arbitrary boards, no episode

/// `shuffle` backwards: the bytes at even places go to the first half, those at odd ones to the second.
@inline(__always)
private func unshuffle(_ from: Bytes, into to: Bytes, half: Int) {
    for index in 0..<half {
        to[index] = from[2 * index]
        to[half + index] = from[2 * index + 1]
    }
}

extension Kernel {
    /// Fills the cells of a block from 64 boards of 16 exponents each; nothing is assumed of their alignment.
    public static func load(
        _ boards: UnsafeRawPointer, into block: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
    ) {
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let other = bytes + 1024
        scratch.copyMemory(from: boards, byteCount: 1024)
        unshuffle(bytes, into: other, half: 512)
        unshuffle(other, into: bytes, half: 512)
        unshuffle(bytes, into: other, half: 512)
        unshuffle(other, into: bytes, half: 512)
        block.copyMemory(from: scratch, byteCount: 1024)
    }

    /// Tells what one action (0 ... 3) makes of each board of a block before the spawn: boards uint8
    /// [64, 16], rewards float32 [64], legal bool [64]. `actions` are 64 bytes.
    public static func move(
        _ block: UnsafeMutableRawPointer, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
    ) {
        let cells = block.assumingMemoryBound(to: UInt8.self)
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let oriented = bytes
        let slid = bytes + 1024
        let merges = bytes + 2048
        let action = bytes + 2560
        let moved = bytes + 2624
        let empties = bytes + 2688
        let earned = (scratch + 2752).assumingMemoryBound(to: Int32.self)
        let values = (scratch + 3008).assumingMemoryBound(to: Float.self)
        (UnsafeMutableRawPointer(action)).copyMemory(from: actions, byteCount: 64)
        orient(cells, action, into: oriented)
        slide(oriented, into: slid, merges: merges)
        orientBack(slid, action, before: cells, into: oriented, changed: moved, empties: empties)
        mergeScores(merges, into: earned)
        tellBoards(oriented, into: boards, bytes + 4096)
        for lane in 0..<64 { values[lane] = Float(earned[lane]) }
        rewards.copyMemory(from: values, byteCount: 256)
        for lane in 0..<64 { action[lane] = moved[lane] & 1 }
        legal.copyMemory(from: action, byteCount: 64)
    }

    /// Tells which actions would move something: mask int8 [64, 4].
    public static func legal(
        _ block: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
    ) {
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        look(block.assumingMemoryBound(to: UInt8.self), legal: bytes, maxExponents: bytes + 256)
        tellMask(bytes, into: mask, bytes + 320)
    }

    /// Draws a new tile for each board of a block from its generator, and tells the boards with it, uint8
    /// [64, 16], and what appeared, int32 [64]: the cell for a 2, 16 + the cell for a 4, and -1 on a full
    /// board, which draws nothing. The block's cells stay as they are.
    public static func spawn(
        _ block: UnsafeMutableRawPointer, fourThreshold: UInt64, boards: UnsafeMutableRawPointer,
        outcomes: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
    ) {
        let cells = block.assumingMemoryBound(to: UInt8.self)
        let words = (block + KernelBlock.words).assumingMemoryBound(to: UInt32.self)
        let bytes = scratch.assumingMemoryBound(to: UInt8.self)
        let placed = bytes
        let empties = bytes + 1024
        let hasRoom = bytes + 1088
        let outcome = bytes + 1152
        let places = (scratch + 2304).assumingMemoryBound(to: UInt32.self)
        let exponents = (scratch + 2560).assumingMemoryBound(to: UInt32.self)
        let numbers = (scratch + 2816).assumingMemoryBound(to: Int32.self)
        for lane in 0..<64 {
            let board = Cells(cells, lane)
            // Each comparison is -1 or 0 as a signed byte.
            var empty = equal(board.c0, 0) &+ equal(board.c1, 0) &+ equal(board.c2, 0) &+ equal(board.c3, 0)
            empty = empty &+ equal(board.c4, 0) &+ equal(board.c5, 0) &+ equal(board.c6, 0)
            empty = empty &+ equal(board.c7, 0) &+ equal(board.c8, 0) &+ equal(board.c9, 0)
            empty = empty &+ equal(board.c10, 0) &+ equal(board.c11, 0) &+ equal(board.c12, 0)
            empty = empty &+ equal(board.c13, 0) &+ equal(board.c14, 0) &+ equal(board.c15, 0)
            empties[lane] = 0 &- empty
            hasRoom[lane] = ~equal(empty, 0)
        }
        draw(
            words, empties, fourThreshold: fourThreshold, where: hasRoom,
            place: places, exponent: exponents)
        place(cells, places, exponents, into: placed, bytes + 4096)
        for lane in 0..<64 {
            let before = Cells(cells, lane)
            let after = Cells(placed, lane)
            var number: UInt8 = 1 & ~equal(before.c1, after.c1)
            number |= (2 & ~equal(before.c2, after.c2)) | (3 & ~equal(before.c3, after.c3))
            number |= (4 & ~equal(before.c4, after.c4)) | (5 & ~equal(before.c5, after.c5))
            number |= (6 & ~equal(before.c6, after.c6)) | (7 & ~equal(before.c7, after.c7))
            number |= (8 & ~equal(before.c8, after.c8)) | (9 & ~equal(before.c9, after.c9))
            number |= (10 & ~equal(before.c10, after.c10)) | (11 & ~equal(before.c11, after.c11))
            number |= (12 & ~equal(before.c12, after.c12)) | (13 & ~equal(before.c13, after.c13))
            number |= (14 & ~equal(before.c14, after.c14)) | (15 & ~equal(before.c15, after.c15))
            outcome[lane] = number
        }
        for lane in 0..<64 {
            // 0 for a 2, 16 for a 4; -1 and no tile where there is no room.
            let isFour = UInt8(truncatingIfNeeded: exponents[lane] >> 1) &<< 4
            outcome[lane] = select(hasRoom[lane], outcome[lane] &+ isFour, 0xff)
        }
        for lane in 0..<64 { numbers[lane] = Int32(Int8(bitPattern: outcome[lane])) }
        tellBoards(placed, into: boards, bytes + 4096)
        outcomes.copyMemory(from: numbers, byteCount: 256)
    }
}

internal import Platform
internal import Synchronization

/// A set of numbers with one bit for each possible number, and the rank of each member in the set.
///
/// The set consists of eight-word lines. A line fills one cache line and covers 448 numbers:
///
///     word 0                                                        words 1 ... 7
///     bits 0-31      32-41          42-51          52-61
///     members in     in this line   in this line   in this line     a bit for each number
///     lines before   before word 3  before word 5  before word 7
///
/// Computing a rank takes one cache line and two bit counts.
///
/// This type reads unsafe memory. `@unchecked Sendable` because it only reads.
struct RankedBits: @unchecked Sendable {
    static let numbersPerLine = 448
    static let wordsPerLine = 8

    let lines: UnsafePointer<UInt64>

    /// Returns the number of lines for this many numbers.
    static func lineCount(_ numbers: Int) -> Int { (numbers + numbersPerLine - 1) / numbersPerLine }

    /// Returns a line's first word and the line's number of members. The lines before it have `before` members
    /// in total.
    static func head(of line: UnsafePointer<UInt64>, before: Int) -> (word: UInt64, members: Int) {
        var word = UInt64(before)
        var members = 0
        for index in 1..<wordsPerLine {
            if index > 1, index % 2 == 1 { word |= UInt64(members) << UInt64(22 + 10 * (index / 2)) }
            members += line[index].nonzeroBitCount
        }
        return (word, members)
    }

    /// Returns the number of members in `count` lines, or nil if a line's first word is wrong. If the
    /// result is not nil, every rank is below it.
    func checkedCount(lines count: Int) -> Int? {
        var members = 0
        for index in 0..<count {
            let line = lines + index * Self.wordsPerLine
            let head = Self.head(of: line, before: members)
            guard line[0] == head.word else { return nil }
            members += head.members
        }
        return members
    }

    /// Returns the line that covers a number.
    @inline(__always)
    func line(_ number: Int) -> UnsafePointer<UInt64> {
        let line = UInt(bitPattern: number) / UInt(Self.numbersPerLine)
        return lines + Int(bitPattern: line) &* Self.wordsPerLine
    }

    /// Returns the number of smaller members; -1 if the number is not a member.
    @inline(__always)
    func rank(_ number: Int) -> Int {
        let line = line(number)
        let bit = Int(bitPattern: UInt(bitPattern: number) % UInt(Self.numbersPerLine))
        let word = bit &>> 6
        let bits = line[word &+ 1]
        let mask: UInt64 = 1 &<< UInt64(truncatingIfNeeded: bit & 63)
        guard bits & mask != 0 else { return -1 }
        let pair = word &>> 1
        let before = pair == 0 ? 0 : line[0] &>> UInt64(truncatingIfNeeded: 22 &+ 10 &* pair) & 1023
        let neighbour = line[word] & (0 &- UInt64(truncatingIfNeeded: word & 1))
        return Int(truncatingIfNeeded: line[0] & 0xffff_ffff) &+ Int(truncatingIfNeeded: before)
            &+ neighbour.nonzeroBitCount &+ (bits & (mask &- 1)).nonzeroBitCount
    }
}

/// A set under construction: many threads insert numbers, then ``seal()`` computes the ranks.
///
/// This type holds the set's unsafe memory. `@unchecked Sendable` because its words are atomic.
/// Non-atomic reads start in ``seal()``, after the last insertion.
final class BitSet: @unchecked Sendable {
    private let memory: OwnedMemory
    private let words: UnsafeMutablePointer<Atomic<UInt64>>
    let lineCount: Int
    /// The number of members; valid after ``seal()``.
    private(set) var count = 0

    init(numbers: Int) throws(Reason) {
        lineCount = RankedBits.lineCount(numbers)
        memory = try OwnedMemory(
            byteCount: lineCount * RankedBits.wordsPerLine * MemoryLayout<UInt64>.stride)
        words = memory.bytes.bindMemory(to: Atomic<UInt64>.self).baseAddress!
        for index in 0..<lineCount * RankedBits.wordsPerLine {
            (words + index).initialize(to: Atomic(0))
        }
    }

    /// The set for look-ups; valid after ``seal()``, for as long as this object lives.
    var ranked: RankedBits {
        RankedBits(lines: UnsafeRawPointer(words).assumingMemoryBound(to: UInt64.self))
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory.bytes) }

    @inline(__always)
    private func place(_ number: Int) -> (word: Int, mask: UInt64) {
        let (line, bit) = number.quotientAndRemainder(dividingBy: RankedBits.numbersPerLine)
        return (line &* RankedBits.wordsPerLine &+ 1 &+ bit &>> 6, 1 &<< UInt64(truncatingIfNeeded: bit & 63))
    }

    /// Inserts a number. Returns false if it is already a member.
    @inline(__always)
    func insert(_ number: Int) -> Bool {
        let (word, mask) = place(number)
        guard words[word].load(ordering: .relaxed) & mask == 0 else { return false }
        return words[word].bitwiseOr(mask, ordering: .relaxed).oldValue & mask == 0
    }

    @inline(__always)
    func remove(_ number: Int) {
        let (word, mask) = place(number)
        words[word].bitwiseAnd(~mask, ordering: .relaxed)
    }

    /// Counts the members of each line and of all lines before it. The total must be below 2^32.
    func seal() {
        count = 0
        for line in 0..<lineCount {
            let first = line * RankedBits.wordsPerLine
            let head = RankedBits.head(of: ranked.lines + first, before: count)
            words[first].store(head.word, ordering: .relaxed)
            count += head.members
        }
    }
}

// The sizes of boards that the kernel runs: a type for each, so that its numbers are constants in the loops.

#if KERNEL_AVX2
public import Kernel2048
#endif

/// A size of boards, rows and columns 2 ... 4 each. Every operation of Kernel.swift and Report.swift is compiled
/// for each size by itself.
protocol KernelSize: KernelOperations {
    static var rows: Int { get }
    static var columns: Int { get }
}

extension KernelSize {
    /// Cells of a board.
    @inline(__always) static var cellCount: Int { rows * columns }
    /// Cells of the longest line, and lines of a board that may turn.
    @inline(__always) static var longest: Int { rows > columns ? rows : columns }
    /// Rows of `KernelScratch.merges` for each line: two merges take four cells.
    @inline(__always) static var mergesPerLine: Int { longest / 2 }
    @inline(__always) static var mergeRows: Int { longest * mergesPerLine }
    /// Bytes of a board while it is transposed: `cellCount`, or the next power of two.
    @inline(__always) static var width: Int { cellCount > 8 ? 16 : cellCount > 4 ? 8 : 4 }
}

private enum Board2x2: KernelSize {
    static var rows: Int { 2 }
    static var columns: Int { 2 }
}

private enum Board2x3: KernelSize {
    static var rows: Int { 2 }
    static var columns: Int { 3 }
}

private enum Board2x4: KernelSize {
    static var rows: Int { 2 }
    static var columns: Int { 4 }
}

private enum Board3x2: KernelSize {
    static var rows: Int { 3 }
    static var columns: Int { 2 }
}

private enum Board3x3: KernelSize {
    static var rows: Int { 3 }
    static var columns: Int { 3 }
}

private enum Board3x4: KernelSize {
    static var rows: Int { 3 }
    static var columns: Int { 4 }
}

private enum Board4x2: KernelSize {
    static var rows: Int { 4 }
    static var columns: Int { 2 }
}

private enum Board4x3: KernelSize {
    static var rows: Int { 4 }
    static var columns: Int { 3 }
}

private enum Board4x4: KernelSize {
    static var rows: Int { 4 }
    static var columns: Int { 4 }
}

/// The kernel for boards of this size, as it was compiled in this module; nil for larger boards.
public func kernel(rows: Int, columns: Int) -> (any KernelOperations.Type)? {
    switch (rows, columns) {
    case (2, 2): Board2x2.self
    case (2, 3): Board2x3.self
    case (2, 4): Board2x4.self
    case (3, 2): Board3x2.self
    case (3, 3): Board3x3.self
    case (3, 4): Board3x4.self
    case (4, 2): Board4x2.self
    case (4, 3): Board4x3.self
    case (4, 4): Board4x4.self
    default: nil
    }
}

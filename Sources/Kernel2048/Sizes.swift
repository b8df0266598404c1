// The board sizes that the kernel runs. Each has a type, so its numbers are constants in the loops.

#if KERNEL_AVX2
public import Kernel2048
#endif

/// A board size with 2 ... 4 rows and columns. The compiler specialises every operation of Kernel.swift and
/// Report.swift for each size.
protocol KernelSize: KernelOperations {
    static var rows: Int { get }
    static var columns: Int { get }
}

extension KernelSize {
    /// The number of cells of a board.
    @inline(__always) static var cellCount: Int { rows * columns }
    /// The number of cells in the longest line. Boards may be rotated, so it is also the maximum number of lines.
    @inline(__always) static var longest: Int { rows > columns ? rows : columns }
    /// The number of rows of `KernelScratch.merges` for each line: two merges need four cells.
    @inline(__always) static var mergesPerLine: Int { longest / 2 }
    @inline(__always) static var mergeRows: Int { longest * mergesPerLine }
    /// The number of bytes of a board while it is transposed: `cellCount`, rounded up to a power of two.
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

/// Returns this module's kernel for boards of this size; nil for larger boards.
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

internal import TwofoldCore

/// The legal slides of every row of four exponents, and the slide tables that searches also use.
///
/// This type holds the unsafe memory of `legal`. `@unchecked Sendable` because nothing writes to it after init.
final class RowTables: @unchecked Sendable {
    let slides = SlideTables.shared
    /// Bit 0: a slide to the left moves something. Bit 1: a slide to the right moves something.
    let legal: UnsafeMutablePointer<UInt8>

    init() {
        legal = .allocate(capacity: 65_536)
        for row in 0..<65_536 {
            legal[row] = (slides.left[row] != row ? 1 : 0) | (slides.right[row] != row ? 2 : 0)
        }
    }

    deinit { legal.deallocate() }
}

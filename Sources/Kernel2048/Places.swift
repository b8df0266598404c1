/// Writes the place of each board's weight in an n-tuple network: a number whose k-th digit, starting with the least
/// significant, is the exponent in the k-th cell.
///
/// - Parameters:
///   - cells: The cells.
///   - columns: The exponents of all boards, cell by cell: cell c starts at byte `c * stride`. It is aligned like a
///     block, and so is `stride`.
///   - base: The base of the number, above every exponent.
///   - table: The place of the table's first weight.
///   - count: The number of boards.
///   - places: Receives the place of each board's weight. It has room for `count` places, rounded up to a multiple of
///     16.
public func findPlaces(
    _ cells: UnsafeBufferPointer<Int>, in columns: UnsafePointer<UInt8>, stride: Int, base: UInt32,
    table: UInt32, count: Int, into places: UnsafeMutablePointer<UInt32>
) {
    for first in Swift.stride(from: 0, to: count, by: Numbers.scalarCount) {
        var numbers = Numbers(repeating: 0)
        for cell in cells.reversed() {
            numbers = numbers &* base &+ Numbers(columns + cell &* stride, first)
        }
        UnsafeMutableRawPointer(places + first).storeBytes(of: numbers &+ table, as: Numbers.self)
    }
}

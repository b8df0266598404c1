/// Writes the place of each board's weight in an n-tuple network: a number whose k-th digit, starting with the least
/// significant, is the exponent in the k-th cell.
///
/// - Parameters:
///   - cells: The cells.
///   - columns: The exponents of all boards, cell by cell: cell c starts at byte `c * stride`.
///   - base: The base of the number, above every exponent.
///   - table: The place of the table's first weight.
///   - count: The number of boards.
///   - places: Receives the place of each board's weight.
public func findPlaces(
    _ cells: UnsafeBufferPointer<Int>, in columns: UnsafePointer<UInt8>, stride: Int, base: UInt32,
    table: UInt32, count: Int, into places: UnsafeMutablePointer<UInt32>
) {
    for board in 0..<count { places[board] = 0 }
    for cell in cells.reversed() {
        let column = columns + cell &* stride
        for board in 0..<count { places[board] = places[board] &* base &+ UInt32(column[board]) }
    }
    for board in 0..<count { places[board] &+= table }
}

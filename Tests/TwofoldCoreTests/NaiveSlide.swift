/// A second implementation of a slide, which shares no code with the reference. It works on single tiles instead of
/// whole lines. Tiles have values instead of exponents. Each tile moves one cell at a time until it hits a wall or
/// another tile, starting with the tiles nearest the wall. A merged tile does not move or merge again in this slide.
///
///     towards the left      2 . 2 4      2 2 . 4      4 . . 4      4 . 4 .      4 4 . .
struct NaiveSlide {
    /// The exponents after the slide.
    private(set) var exponents: [UInt8] = []
    private(set) var score = 0
    private(set) var merges = 0
    private(set) var moved = false

    /// Slides a board. Actions are 0 up, 1 right, 2 down, 3 left.
    init(_ exponents: [UInt8], rows: Int, columns: Int, action: Int) {
        let (down, right) = [(-1, 0), (0, 1), (1, 0), (0, -1)][action]
        var values = exponents.map { $0 == 0 ? 0 : 1 << Int($0) }
        var isMerged = [Bool](repeating: false, count: values.count)
        let last = values.count - 1
        for index in 0...last {
            var cell = down + right > 0 ? last - index : index
            while values[cell] != 0 {
                let row = cell / columns + down
                let column = cell % columns + right
                guard row >= 0, row < rows, column >= 0, column < columns else { break }
                let next = row * columns + column
                if values[next] == 0 {
                    values[next] = values[cell]
                } else if values[next] == values[cell], !isMerged[next] {
                    values[next] *= 2
                    isMerged[next] = true
                    score += values[next]
                    merges += 1
                } else {
                    break
                }
                values[cell] = 0
                moved = true
                if isMerged[next] { break }
                cell = next
            }
        }
        self.exponents = values.map { $0 == 0 ? 0 : UInt8($0.trailingZeroBitCount) }
    }
}

/// The potentials that the potential terms of a reward compute from a board. All potentials are integers. Unless stated
/// otherwise, an empty cell counts as exponent 0.
extension Board {
    var exponentSum: Int {
        var sum = 0
        for cell in 0..<count { sum += Int(self[cell]) }
        return sum
    }

    /// The negated sum of the disorder of all rows and columns. The disorder of a row or column is its total rise or
    /// its total fall from cell to cell, whichever is smaller. The potential is at most 0; it is 0 if every row and
    /// column is sorted in one direction or the other.
    ///
    ///     3 1 0 2     falls by 2 + 1, rises by 2     counts -2
    var monotonicity: Int {
        var disorder = 0
        for direction in [Direction.left, .up] {
            for line in 0..<direction.lineCount(of: self) {
                var rise = 0
                var fall = 0
                for position in 1..<direction.lineLength(of: self) {
                    let step =
                        Int(self[direction.cell(line: line, position: position, of: self)])
                        - Int(self[direction.cell(line: line, position: position - 1, of: self)])
                    if step > 0 { rise += step } else { fall -= step }
                }
                disorder += min(rise, fall)
            }
        }
        return -disorder
    }

    /// The negated sum of the exponent differences between neighbouring tiles. Pairs with an empty cell are ignored.
    /// The potential is at most 0.
    ///
    ///     3 1 0 2     only 3 and 1 are neighbours     counts -2
    var smoothness: Int {
        var roughness = 0
        func compare(_ first: Int, _ second: Int) {
            guard self[first] != 0, self[second] != 0 else { return }
            roughness += abs(Int(self[first]) - Int(self[second]))
        }
        for row in 0..<rows {
            for column in 0..<columns {
                let cell = row * columns + column
                if column + 1 < columns { compare(cell, cell + 1) }
                if row + 1 < rows { compare(cell, cell + columns) }
            }
        }
        return -roughness
    }

    /// The largest exponent on the board if a corner holds a tile with this exponent, otherwise 0.
    var cornerExponent: Int {
        let largest = maxExponent
        let corners = [0, columns - 1, count - columns, count - 1]
        return corners.contains { self[$0] == largest } ? Int(largest) : 0
    }

    /// Returns the sum of exponent x weight over all cells. The weights are integers.
    func weighted(by weights: [Double]) -> Int {
        var sum = 0
        for cell in 0..<count { sum += Int(weights[cell]) * Int(self[cell]) }
        return sum
    }
}

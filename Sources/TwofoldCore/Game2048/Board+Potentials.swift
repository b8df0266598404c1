/// The potentials of a board for the potential terms of a reward. All are integers. An empty cell counts as
/// exponent 0 unless stated otherwise.
extension Board {
    /// The sum of the exponents.
    var exponentSum: Int {
        var sum = 0
        for cell in 0..<count { sum += Int(self[cell]) }
        return sum
    }

    /// Minus the disorder of all rows and columns. The disorder of a line is the smaller of its total rise
    /// and its total fall from cell to cell. The potential is at most 0; it is 0 if every line is sorted in
    /// either direction.
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

    /// Minus the exponent differences of neighbouring tiles; pairs with an empty cell are ignored. At most 0.
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

    /// The largest exponent if one of its tiles is in a corner, else 0.
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

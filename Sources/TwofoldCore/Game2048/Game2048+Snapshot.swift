public import Platform

/// The state of a 2048 board in a snapshot, little-endian:
///
///     0           8           12
///     ┌───────────┬───────────┬──────────────────────────────┐
///     │ score     │ moves     │ exponents, row by row        │
///     │ Int64     │ Int32     │ one byte per cell            │
///     └───────────┴───────────┴──────────────────────────────┘
extension Game2048 {
    public var rules: [Rule] {
        [
            Rule("size", "\(config.rows)x\(config.columns)"),
            Rule("goal", config.goal),
            Rule("stop_at_goal", config.stopAtGoal),
            // The spawn threshold, so that probabilities with the same threshold compare equal.
            Rule("four_probability", "\(spawnLaw.threshold)/2^32"),
            Rule("start_tiles", config.startTiles),
            Rule("illegal_action", config.illegalAction),
        ]
    }

    public var stateSize: Int { 12 + config.rows * config.columns }

    public var ownStateFields: [StateField] {
        [
            // The upper half of the score is always 0.
            StateField("score", Int32.self, at: recordHeadSize),
            StateField("moves", Int32.self, at: recordHeadSize + 8),
            StateField(
                "observation", UInt8.self, shape: [config.rows, config.columns], at: recordHeadSize + 12),
        ]
    }

    public func encode(_ state: State, into bytes: UnsafeMutableRawBufferPointer) {
        bytes.storeBytes(of: Int64(state.score).littleEndian, toByteOffset: 0, as: Int64.self)
        bytes.storeBytes(of: state.moves.littleEndian, toByteOffset: 8, as: Int32.self)
        for cell in 0..<state.board.count { bytes[12 + cell] = state.board[cell] }
    }

    public func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> State {
        let score = Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: 0, as: Int64.self))
        guard (0...Int64(Int32.max)).contains(score) else {
            throw Reason("has score \(score); it must be in 0...2^31 - 1")
        }
        let moves = Int32(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: Int32.self))
        guard (0...maxRecordedCount).contains(moves) else {
            throw Reason("has \(moves) moves; the number must be in 0...2^30")
        }
        var state = makeState()
        state.score = Int(score)
        state.moves = moves
        for cell in 0..<state.board.count { state.board[cell] = bytes[12 + cell] }
        // Play from this board must not reach an exponent that is too large for a byte, a score or a table.
        guard state.board.maxExponent <= 30, state.board.tileSum < 1 << 31 else {
            throw Reason("has tiles that add up to 2^31 or more")
        }
        state.legalActions = state.board.legalActions
        guard !isPlaying || !state.legalActions.isEmpty else {
            throw Reason("is in play but has no legal action")
        }
        return state
    }
}

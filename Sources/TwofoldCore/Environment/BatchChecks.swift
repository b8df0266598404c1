internal import Platform

/// The checks of every environment, whatever runs its boards; made before the first lane is touched.
struct BatchChecks: Sendable {
    let lanes: Int
    let actionCount: Int
    let autoreset: AutoresetMode
    /// Bytes of one board of ``ResetInput/boards``.
    let bytesPerBoard: Int

    init(_ game: some Game, _ options: BatchOptions) {
        lanes = options.lanes
        actionCount = game.actions.count
        autoreset = options.autoreset
        bytesPerBoard = game.boardSpace.shape.reduce(1, *)
    }

    /// Throws before the first reset, which has to include all lanes.
    func seeded(_ isSeeded: Bool) throws(EnvironmentError) {
        guard isSeeded else {
            throw .precondition("reset", lane: 0, "lane 0 was never reset: call reset first")
        }
    }

    func step(
        _ actions: UnsafeRawBufferPointer, isSeeded: Bool, skippingFinished: Bool,
        isFinished: (_ lane: Int) -> Bool
    ) throws(EnvironmentError) {
        try seeded(isSeeded)
        // Only a refused batch is searched for the lane.
        var largest: UInt8 = 0
        for lane in 0..<lanes { largest = max(largest, actions[lane]) }
        if Int(largest) >= actionCount, let lane = actions.firstIndex(where: { Int($0) >= actionCount }) {
            throw .invalid(
                "actions", lane: lane,
                "action \(actions[lane]) of lane \(lane) is outside 0...\(actionCount - 1)")
        }
        guard autoreset == .disabled, !skippingFinished else { return }
        for lane in 0..<lanes where isFinished(lane) {
            throw .precondition(
                "actions", lane: lane,
                "the episode of lane \(lane) has ended and autoreset is disabled: reset the lane first")
        }
    }

    func reset(
        _ input: ResetInput, isSeeded: Bool,
        checkBoard: (UnsafeRawBufferPointer) throws(Reason) -> Void
    ) throws(EnvironmentError) {
        for lane in 0..<lanes {
            guard (input.mask?[lane] ?? 1) <= 2 else {
                throw .invalid("reset_mask", lane: lane, "the mask of lane \(lane) is neither 0, 1 nor 2")
            }
            guard input.resets(lane) else {
                guard isSeeded else {
                    throw .precondition(
                        "reset_mask", lane: lane,
                        "lane \(lane) was never reset, so the mask has to include it")
                }
                continue
            }
            guard input.seed(lane) != nil || isSeeded else {
                throw .precondition(
                    "seed", lane: lane, "the first reset of lane \(lane) has to bring a seed")
            }
            guard let board = input.board(lane, bytes: bytesPerBoard) else { continue }
            do throws(Reason) {
                try checkBoard(board)
            } catch {
                throw .invalid("boards", lane: lane, "the board of lane \(lane) \(error)")
            }
        }
    }

    func restore(
        _ input: RestoreInput, isSeeded: Bool, check: (UnsafeRawBufferPointer) throws(Reason) -> Void
    ) throws(EnvironmentError) {
        if !isSeeded, input.lanes.count < lanes {
            let restored = Set(input.lanes)
            let lane = (0..<lanes).first { !restored.contains($0) }!
            throw .precondition(
                "lanes", lane: lane, "lane \(lane) was never reset, so the restore has to include it")
        }
        for (index, lane) in input.lanes.enumerated() {
            do throws(Reason) {
                try check(input.record(index))
            } catch {
                throw .invalid(
                    "blob", lane: lane, "the record \(input.rows[index]) for lane \(lane) \(error)")
            }
        }
    }
}

internal import TwofoldCore
internal import TwofoldProtocol

/// The plan of a rollout's reply: the number of steps that fit, and the layout of the arrays.
struct RolloutPlan {
    let steps: Int
    let frames: BatchLayout
    let rows: BatchLayout
    /// The layout of the final values of ended episodes. Only the SAME_STEP mode uses it.
    let finals: BatchLayout
    /// The maximum size of a reply, in bytes. A rollout reaches its time limit before it has written much more than
    /// this.
    private static let maxBytes = 256 << 20

    init(_ rollout: BatchRollout, _ request: RolloutRequest, lanes: Int, maxSteps: Int) {
        let (frameSpecs, stepSpecs, finalSpecs) = (
            rollout.frameArrays, rollout.stepArrays, rollout.finalArrays
        )
        func bytes(_ specs: [ArraySpec]) -> Int { specs.reduce(0) { $0 + $1.bytesPerLane } }
        // Room for every lane to end two episodes.
        let finalRows = finalSpecs.isEmpty ? 0 : 2 * lanes
        let fixed =
            bytes(frameSpecs) + finalRows * bytes(finalSpecs)
            + 64 * (frameSpecs.count + stepSpecs.count + finalSpecs.count)
        let each = bytes(frameSpecs) + bytes(stepSpecs)
        let room = max(0, min(Self.maxBytes, Int(clamping: request.maxPayloadBytes)) - fixed)
        steps = max(1, min(Int(request.steps), maxSteps, room / each))
        frames = BatchLayout(frameSpecs, lanes: steps + 1)
        rows = BatchLayout(stepSpecs, lanes: steps, from: frames.size)
        finals = BatchLayout(finalSpecs, lanes: finalRows, from: rows.size)
    }

    var size: Int { finals.size }

    /// Compacts the arrays, so that the reply contains only the completed steps.
    func reply(
        _ done: BatchRollout.Progress, in memory: UnsafeMutableRawBufferPointer
    ) -> (RolloutReply, payloadSize: Int) {
        let frames = BatchLayout(frames.specs, lanes: done.steps + 1)
        let rows = BatchLayout(rows.specs, lanes: done.steps, from: frames.size)
        var moves =
            Array(zip(self.frames.ranges, frames.ranges)) + Array(zip(self.rows.ranges, rows.ranges))
        var reply = RolloutReply()
        reply.steps = UInt32(done.steps)
        reply.arrays = frames.wire
        reply.arrays.arrays += rows.wire.arrays
        reply.arrays.size = UInt64(rows.size)
        var size = rows.size
        if done.finals > 0 {
            let finals = BatchLayout(finals.specs, lanes: done.finals, from: rows.size)
            moves += zip(self.finals.ranges, finals.ranges)
            reply.finals = finals.wire
            size = finals.size
        }
        // All moves go towards the front, and in this order, so no move overwrites bytes that a later move reads.
        var end = 0
        for (source, target) in moves {
            memory[end..<target.lowerBound].initializeMemory(as: UInt8.self, repeating: 0)
            if source.lowerBound != target.lowerBound {
                (memory.baseAddress! + target.lowerBound).copyMemory(
                    from: memory.baseAddress! + source.lowerBound, byteCount: target.count)
            }
            end = target.upperBound
        }
        return (reply, size)
    }
}

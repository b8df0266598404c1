internal import Platform

/// States of boards in arrays that the caller owns: one array for each ``StateField``.
///
/// A batch can step such boards. It then reads each state from arrays and returns the next state in arrays, and the
/// batch itself is only working memory:
///
///     states ──check──► load ──► step ──► restart (SAME_STEP) ──► store ──► rest of the states
///                                 └──► arrays of the step, which hold the other fields
package struct CallerStates: Sendable {
    /// The fields, in the order of the arrays.
    let fields: [StateField]
    let arrays: BatchArrays
    /// The size of a record in bytes.
    let recordSize: Int

    /// Calls `body` with a temporary record of a lane, which holds the lane's state.
    func withRecord<Result, Failure: Error>(
        _ lane: Int, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withTemporaryRecord { (record) throws(Failure) in
            record.initializeMemory(as: UInt8.self, repeating: 0)
            for (array, field) in fields.enumerated() {
                (record.baseAddress! + field.offset).copyMemory(
                    from: arrays.address(array: array, lane: lane), byteCount: field.spec.bytesPerLane)
            }
            return try body(UnsafeRawBufferPointer(record))
        }
    }

    /// Writes a lane's state to the arrays. `fill` first writes the state to a temporary record.
    func store(_ lane: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        withTemporaryRecord { record in
            fill(record)
            for (array, field) in fields.enumerated() {
                arrays.address(array: array, lane: lane).copyMemory(
                    from: record.baseAddress! + field.offset, byteCount: field.spec.bytesPerLane)
            }
        }
    }

    private func withTemporaryRecord<Result, Failure: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // because: the standard function loses the error's type.
        let result = withUnsafeTemporaryAllocation(byteCount: recordSize, alignment: 8) { record in
            Swift.Result { () throws(Failure) in try body(record) }
        }
        return try result.get()
    }
}

/// Default implementations for any engine, which pass each lane's state through a record.
extension BatchEngine {
    func check(_ states: CallerStates, lanes: Int) throws(EnvironmentError) {
        for lane in 0..<lanes { try checkRecord(of: lane, in: states) }
    }

    func checkRecord(of lane: Int, in states: CallerStates) throws(EnvironmentError) {
        do throws(Reason) {
            try states.withRecord(lane) { (record) throws(Reason) in try check(record) }
        } catch {
            throw .invalid("state", lane: lane, "the state of lane \(lane) \(error)")
        }
    }

    func load(_ block: Range<Int>, from states: CallerStates, _ phases: LanePhases, worker: Int) {
        for lane in block {
            phases[lane] = states.withRecord(lane) { load(lane, from: $0, seed: nil) }
        }
    }

    func store(_ block: Range<Int>, into rest: CallerStates, _ phases: LanePhases) {
        for lane in block { rest.store(lane) { store(lane, into: $0) } }
    }
}

extension Batch {
    /// The arrays of the states that ``step(_:actions:into:finals:rest:)`` reads.
    package var stateArrays: [ArraySpec] { stateFields.all.map(\.spec) }
    /// The arrays among ``stateArrays`` that ``resetArrays`` do not include.
    package var restArrays: [ArraySpec] { stateFields.rest.map(\.spec) }

    /// Throws if a step depends on more than the states: on the return so far, or on a table.
    package func checkStateless() throws(EnvironmentError) {
        guard !hasPasses else {
            throw .invalid(
                "extra_infos",
                "extra_infos has an info that depends on earlier steps or on a table; only infos that depend on the "
                    + "move alone are possible here")
        }
    }

    /// Starts an episode in each lane from the lane's seed, and writes the arrays of a reset and the rest of the states.
    /// `seeds` holds one little-endian number of 64 bits per lane.
    package func reset(
        seeds: UnsafeRawBufferPointer, into arrays: BatchArrays, rest: BatchArrays
    ) throws(EnvironmentError) {
        let input = ResetInput(seeds: seeds)
        try reset(input, into: arrays)
        let (engine, phases) = (engine, phases)
        let rest = CallerStates(fields: stateFields.rest, arrays: rest, recordSize: recordSize)
        forEachBlock { block, _ in engine.store(block, into: rest, phases) }
    }

    /// Plays one action on each board of `states`. A lane whose episode has ended waits if autoreset is disabled.
    ///
    /// Writes the arrays of a step and the rest of the next states. In the mode SAME_STEP, `finals` has the arrays of a
    /// reset for all lanes, and receives their rows from before the restarts. `states` may share memory with the arrays
    /// that are written, as long as each row shares memory with the same lane's row only. A call that throws has written
    /// nothing.
    package func step(
        _ states: BatchArrays, actions: UnsafeRawBufferPointer, into arrays: BatchArrays,
        finals: BatchArrays?, rest: BatchArrays
    ) throws(EnvironmentError) {
        let states = CallerStates(fields: stateFields.all, arrays: states, recordSize: recordSize)
        let rest = CallerStates(fields: stateFields.rest, arrays: rest, recordSize: recordSize)
        try engine.check(states, lanes: lanes)
        try checkActions(actions)
        let (engine, phases, keys, actions) = (engine, phases, keys, LaneInput<UInt8>(actions))
        forEachBlock { block, worker in
            engine.load(block, from: states, phases, worker: worker)
            engine.step(block, actions: actions, into: arrays, worker: worker)
            phases.advance(block, in: arrays, keys)
            if let finals {
                finals.copyRows(block, of: keys.resetCount, from: arrays, startingAt: block.lowerBound)
                arrays.forEachEnded(keys, among: block) { lane in
                    engine.start(lane, seed: nil, from: nil)
                    phases[lane] = .playing
                    engine.observe(lane: lane, into: arrays)
                }
            }
            engine.store(block, into: rest, phases)
        }
    }
}

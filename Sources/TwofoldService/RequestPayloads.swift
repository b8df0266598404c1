package import TwofoldCore
internal import TwofoldProtocol

// The functions that check the payload frames of requests and split them into arrays.

extension ServedEnvironment {
    func stepActions(
        _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> UnsafeRawBufferPointer {
        guard let payload else {
            throw .invalid("actions", "a step needs a payload frame: actions, uint8 [\(lanes)]")
        }
        guard payload.count == lanes else {
            throw .invalid(
                "actions", "actions has \(payload.count) bytes; expected \(lanes): uint8 [\(lanes)]")
        }
        return payload
    }

    /// Splits a reset's payload into the arrays that the request announces.
    func resetInput(
        _ request: ResetRequest, _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> ResetInput {
        let boardBytes = batch.boardSpace.shape.reduce(1, *)
        var announced: [String] = []
        var size = 0
        func announce(_ isThere: Bool, _ name: String, bytesPerLane: Int) -> Range<Int>? {
            guard isThere else { return nil }
            announced.append("\(name) of \(lanes * bytesPerLane) bytes")
            size += lanes * bytesPerLane
            return size - lanes * bytesPerLane..<size
        }
        let seeds = announce(request.seeds, "seeds", bytesPerLane: 8)
        let mask = announce(request.mask, "mask", bytesPerLane: 1)
        let boards = announce(request.boards, "boards", bytesPerLane: boardBytes)
        guard (payload?.count ?? 0) == size else {
            throw .invalid(
                "payload",
                "the reset's payload has \(payload?.count ?? 0) bytes; expected \(size): "
                    + (announced.isEmpty ? "the request has no arrays" : announced.joined(separator: ", ")))
        }
        func part(_ range: Range<Int>?) -> UnsafeRawBufferPointer? {
            range.map { UnsafeRawBufferPointer(rebasing: payload![$0]) }
        }
        return ResetInput(seeds: part(seeds), mask: part(mask), boards: part(boards))
    }

    /// Reads lane numbers from an array. Returns all lanes if there is no array.
    func laneNumbers(_ bytes: UnsafeRawBufferPointer?) throws(EnvironmentError) -> [Int] {
        guard let bytes else { return Array(0..<lanes) }
        guard bytes.count % 8 == 0 else {
            throw .invalid("lanes", "lanes has \(bytes.count) bytes; uint64 numbers need 8 each")
        }
        guard !bytes.isEmpty else { throw .invalid("lanes", "lanes is empty; expected at least one") }
        var isNamed = [Bool](repeating: false, count: lanes)
        var numbers: [Int] = []
        numbers.reserveCapacity(min(bytes.count / 8, lanes))
        for offset in stride(from: 0, to: bytes.count, by: 8) {
            let number = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            guard number < UInt64(lanes) else {
                throw .invalid("lanes", "lanes contains \(number); the lanes are 0...\(lanes - 1)")
            }
            let lane = Int(number)
            guard !isNamed[lane] else { throw .invalid("lanes", lane: lane, "lane \(lane) occurs twice") }
            isNamed[lane] = true
            numbers.append(lane)
        }
        return numbers
    }

    /// Splits a restore's payload into the arrays that the request announces, and the snapshot after them.
    func restoreInput(
        _ request: RestoreRequest, _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> (RestoreInput, SavedStreams) {
        guard let payload else { throw .invalid("blob", "a restore needs a payload frame: the snapshot") }
        guard request.count >= 1 else { throw .invalid("lanes", "lanes is empty; expected at least one") }
        guard request.count <= UInt64(lanes) else {
            throw .invalid("lanes", "the request restores \(request.count) lanes; the session has \(lanes)")
        }
        guard request.lanes || request.count == UInt64(lanes) else {
            throw .invalid(
                "lanes",
                "the request restores \(request.count) of \(lanes) lanes, but does not say which: send lanes")
        }
        let count = Int(request.count)
        var start = 0
        func next(_ isThere: Bool) throws(EnvironmentError) -> UnsafeRawBufferPointer? {
            guard isThere else { return nil }
            guard payload.count >= start + 8 * count else {
                throw .invalid(
                    "payload", "the restore's payload has \(payload.count) bytes, too few for its arrays")
            }
            defer { start += 8 * count }
            return UnsafeRawBufferPointer(rebasing: payload[start..<start + 8 * count])
        }
        let (named, rows, seeds) = (
            try next(request.lanes), try next(request.rows), try next(request.seeds)
        )
        let (records, streams, returns) = try snapshotFormat.open(
            UnsafeRawBufferPointer(rebasing: payload[start...]))
        let held = records.count / snapshotFormat.recordSize
        guard request.rows || held == count else {
            throw .invalid("blob", "the blob has \(held) lanes; the request restores \(count)")
        }
        let input = RestoreInput(
            lanes: try laneNumbers(named), rows: try rowNumbers(rows, count: count, held: held),
            seeds: seeds, records: records, returns: returns)
        return (input, streams)
    }

    private func rowNumbers(
        _ bytes: UnsafeRawBufferPointer?, count: Int, held: Int
    ) throws(EnvironmentError) -> [Int] {
        guard let bytes else { return Array(0..<count) }
        var rows: [Int] = []
        rows.reserveCapacity(count)
        for index in 0..<count {
            let row = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self))
            guard row < UInt64(held) else {
                throw .invalid("rows", "rows contains \(row); the blob has only \(held) rows")
            }
            rows.append(Int(row))
        }
        return rows
    }
}

extension EnvironmentError {
    /// The refusal of a payload in a request that must not have one.
    package static var noPayload: EnvironmentError {
        .invalid("payload", "this request takes no payload frame")
    }
}

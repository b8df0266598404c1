package import TwofoldCore
internal import TwofoldProtocol

// The functions that check the payload frames of requests and split them into arrays.

extension ServedEnvironment {
    func stepActions(
        _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> UnsafeRawBufferPointer {
        guard let payload, payload.count == lanes else {
            throw .invalid(
                "actions", "actions has \(payload?.count ?? 0) bytes; expected \(lanes): uint8 [\(lanes)]")
        }
        return payload
    }

    /// Splits a reset's payload into the arrays that the request announces.
    func resetInput(
        _ request: ResetRequest, _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> ResetInput {
        let boardBytes = batch.boardSpace.shape.reduce(1, *)
        let arrays = [
            (request.seeds, "seeds", 8), (request.mask, "mask", 1), (request.boards, "boards", boardBytes),
        ]
        let parts = try split(payload, arrays.filter(\.0).map { ($1, lanes * $2) })
        return ResetInput(seeds: parts["seeds"], mask: parts["mask"], boards: parts["boards"])
    }

    /// Reads lane numbers from an array. Returns all lanes if there is no array.
    func laneNumbers(_ bytes: UnsafeRawBufferPointer?) throws(EnvironmentError) -> [Int] {
        guard let bytes else { return Array(0..<lanes) }
        guard bytes.count % 8 == 0 else {
            throw .invalid("lanes", "lanes has \(bytes.count) bytes; uint64 numbers need 8 each")
        }
        guard !bytes.isEmpty else { throw .invalid("lanes", "lanes is empty; expected at least one") }
        guard bytes.count / 8 <= lanes else {
            throw .invalid(
                "lanes", "lanes contains \(bytes.count / 8) numbers; the session has only \(lanes) lanes")
        }
        let numbers = try numbers(bytes, "lanes", below: lanes)
        var isNamed = [Bool](repeating: false, count: lanes)
        for lane in numbers {
            guard !isNamed[lane] else { throw .invalid("lanes", lane: lane, "lane \(lane) occurs twice") }
            isNamed[lane] = true
        }
        return numbers
    }

    /// Reads an array of uint64, which must all be below `limit`.
    private func numbers(
        _ bytes: UnsafeRawBufferPointer, _ field: String, below limit: Int
    ) throws(EnvironmentError) -> [Int] {
        var numbers: [Int] = []
        numbers.reserveCapacity(bytes.count / 8)
        for offset in stride(from: 0, to: bytes.count, by: 8) {
            let number = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            guard number < UInt64(limit) else {
                throw .invalid(field, "\(field) contains \(number); each number must be less than \(limit)")
            }
            numbers.append(Int(number))
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
        let arrays = [(request.lanes, "lanes"), (request.rows, "rows"), (request.seeds, "seeds")]
            .filter(\.0).map { ($1, 8 * count) }
        let blob = ("blob", max(0, payload.count - arrays.count * 8 * count))
        let parts = try split(payload, arrays + [blob])
        let (records, streams, returns) = try snapshotFormat.open(parts["blob"]!)
        let held = records.count / snapshotFormat.recordSize
        guard request.rows || held == count else {
            throw .invalid("blob", "the blob has \(held) lanes; the request restores \(count)")
        }
        let input = RestoreInput(
            lanes: try laneNumbers(parts["lanes"]),
            rows: try parts["rows"].map { (rows) throws(EnvironmentError) in
                try numbers(rows, "rows", below: held)
            } ?? Array(0..<count),
            seeds: parts["seeds"], records: records, returns: returns)
        return (input, streams)
    }
}

/// Splits a payload into consecutive arrays of these sizes in bytes. Throws if their sizes are not the payload's size.
func split(
    _ payload: UnsafeRawBufferPointer?, _ arrays: [(name: String, bytes: Int)]
) throws(EnvironmentError) -> [String: UnsafeRawBufferPointer] {
    let size = arrays.reduce(0) { $0 + $1.bytes }
    guard (payload?.count ?? 0) == size else {
        let list = arrays.map { "\($0.name) of \($0.bytes) bytes" }.joined(separator: ", ")
        throw .invalid(
            "payload",
            "the payload has \(payload?.count ?? 0) bytes; expected \(size): "
                + (arrays.isEmpty ? "the request has no arrays" : list))
    }
    var parts: [String: UnsafeRawBufferPointer] = [:]
    var end = 0
    for (name, bytes) in arrays {
        parts[name] = UnsafeRawBufferPointer(rebasing: payload![end..<end + bytes])
        end += bytes
    }
    return parts
}

extension EnvironmentError {
    /// The refusal of a payload in a request that must not have one.
    package static var noPayload: EnvironmentError {
        .invalid("payload", "this request takes no payload frame")
    }
}

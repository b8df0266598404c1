package import Foundation
import SwiftProtobuf
package import TwofoldProtocol

// Requests and replies as bytes, for the tests of several modules.

extension Request {
    /// The bytes of the header frame.
    package var bytes: [UInt8] { try! serializedBytes() }

    /// Creates a request in a session.
    package init(_ op: OneOf_Op, session: Data = Data(), epoch: UInt32 = 1, seq: UInt64 = 0) {
        self.init()
        self.session = session
        self.epoch = epoch
        self.seq = seq
        self.op = op
    }
}

extension Reply {
    /// Decodes the reply in a header frame.
    package init(bytes: [UInt8]) throws { try self.init(serializedBytes: bytes) }

    /// Whether the message contains fields that this protocol does not define.
    package var hasUnknownFields: Bool { !unknownFields.data.isEmpty }
}

extension Request.OneOf_Op {
    /// A hello request with this protocol's version.
    package static var hello: Self {
        var request = HelloRequest()
        request.protocolVersion = 1
        request.client = "a test"
        return .hello(request)
    }

    /// Returns a create request for the game 2048.
    package static func create(lanes: Int, _ change: (inout CreateRequest) -> Void = { _ in }) -> Self {
        .create(createRequest(lanes: lanes, change))
    }

    /// Returns an expand request for the game 2048.
    package static func expand(
        _ operation: ExpandOperation, boards: Int, _ change: (inout ExpandRequest) -> Void = { _ in }
    ) -> Self {
        var request = ExpandRequest()
        request.environmentID = "twofold/Game2048-v0"
        request.count = UInt64(boards)
        request.operation = operation
        change(&request)
        return .expand(request)
    }

    /// Returns a rollout request.
    package static func rollout(
        steps: UInt32, maxPayloadBytes: UInt64 = 0, _ change: (inout RolloutRequest) -> Void
    ) -> Self {
        var request = RolloutRequest()
        (request.steps, request.maxPayloadBytes) = (steps, maxPayloadBytes)
        change(&request)
        return .rollout(request)
    }

    /// A rollout of one random step.
    package static var randomStep: Self { .rollout(steps: 1) { $0.random = .init() } }

    /// A request that resets all lanes with new seeds.
    package static var seededReset: Self {
        var request = ResetRequest()
        request.seeds = true
        return .reset(request)
    }

    package static var step: Self { .step(.init()) }
    package static var observe: Self { .observe(.init()) }
    package static var afterstates: Self { .afterstates(.init()) }
    package static var close: Self { .close(.init()) }
}

/// Returns a create request for the game 2048.
package func createRequest(lanes: Int, _ change: (inout CreateRequest) -> Void = { _ in }) -> CreateRequest {
    var request = CreateRequest()
    request.environmentID = "twofold/Game2048-v0"
    request.numEnvs = UInt64(lanes)
    change(&request)
    return request
}

/// Returns seeds in the protocol's encoding: 8 bytes each, little-endian.
package func bytes(of seeds: [UInt64]) -> [UInt8] {
    seeds.flatMap { seed in (0..<8).map { UInt8(truncatingIfNeeded: seed >> ($0 * 8)) } }
}

extension ArrayLayout {
    /// The size of the array in bytes.
    package var byteCount: Int {
        let size =
            switch dtype {
            case .bool, .uint8, .int8: 1
            case .int32, .float32: 4
            case .uint64, .float64: 8
            case .unspecified, .UNRECOGNIZED: 0
            }
        return shape.reduce(size) { $0 * Int($1) }
    }
}

extension PayloadLayoutMessage {
    /// Returns the rows of some lanes in each array of a payload, keyed by the array's name.
    package func rows(_ lanes: Range<Int>, of payload: [UInt8]) -> [String: [UInt8]] {
        var rows: [String: [UInt8]] = [:]
        for array in arrays {
            let (start, row) = (Int(array.offset), array.byteCount / Int(array.shape[0]))
            rows[array.name] = Array(payload[start + lanes.lowerBound * row..<start + lanes.upperBound * row])
        }
        return rows
    }

    /// Returns the bytes of one array in a payload.
    package func array(_ name: String, of payload: [UInt8]) -> [UInt8] {
        rows(0..<Int(arrays[0].shape[0]), of: payload)[name]!
    }
}

/// A seeded random number generator, whose numbers are the same in each run.
package struct Dice: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }

    /// Returns this many random bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }
}

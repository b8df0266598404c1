internal import TwofoldCore
internal import TwofoldProtocol

/// Where the arrays of a reply lie in its payload frame: in their order, each at a multiple of 64 bytes.
///
///     0            64·k          64·l
///     ┌────────────┬─────────────┬───────────┐
///     │observation │ action_mask │ …         │     N rows in each, no gaps between rows
///     └────────────┴─────────────┴───────────┘
///
/// The arrays of a step's finals lie behind those of the step, in the same payload.
struct PayloadLayout {
    let specs: [ArraySpec]
    let lanes: Int
    let offsets: [Int]
    /// Where what lies before these arrays ends.
    private let start: Int
    /// Bytes of the whole payload; 0 without arrays.
    let size: Int

    /// A layout of so many rows in each array, behind the first `start` bytes of the payload.
    init(_ specs: [ArraySpec], lanes: Int, from start: Int = 0) {
        var offsets: [Int] = []
        var end = start
        for spec in specs {
            let offset = (end + 63) / 64 * 64
            offsets.append(offset)
            end = offset + spec.bytesPerLane * lanes
        }
        self.specs = specs
        self.lanes = lanes
        self.offsets = offsets
        self.start = start
        size = end
    }

    /// The arrays in a carrier's memory of at least ``size`` bytes; the gaps between them are cleared.
    func arrays(in memory: UnsafeMutableRawBufferPointer) -> BatchArrays {
        var end = start
        for (spec, offset) in zip(specs, offsets) {
            memory[end..<offset].initializeMemory(as: UInt8.self, repeating: 0)
            end = offset + spec.bytesPerLane * lanes
        }
        return BatchArrays(memory, specs: specs, offsets: offsets, lanes: lanes)
    }

    var wire: PayloadLayoutMessage {
        var wire = PayloadLayoutMessage()
        wire.size = UInt64(size)
        wire.arrays = zip(specs, offsets).map { spec, offset in
            var array = ArrayLayout()
            array.name = spec.name
            array.dtype = spec.dtype.wire
            array.shape = ([lanes] + spec.shape).map(UInt64.init)
            array.offset = UInt64(offset)
            return array
        }
        return wire
    }
}

extension ObservationSpace {
    var wire: SpaceMessage {
        var wire = SpaceMessage()
        wire.box.dtype = .uint8
        wire.box.shape = shape.map(UInt64.init)
        wire.box.low = Double(range.lowerBound)
        wire.box.high = Double(range.upperBound)
        return wire
    }
}

extension DataType {
    var wire: Twofold_V1_DataType {
        switch self {
        case .bool: .bool
        case .uint8: .uint8
        case .int8: .int8
        case .int32: .int32
        case .float32: .float32
        case .uint64: .uint64
        }
    }
}

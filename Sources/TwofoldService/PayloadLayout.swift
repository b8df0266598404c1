internal import TwofoldCore
internal import TwofoldProtocol

/// Where the arrays of a reply lie in its payload frame: in their order, each at a multiple of 64 bytes.
///
///     0            64·k          64·l
///     ┌────────────┬─────────────┬───────────┐
///     │observation │ action_mask │ …         │     N rows in each, no gaps between rows
///     └────────────┴─────────────┴───────────┘
struct PayloadLayout {
    let specs: [ArraySpec]
    let lanes: Int
    let offsets: [Int]
    /// Bytes of the whole payload; 0 without arrays.
    let size: Int

    init(_ specs: [ArraySpec], lanes: Int) {
        var offsets: [Int] = []
        var end = 0
        for spec in specs {
            let offset = (end + 63) / 64 * 64
            offsets.append(offset)
            end = offset + spec.bytesPerLane * lanes
        }
        self.specs = specs
        self.lanes = lanes
        self.offsets = offsets
        size = end
    }

    /// The arrays in a carrier's memory, whose size is ``size``; the gaps between them are cleared.
    func arrays(in memory: UnsafeMutableRawBufferPointer) -> BatchArrays {
        var end = 0
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

extension DataType {
    var wire: Twofold_V1_DataType {
        switch self {
        case .bool: .bool
        case .uint8: .uint8
        case .int8: .int8
        case .int32: .int32
        case .float32: .float32
        }
    }
}

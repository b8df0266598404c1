internal import TwofoldCore
internal import TwofoldProtocol

extension BatchLayout {
    /// The layout, as a protobuf message.
    var wire: PayloadLayoutMessage {
        var wire = PayloadLayoutMessage()
        wire.size = UInt64(size)
        wire.arrays = zip(specs, ranges).map { spec, range in
            var array = ArrayLayout()
            array.name = spec.name
            array.dtype = spec.dtype.wire
            array.shape = ([lanes] + spec.shape).map(UInt64.init)
            array.offset = UInt64(range.lowerBound)
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
        case .uint32: preconditionFailure("no reply has arrays of this type")
        case .float32: .float32
        case .uint64: .uint64
        case .float64: .float64
        }
    }
}

/// One named array of a batch: the part of one lane.
public struct ArraySpec: Equatable, Sendable {
    /// The name that users know: "observation", "action_mask".
    public let name: String
    /// Element type.
    public let dtype: DataType
    /// Shape of one lane's part; the batch adds a leading axis of lanes.
    public let shape: [Int]

    /// An array of this name, element type and shape per lane.
    public init(_ name: String, _ dtype: DataType, shape: [Int] = []) {
        self.name = name
        self.dtype = dtype
        self.shape = shape
    }

    /// Bytes of one lane's part.
    public var bytesPerLane: Int { shape.reduce(dtype.size, *) }
}

/// An element type of the arrays that an environment fills.
public enum DataType: Sendable {
    /// One byte, 0 or 1.
    case bool
    case uint8
    case int8
    case int32
    case float32
    case uint64
    case float64

    /// Bytes of one element.
    public var size: Int {
        switch self {
        case .bool, .uint8, .int8: 1
        case .int32, .float32: 4
        case .uint64, .float64: 8
        }
    }
}

/// The observations of one board: an array of bytes in a closed range.
public struct ObservationSpace: Equatable, Sendable {
    /// Shape of one observation.
    public let shape: [Int]
    /// Smallest and largest byte.
    public let range: ClosedRange<UInt8>

    /// Bytes of this shape and range.
    public init(shape: [Int], range: ClosedRange<UInt8>) {
        self.shape = shape
        self.range = range
    }
}

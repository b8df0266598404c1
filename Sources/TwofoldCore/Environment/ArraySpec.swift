/// The name, element type and shape of one array of a batch. The shape describes a single lane.
public struct ArraySpec: Equatable, Sendable {
    /// The name that users see, for example "observation" or "action_mask".
    public let name: String
    public let dtype: DataType
    /// The shape for one lane. In a batch, the array has a leading axis of lanes.
    public let shape: [Int]

    /// Describes an array. `shape` is the shape of one lane's row.
    public init(_ name: String, _ dtype: DataType, shape: [Int] = []) {
        self.name = name
        self.dtype = dtype
        self.shape = shape
    }

    public var bytesPerLane: Int { shape.reduce(dtype.size, *) }
}

/// The key of an array in an ``ArrayList``, with the array's element type. Only ``ArrayList`` makes keys.
public struct ArrayKey<Element: ArrayElement>: Sendable {
    @usableFromInline let index: Int
}

/// The arrays of a reply, in order.
public struct ArrayList: Sendable {
    public private(set) var specs: [ArraySpec] = []

    public init() {}

    /// Adds an array to the end of the list and returns its key.
    public mutating func add<Element: ArrayElement>(
        _ name: String, _ type: Element.Type = Element.self, shape: [Int] = []
    ) -> ArrayKey<Element> {
        add(ArraySpec(name, Element.dtype, shape: shape))
        return ArrayKey(index: specs.count - 1)
    }

    /// Adds an array to the end of the list, without a key.
    mutating func add(_ spec: ArraySpec) { specs.append(spec) }
}

/// A Swift type that the elements of an array can have.
public protocol ArrayElement: BitwiseCopyable, Sendable {
    static var dtype: DataType { get }
}

extension Bool: ArrayElement { public static var dtype: DataType { .bool } }
extension UInt8: ArrayElement { public static var dtype: DataType { .uint8 } }
extension Int8: ArrayElement { public static var dtype: DataType { .int8 } }
extension Int32: ArrayElement { public static var dtype: DataType { .int32 } }
extension UInt32: ArrayElement { public static var dtype: DataType { .uint32 } }
extension Float: ArrayElement { public static var dtype: DataType { .float32 } }
extension UInt64: ArrayElement { public static var dtype: DataType { .uint64 } }
extension Double: ArrayElement { public static var dtype: DataType { .float64 } }

/// The element type of an array that an environment fills.
public enum DataType: Sendable {
    /// One byte, 0 or 1.
    case bool
    case uint8
    case int8
    case int32
    /// Only in the arrays of ``StateField``s, never in a reply.
    case uint32
    case float32
    case uint64
    case float64

    /// The size of one element in bytes.
    public var size: Int {
        switch self {
        case .bool, .uint8, .int8: 1
        case .int32, .uint32, .float32: 4
        case .uint64, .float64: 8
        }
    }
}

/// The observation space of one board: an array of bytes in a closed range.
public struct ObservationSpace: Equatable, Sendable {
    public let shape: [Int]
    /// The smallest and the largest value of an element.
    public let range: ClosedRange<UInt8>
}

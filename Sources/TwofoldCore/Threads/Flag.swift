internal import Synchronization

/// Something that one thread says once and others ask.
public final class Flag: Sendable {
    private let value = Atomic(false)

    /// Not said yet.
    public init() {}

    /// Whether it was said.
    public var isSet: Bool { value.load(ordering: .relaxed) }

    /// Says it.
    public func set() { value.store(true, ordering: .relaxed) }
}

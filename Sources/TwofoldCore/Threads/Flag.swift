internal import Synchronization

/// A signal that one thread sets once and others check.
public final class Flag: Sendable {
    private let value = Atomic(false)

    /// Makes a flag that is not set.
    public init() {}

    /// Whether the flag is set.
    public var isSet: Bool { value.load(ordering: .relaxed) }

    /// Sets the flag.
    public func set() { value.store(true, ordering: .relaxed) }
}

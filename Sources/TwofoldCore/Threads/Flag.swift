internal import Synchronization

/// A signal that one thread sets once and others check.
public final class Flag: Sendable {
    private let value = Atomic(false)

    /// A flag that is not set.
    public init() {}

    /// Whether it was set.
    public var isSet: Bool { value.load(ordering: .relaxed) }

    /// Sets it.
    public func set() { value.store(true, ordering: .relaxed) }
}

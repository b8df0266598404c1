internal import Synchronization

/// Something that one thread says once and others ask.
final class Flag: Sendable {
    private let value = Atomic(false)

    /// Whether it was said.
    var isSet: Bool { value.load(ordering: .relaxed) }

    /// Says it.
    func set() { value.store(true, ordering: .relaxed) }
}

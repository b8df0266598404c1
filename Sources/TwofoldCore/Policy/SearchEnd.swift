/// When a search for actions has to end: at a moment, or as soon as it is asked to stop.
public struct SearchEnd: Sendable {
    private let deadline: ContinuousClock.Instant
    private let stop: Flag?

    /// At this moment; earlier once `stop` is set.
    public init(_ deadline: ContinuousClock.Instant, or stop: Flag? = nil) {
        self.deadline = deadline
        self.stop = stop
    }

    /// Whether it is time.
    var hasCome: Bool { stop?.isSet == true || ContinuousClock.now >= deadline }
}

/// A queue of events, ordered by time. Events at the same time keep the order of their insertion.
struct EventQueue<Event> {
    /// The events, the next one last. Few events wait at the same time.
    private var waiting: [(time: Int, event: Event)] = []

    mutating func add(_ event: Event, at time: Int) {
        let place = waiting.firstIndex { $0.time <= time } ?? waiting.count
        waiting.insert((time, event), at: place)
    }

    mutating func next() -> (time: Int, event: Event)? { waiting.popLast() }
}

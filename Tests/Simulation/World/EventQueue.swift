/// A queue of events, ordered by time. Events at the same time keep the order of their insertion.
struct EventQueue<Event> {
    private struct Entry {
        let time: Int
        let order: Int
        let event: Event

        func precedes(_ other: Entry) -> Bool {
            time != other.time ? time < other.time : order < other.order
        }
    }

    /// A binary heap: the entry at index `i` precedes those at `2 * i + 1` and `2 * i + 2`.
    private var heap: [Entry] = []
    private var added = 0

    mutating func add(_ event: Event, at time: Int) {
        heap.append(Entry(time: time, order: added, event: event))
        added += 1
        var child = heap.count - 1
        while child > 0, heap[child].precedes(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func next() -> (time: Int, event: Event)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var least = 2 * parent + 1
                guard least < heap.count else { break }
                if least + 1 < heap.count, heap[least + 1].precedes(heap[least]) { least += 1 }
                guard heap[least].precedes(heap[parent]) else { break }
                heap.swapAt(parent, least)
                parent = least
            }
        }
        return (first.time, first.event)
    }
}

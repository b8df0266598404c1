internal import Platform
internal import Synchronization

/// Results that other threads deliver to the socket thread, and a descriptor that wakes the socket thread.
final class Mailbox<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])
    private let wakeup: Wakeup

    init() throws(SystemError) { wakeup = try Wakeup() }

    /// The descriptor to poll. It is readable while there are items to collect.
    var descriptor: Int32 { wakeup.descriptor }

    /// Delivers an item. Any thread may call it.
    func deliver(_ item: Item) {
        items.withLock { $0.append(item) }
        wakeup.ring()
    }

    /// Removes all delivered items from the mailbox and returns them.
    func collect() -> [Item] {
        wakeup.silence()
        return items.withLock { items in
            defer { items.removeAll(keepingCapacity: true) }
            return items
        }
    }
}

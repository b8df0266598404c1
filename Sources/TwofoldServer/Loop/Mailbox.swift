internal import Platform
internal import Synchronization

/// Results of other threads, and the bell that gets the socket thread out of its poll.
final class Mailbox<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])
    private let wakeup: Wakeup

    init() throws(SystemError) { wakeup = try Wakeup() }

    /// Readable while there is something to collect.
    var descriptor: Int32 { wakeup.descriptor }

    /// Hands over an item, from any thread.
    func deliver(_ item: Item) {
        items.withLock { $0.append(item) }
        wakeup.ring()
    }

    /// Takes everything that was delivered.
    func collect() -> [Item] {
        wakeup.silence()
        return items.withLock { items in
            defer { items.removeAll(keepingCapacity: true) }
            return items
        }
    }
}

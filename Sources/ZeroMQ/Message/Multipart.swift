/// A multipart message: a sequence of frames that are sent and received together.
///
/// ```
/// from a REQ, at a ROUTER      [routing id] [empty] [header] [payload]
/// the same, REQ_CORRELATE      [routing id] [request id] [empty] [header] [payload]
/// ```
///
/// A loop can reuse one Multipart without allocations, because receiving, sending and `removeAll()` keep its
/// storage. To answer a request, remove the request's frames with `removeLast`, so that only the route is left.
/// Then append the reply's frames.
public struct Multipart: ~Copyable {
    // Only the first `count` messages of `storage` are initialized. No other object has the pointer.
    private var storage: UnsafeMutableBufferPointer<Message>

    /// The number of frames.
    public private(set) var count = 0

    public init() { storage = .allocate(capacity: 8) }

    deinit {
        storage.extracting(..<count).deinitialize()
        storage.deallocate()
    }

    /// The frame at `index`, which can be read or changed in place.
    public subscript(index: Int) -> Message {
        // because: `_read` and `_modify` lend the element; `get` would copy it.
        _read {
            precondition(index >= 0 && index < count, "no such frame")
            yield storage[index]
        }
        _modify {
            precondition(index >= 0 && index < count, "no such frame")
            yield &storage[index]
        }
    }

    public mutating func append(_ frame: consuming Message) {
        if count == storage.count { grow() }
        storage.initializeElement(at: count, to: frame)
        count += 1
    }

    /// Removes and returns the last frame. The message must have at least one.
    public mutating func removeLast() -> Message {
        precondition(count > 0, "the message has no frame to remove")
        count -= 1
        return storage.moveElement(from: count)
    }

    /// Removes all frames after the first `length`.
    public mutating func truncate(to length: Int) {
        precondition(length >= 0, "the length must be at least 0")
        guard length < count else { return }
        storage.extracting(length..<count).deinitialize()
        count = length
    }

    /// Removes all frames, but keeps the storage.
    public mutating func removeAll() { truncate(to: 0) }

    /// Returns the index of the first frame for which `predicate` is true; nil if there is none. For example,
    /// `firstIndex { $0.isEmpty }` finds the delimiter after a route.
    public func firstIndex(where predicate: (borrowing Message) -> Bool) -> Int? {
        for index in 0..<count where predicate(storage[index]) { return index }
        return nil
    }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<Message>.allocate(capacity: storage.count * 2)
        _ = larger.moveInitialize(fromContentsOf: storage.extracting(..<count))
        storage.deallocate()
        storage = larger
    }
}

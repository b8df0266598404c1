package import FoundationEssentials

/// A session's id, which consists of 16 random bytes. The bytes are secret, because any client that knows them can
/// step the session.
///
/// The description is safe to log: it is eight hex digits of a hash, whose key is chosen at random at each start.
package struct SessionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    private let high: UInt64
    private let low: UInt64

    /// Creates an id from 16 bytes. Returns nil for any other number of bytes.
    package init?(_ bytes: Data) {
        guard let id = bytes.withUnsafeBytes({ SessionID(bytes: $0) }) else { return nil }
        self = id
    }

    /// Creates an id from 16 bytes. Returns nil for any other number of bytes.
    package init?(bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = bytes.loadUnaligned(as: UInt64.self)
        low = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }

    /// The 16 bytes.
    package var bytes: Data {
        var bytes = Data()
        for half in [high, low] { withUnsafeBytes(of: half) { bytes.append(contentsOf: $0) } }
        return bytes
    }

    /// Compares ids in an arbitrary order, which is the same in every run.
    package static func < (left: SessionID, right: SessionID) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }

    package var description: String {
        // Hasher is SipHash with a key that each process chooses at random, so the hash does not reveal the id.
        let digits = String(UInt32(truncatingIfNeeded: hashValue), radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}

internal import CZeroMQ

extension Message {
    /// A message of bytes that stay where they are, and that `owner` keeps valid: no copy is made, not
    /// even on the way to an inproc peer.
    ///
    /// The message and its copies hold one strong reference to `owner`; the last of them, wherever it
    /// ends, releases it, *on any thread*, often an I/O thread of libzmq's. So a pool can tell that a
    /// buffer has come back by `isKnownUniquelyReferenced`, or by `owner`'s deinit. Until then the
    /// bytes must not change.
    ///
    /// The corresponding C function is `zmq_msg_init_data`.
    ///
    /// - Throws: ENOMEM; the reference is given back then, too.
    public init(
        adopting bytes: UnsafeMutableRawBufferPointer, keeping owner: some AnyObject & Sendable
    ) throws(ZeroMQError) {
        // because: libzmq keeps the reference as its hint: +1 here, -1 in its free callback, which it
        // calls exactly once if and only if the call succeeds; when it doesn't, we give the +1 back.
        let reference = Unmanaged<AnyObject>.passRetained(owner)
        var raw = zmq_msg_t()
        do throws(ZeroMQError) {
            try check("zmq_msg_init_data") {
                zmq_msg_init_data(
                    &raw, bytes.baseAddress, bytes.count,
                    { _, hint in Unmanaged<AnyObject>.fromOpaque(hint!).release() },
                    reference.toOpaque())
            }
        } catch {
            reference.release()
            throw error
        }
        self.raw = raw
    }
}

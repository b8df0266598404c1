internal import CZeroMQ

extension Message {
    /// Creates a message from existing bytes without copying them, not even for an inproc peer. `owner` keeps the
    /// bytes valid.
    ///
    /// The message and its copies share one strong reference to `owner`. When the last copy is closed, the reference is
    /// released *on any thread*, often on a libzmq I/O thread. To find out whether the buffer is free again, use
    /// `isKnownUniquelyReferenced` or the `deinit` of `owner`. Until then, the bytes must not change.
    ///
    /// - Throws: ENOMEM, after releasing the reference.
    public init(
        adopting bytes: UnsafeMutableRawBufferPointer, keeping owner: some AnyObject & Sendable
    ) throws(ZeroMQError) {
        // because: libzmq stores the retained reference as the hint for its free callback, which releases it.
        // libzmq calls the callback exactly once if the call succeeds, and never if the call fails. In that case,
        // the reference is released below.
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

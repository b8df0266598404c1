internal import CZeroMQ

/// The libzmq that this process runs with.
public enum Library {
    /// Its version, for instance 4.3.4.
    ///
    /// The corresponding C function is `zmq_version`.
    public static var version: (major: Int, minor: Int, patch: Int) {
        var (major, minor, patch): (CInt, CInt, CInt) = (0, 0, 0)
        zmq_version(&major, &minor, &patch)
        return (Int(major), Int(minor), Int(patch))
    }

    /// Whether it was built with `capability`: "ipc", "curve", "gssapi", "pgm", "tipc", "norm", "draft".
    ///
    /// The corresponding C function is `zmq_has`.
    public static func has(_ capability: String) -> Bool {
        zmq_has(capability) == 1
    }
}

internal import CLinux

/// Raises this process's limit of descriptors (`ulimit -n`) as far as the process may, and returns it.
package func raiseDescriptorLimit() throws(SystemError) -> Int {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    try system { getrlimit(resource, &limit) }
    var raised = limit
    raised.rlim_cur = limit.rlim_max
    if setrlimit(resource, &raised) == 0 { limit = raised }
    return Int(clamping: limit.rlim_cur)
}

/// Has libzmq refuse connections from now on: each whose descriptor would not be below the ceiling of its kind is closed
/// at once. `local` is for those of Unix sockets, `network` for all others. (CLinux.h says how, and that it works in
/// executables alone.)
package func setConnectionCeilings(local: Int, network: Int) {
    twofold_set_connection_ceilings(Int32(clamping: local), Int32(clamping: network))
}

/// Connections refused since the start, or delayed because the system did not accept them.
package var refusedConnections: Int { twofold_refused_connections() }

extension Descriptor {
    /// A stream socket of Unix's domain, whose calls never wait.
    package static func unixSocket() throws(SystemError) -> Descriptor {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        return try Descriptor { socket(AF_UNIX, type, 0) }
    }
}

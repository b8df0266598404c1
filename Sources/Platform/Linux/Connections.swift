internal import CLinux

/// Raises this process's limit on open descriptors (`ulimit -n`) as far as the system allows, and returns it.
package func raiseDescriptorLimit() throws(SystemError) -> Int {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    try system { getrlimit(resource, &limit) }
    var raised = limit
    raised.rlim_cur = limit.rlim_max
    if setrlimit(resource, &raised) == 0 { limit = raised }
    return Int(clamping: limit.rlim_cur)
}

/// Makes libzmq refuse connections from now on: a connection is closed at once if its descriptor is not below
/// the ceiling of its kind. `local` applies to Unix sockets, `network` to all others. Works in executables
/// only; CLinux.h explains how.
package func setConnectionCeilings(local: Int, network: Int) {
    twofold_set_connection_ceilings(Int32(clamping: local), Int32(clamping: network))
}

/// The number of connections refused since the start, or delayed because the system did not accept them.
package var refusedConnections: Int { twofold_refused_connections() }

extension Descriptor {
    /// Creates a stream socket of the Unix domain whose calls never wait.
    package static func unixSocket() throws(SystemError) -> Descriptor {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        return try Descriptor { socket(AF_UNIX, type, 0) }
    }
}

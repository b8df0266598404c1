internal import CPlatform

/// Raises this process's limit on open descriptors (`ulimit -n`) as far as the system allows, and returns the new
/// limit.
package func raiseDescriptorLimit() throws(SystemError) -> Int {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    try system { getrlimit(resource, &limit) }
    var raised = limit
    raised.rlim_cur = limit.rlim_max
    if setrlimit(resource, &raised) == 0 { limit = raised }
    return Int(clamping: limit.rlim_cur)
}

/// Sets the connection limits of libzmq. From now on, libzmq closes a new connection at once unless its descriptor
/// is below the ceiling: `local` for Unix sockets, `network` for all others. Works in executables only; CPlatform.h
/// explains how.
package func setConnectionCeilings(local: Int, network: Int) {
    twofold_set_connection_ceilings(Int32(clamping: local), Int32(clamping: network))
}

/// The number of connections that have been refused, or delayed because `accept` failed, since the process started.
package var refusedConnections: Int { twofold_refused_connections() }

extension Descriptor {
    /// Creates a non-blocking stream socket in the Unix domain.
    package static func unixSocket() throws(SystemError) -> Descriptor {
        let stream = try Descriptor { socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0) }
        try stream.neverWait()
        return stream
    }
}

public import Logging
public import Platform
internal import TwofoldCore
public import TwofoldSessions
internal import ZeroMQ

/// Serves until `stopDescriptor` becomes readable or the parent process has ended. Then answers every request in
/// flight, removes the ipc endpoints' files and returns the server's statistics.
///
/// Once all endpoints are ready, calls `onListening` with the actual address of each endpoint. Runs on the calling
/// thread, which must not have other work.
///
/// - Throws: ``Reason`` if the server cannot listen.
@discardableResult
public func serve(
    _ configuration: ServerConfiguration, stopDescriptor: Int32, reloadSignals: Signals? = nil,
    logger: Logger, onListening: (_ endpoint: String) -> Void
) throws(Reason) -> ServerStatistics {
    var paths: [IPCPath] = []
    for endpoint in configuration.endpoints {
        if let path = try Endpoint.claimPath(of: endpoint) { paths.append(path) }
    }
    // The paths are released only after the context has ended, at the end of the do block: see IPCPath.
    defer { withExtendedLifetime(paths) {} }
    do {
        let context = try Context()
        return try serve(
            configuration, in: context, stopDescriptor: stopDescriptor, reloadSignals: reloadSignals,
            logger: logger, onListening: onListening)
    } catch {
        throw Reason("\(error)")
    }
}

/// Serves on the endpoints of a context. On return, all sockets are closed. The sockets' last replies are sent
/// before the context ends.
private func serve(
    _ configuration: ServerConfiguration, in context: Context, stopDescriptor: Int32,
    reloadSignals: Signals?, logger: Logger, onListening: (_ endpoint: String) -> Void
) throws -> ServerStatistics {
    var authenticator: Authenticator?
    if let encryption = configuration.encryption {
        authenticator = try Authenticator(encryption.clients, in: context, logger: logger)
    }
    var endpoints: [Endpoint] = []
    for endpoint in configuration.endpoints {
        endpoints.append(
            try Endpoint(endpoint, configuration, in: context))
    }
    let machine = SessionMachine(
        configuration.service,
        keys: { [authenticator] in authenticator.map { ($0.names, $0.refused) } ?? ([:], 0) },
        clock: configuration.clock, at: .now)
    let loop = try ReplyLoop(machine, endpoints, authenticator, configuration, logger)
    var stateDirectory: StateDirectory?
    if let path = configuration.stateDirectory {
        let files = try SystemStateFiles(path)
        if CurveFiles.isReadableByOthers(path) {
            logger.warning(
                "other users can read the state directory and take over its sessions: run chmod 700 on it")
        }
        let directory = StateDirectory(files)
        let begin = Moment.now
        guard
            machine.restoreSessions(
                from: directory, names: authenticator?.names ?? [:], logger: logger, at: begin,
                unless: { isReadable(stopDescriptor) })
        else {
            logger.info("stopping: the saved sessions stay in the state directory")
            return machine.statistics
        }
        // This time does not count as idle time, because the server could not read requests.
        machine.excuse(.now - begin, until: .now)
        stateDirectory = directory
    }
    for endpoint in endpoints {
        if endpoint.isOpenToAll {
            logger.warning(
                """
                ANYBODY WHO REACHES \(endpoint.name) CAN USE THIS SERVER, AND READ AND CHANGE ALL MESSAGES. \
                Listen on 127.0.0.1 or ipc, or encrypt with --curve-secret-key and --curve-clients.
                """)
        }
        logger.info(
            "listening on \(endpoint.name)", metadata: ["encrypted": endpoint.isEncrypted ? "yes" : "no"])
        onListening(endpoint.name)
    }
    // Sessions are also saved if the loop fails.
    let outcome = Result { () throws(ZeroMQError) in
        try loop.run(stopDescriptor: stopDescriptor, reloadSignals: reloadSignals)
    }
    machine.endSessions(savingIn: stateDirectory, logger: logger, at: .now)
    try outcome.get()
    return machine.statistics
}

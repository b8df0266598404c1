internal import Dispatch
internal import Logging
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The authenticator of encrypted endpoints. A client may use these endpoints only if its public key is in the
/// list.
///
/// At each handshake, libzmq sends a request to `inproc://zeromq.zap.01` (ZAP, https://rfc.zeromq.org/spec/27):
///
///     version, request id, domain, address, routing id, "CURVE", the client's public key
///     ──► version, request id, "200" or "400", reason, user id, metadata
///
/// The user id is the public key, and every later message of the connection carries it. After a key is removed from
/// the list, the client's next request is refused, although the connection stays open. The authenticator belongs to
/// the socket thread. Create it before the endpoints are bound.
package final class Authenticator {
    /// The ZAP domain of encrypted endpoints.
    static let domain = "twofold"
    private static let endpoint = "inproc://zeromq.zap.01"
    /// The maximum number of handshakes answered in a row before the loop handles requests again.
    private static let turn = 16
    /// The maximum number of refused keys to remember. A remembered key is not logged again at every attempt.
    private static let maxReported = 1000
    private static let reportInterval = Duration.seconds(60)

    let socket: Socket
    private let path: String
    private let logger: Logger
    /// The clients' names by public key. The keys are in Z85, as in messages.
    private(set) var names: [String: String]
    /// A reloaded list, and the numbers of keys that it adds to the list in use when the reload began, and removes from
    /// it.
    typealias NewList = (names: [String: String], added: Int, removed: Int)
    /// The mailbox through which reloaded lists arrive.
    let lists: Mailbox<Result<NewList, Reason>>
    private let queue = DispatchQueue(label: "twofold.keys")
    private var reported: [String: Moment] = [:]
    /// The number of refused handshakes.
    private(set) var refused = 0

    /// Creates the authenticator with the list of clients at `path`.
    init(_ path: String, in context: Context, logger: Logger) throws(Reason) {
        self.path = path
        self.logger = logger
        // This thread would wait for the writer, and no signal would end it. (Reloading waits on another thread.)
        guard !CurveFiles.isPipe(path) else {
            throw Reason("'\(path)' is a pipe, but the list must be a regular file")
        }
        names = try CurveFiles.readAllowed(path)
        lists = try explaining("can't make a mailbox") { () throws(SystemError) in try Mailbox() }
        do throws(ZeroMQError) {
            socket = try Socket(.rep, in: context)
            try socket.bind(Self.endpoint)
        } catch {
            throw Reason("can't authenticate: \(error)")
        }
        logger.info(
            "the list of client keys was read",
            metadata: ["keys": .stringConvertible(names.count), "list": "\(path)"])
        warnIfEmpty()
    }

    private func warnIfEmpty() {
        guard names.isEmpty else { return }
        logger.warning("the list of client keys is empty: no client can use the encrypted endpoints")
    }

    /// Reloads the list on another thread, because a long list takes a while. Call ``replaceList()`` once the new
    /// list is in the mailbox.
    func reload() {
        queue.async { [lists, path, names] in
            lists.deliver(
                Result { () throws(Reason) in
                    let new = try CurveFiles.readAllowed(path)
                    // because: counting the keys of a long list would keep the socket thread busy.
                    let added = new.keys.count { names[$0] == nil }
                    return (new, added, names.keys.count { new[$0] == nil })
                })
        }
    }

    /// Replaces the list with each reloaded one, in order. Keeps the old list if the new one cannot be read.
    func replaceList() {
        for list in lists.collect() {
            do throws(Reason) {
                let (new, added, removed) = try list.get()
                names = new
                reported = [:]
                logger.info(
                    "the list of client keys was reread",
                    metadata: [
                        "keys": .stringConvertible(names.count), "added": .stringConvertible(added),
                        "removed": .stringConvertible(removed),
                    ])
                warnIfEmpty()
            } catch {
                logger.error("can't reread the list of client keys, so the old list stays in use: \(error)")
            }
        }
    }

    /// Returns the key of the client that sent a frame to an encrypted endpoint, or the refusal if the key has been
    /// removed from the list since the handshake.
    func client(of frame: borrowing Message, at now: Moment) -> Result<String?, ServiceError> {
        let key = frame.userID ?? ""
        guard names[key] == nil else { return .success(key) }
        report(key, address: frame.peerAddress ?? "", at: now)
        return .failure(
            ServiceError(
                .permissionDenied,
                "the server no longer authorises this client's key \(key); its operator can add this public key to "
                    + "the list given as --curve-clients, and send the server SIGHUP"))
    }

    /// Answers the waiting handshakes, at most 16 per call.
    func answer(at now: Moment) throws(ZeroMQError) {
        for _ in 0..<Self.turn {
            var message = Multipart()
            guard try socket.tryReceive(into: &message) != nil else { return }
            try answer(message, at: now)
        }
    }

    private func answer(_ request: consuming Multipart, at now: Moment) throws(ZeroMQError) {
        let frames = (0..<request.count).map { index in request[index].withUnsafeBytes { Array($0) } }
        let isCurve = frames.count == 7 && frames[0] == Array("1.0".utf8) && frames[5] == Array("CURVE".utf8)
        let key = isCurve ? CurvePublicKey(bytes: frames[6]) : nil
        let isAllowed = key.map { names[$0.description] != nil } ?? false
        if !isAllowed {
            refused += 1
            let address = String(decoding: frames.count > 3 ? frames[3] : [], as: UTF8.self)
            report(key?.description ?? "none", address: address, at: now)
        }
        var reply = Multipart()
        let answer: [[UInt8]] = [
            Array("1.0".utf8), frames.count > 1 ? frames[1] : [], Array((isAllowed ? "200" : "400").utf8),
            Array((isAllowed ? "OK" : "this key is not authorised").utf8),
            Array((isAllowed ? key!.description : "").utf8), [],
        ]
        for frame in answer { reply.append(try Message(copying: frame)) }
        _ = try socket.trySend(&reply)
    }

    /// Logs that a key was refused, at most once a minute for the same key.
    private func report(_ key: String, address: String, at now: Moment) {
        if let last = reported[key], now - last < Self.reportInterval { return }
        if reported.count >= Self.maxReported { reported = [:] }
        reported[key] = now
        logger.notice(
            "refused a client whose key is not authorised",
            metadata: ["key": "\(key)", "address": "\(address)"])
    }
}

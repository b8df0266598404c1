internal import Logging
internal import TwofoldSessions
internal import ZeroMQ

/// Says who is let in at encrypted endpoints: those whose public key is in the list.
///
/// libzmq asks at each handshake, over `inproc://zeromq.zap.01` (ZAP, https://rfc.zeromq.org/spec/27):
///
///     version, request id, domain, address, routing id, "CURVE", the client's public key
///     ──► version, request id, "200" or "400", reason, user id, metadata
///
/// The user id is the public key, and each message of the connection carries it from then on: so a
/// key that was taken off the list is refused at its next request, though its connection lives on.
/// Belongs to the socket thread. To be made before the endpoints are bound.
final class Authenticator {
    /// Under which encrypted endpoints ask.
    static let domain = "twofold"
    private static let endpoint = "inproc://zeromq.zap.01"
    /// Handshakes that are answered before requests get their turn.
    private static let turn = 16
    /// Refused keys of which the log has told lately: whoever is refused tries again and again.
    private static let maxTold = 1000
    private static let toldFor = 60_000_000_000

    let socket: Socket
    private let path: String
    private let logger: Logger
    private var names: [CurvePublicKey: String]
    private var told: [String: Moment] = [:]
    /// Handshakes that were refused.
    private(set) var refused = 0

    /// Reads the list at `path`.
    init(_ path: String, in context: borrowing Context, logger: Logger) throws(ServerError) {
        self.path = path
        self.logger = logger
        names = try CurveFiles.readAllowed(path)
        do throws(ZeroMQError) {
            socket = try Socket(.rep, in: context)
            try socket.bind(Self.endpoint)
        } catch {
            throw ServerError("can't authenticate: \(error)")
        }
        logger.info(
            "the list of client keys was read",
            metadata: ["keys": .stringConvertible(names.count), "list": "\(path)"])
    }

    /// Reads the list again; keeps the old one when it can't be read.
    func reload() {
        do throws(ServerError) {
            let fresh = try CurveFiles.readAllowed(path)
            let removed = names.keys.count { fresh[$0] == nil }
            let added = fresh.keys.count { names[$0] == nil }
            names = fresh
            told = [:]
            logger.info(
                "the list of client keys was read again",
                metadata: [
                    "keys": .stringConvertible(names.count), "added": .stringConvertible(added),
                    "removed": .stringConvertible(removed),
                ])
        } catch {
            logger.error("the list of client keys stays as it was: \(error)")
        }
    }

    /// The client's name in the list; nil when it is not in there (any more).
    func name(of client: Client) -> String? {
        switch client {
        case .anonymous: ""
        case .key(let key): CurvePublicKey(key).flatMap { names[$0] }
        }
    }

    /// Answers the handshakes that are waiting.
    func answer() throws(ZeroMQError) {
        for _ in 0..<Self.turn {
            var message = Multipart()
            guard try socket.tryReceive(into: &message) != nil else { return }
            try answer(message)
        }
    }

    private func answer(_ request: consuming Multipart) throws(ZeroMQError) {
        let frames = (0..<request.count).map { index in request[index].withUnsafeBytes { Array($0) } }
        let isCurve = frames.count == 7 && frames[0] == Array("1.0".utf8) && frames[5] == Array("CURVE".utf8)
        let key = isCurve ? CurvePublicKey(bytes: frames[6]) : nil
        let isAllowed = key.map { names[$0] != nil } ?? false
        if !isAllowed { refuse(key, address: frames.count > 3 ? frames[3] : []) }
        var reply = Multipart()
        let answer: [[UInt8]] = [
            Array("1.0".utf8), frames.count > 1 ? frames[1] : [], Array((isAllowed ? "200" : "400").utf8),
            Array((isAllowed ? "OK" : "this key is not let in").utf8),
            Array((isAllowed ? key!.description : "").utf8), [],
        ]
        for frame in answer { reply.append(try Message(copying: frame)) }
        _ = try socket.trySend(&reply)
    }

    private func refuse(_ key: CurvePublicKey?, address: [UInt8]) {
        refused += 1
        let name = key?.description ?? "none"
        let now = Moment.now
        if let last = told[name], now - last < Self.toldFor { return }
        if told.count >= Self.maxTold { told = [:] }
        told[name] = now
        logger.notice(
            "refused a client for its key",
            metadata: ["key": "\(name)", "address": "\(String(decoding: address, as: UTF8.self))"])
    }
}

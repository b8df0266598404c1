internal import Logging
internal import TwofoldCore
internal import TwofoldSessions
internal import ZeroMQ

/// Decides which clients are let in at encrypted endpoints: those whose public key is in the list.
///
/// libzmq asks at each handshake, over `inproc://zeromq.zap.01` (ZAP, https://rfc.zeromq.org/spec/27):
///
///     version, request id, domain, address, routing id, "CURVE", the client's public key
///     ──► version, request id, "200" or "400", reason, user id, metadata
///
/// The user id is the public key, and each message of the connection carries it from then on: so a
/// key that was taken off the list is refused at its next request, though its connection lives on.
/// Belongs to the socket thread. Make it before the endpoints are bound.
package final class Authenticator {
    /// The ZAP domain of encrypted endpoints.
    static let domain = "twofold"
    private static let endpoint = "inproc://zeromq.zap.01"
    /// Handshakes that are answered before requests get their turn.
    private static let turn = 16
    /// Refused keys that the log has reported lately: a client that is refused tries again and again.
    private static let maxReported = 1000
    private static let reportInterval = Duration.seconds(60)

    let socket: Socket
    private let path: String
    private let logger: Logger
    private var names: [CurvePublicKey: String]
    private var reported: [String: Moment] = [:]
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
            reported = [:]
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

    /// The client's name in the list; nil when it is not in the list (any more).
    func name(of client: Client) -> String? {
        switch client {
        case .anonymous: ""
        case .key(let key): CurvePublicKey(key).flatMap { names[$0] }
        }
    }

    /// Answers the handshakes that are waiting.
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
        let isAllowed = key.map { names[$0] != nil } ?? false
        if !isAllowed { refuse(key, address: frames.count > 3 ? frames[3] : [], at: now) }
        var reply = Multipart()
        let answer: [[UInt8]] = [
            Array("1.0".utf8), frames.count > 1 ? frames[1] : [], Array((isAllowed ? "200" : "400").utf8),
            Array((isAllowed ? "OK" : "this key is not let in").utf8),
            Array((isAllowed ? key!.description : "").utf8), [],
        ]
        for frame in answer { reply.append(try Message(copying: frame)) }
        _ = try socket.trySend(&reply)
    }

    private func refuse(_ key: CurvePublicKey?, address: [UInt8], at now: Moment) {
        refused += 1
        let name = key?.description ?? "none"
        if let last = reported[name], now - last < Self.reportInterval { return }
        if reported.count >= Self.maxReported { reported = [:] }
        reported[name] = now
        logger.notice(
            "refused a client for its key",
            metadata: ["key": "\(name)", "address": "\(String(decoding: address, as: UTF8.self))"])
    }
}

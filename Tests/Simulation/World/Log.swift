internal import TwofoldProtocol
internal import TwofoldSessions

/// Log lines that describe messages.
enum Log {
    static func request(_ packet: World.Packet) -> String {
        guard let request = packet.header.withUnsafeBytes({ Request(frame: $0) }) else { return "damaged" }
        let op = request.op.map { "\($0)".prefix { $0 != "(" } } ?? "nothing"
        let session = SessionID(request.session)?.hex ?? "none"
        return
            "\(op) \(request.seq) of \(session), epoch \(request.epoch), \(packet.payload?.count ?? -1) bytes"
    }

    static func reply(_ packet: World.Packet) -> String {
        guard let reply = packet.header.withUnsafeBytes({ Reply(frame: $0) }) else { return "damaged" }
        if case .error(let error) = reply.result { return "\(reply.seq) \(error.code) \(error.field)" }
        let result = reply.result.map { "\($0)".prefix { $0 != "(" } } ?? "nothing"
        return "\(reply.seq) \(result), \(packet.payload?.count ?? -1) bytes"
    }
}

import Foundation
import Glibc
import Testing
import TwofoldProtocol

@testable import TwofoldServer

/// A client's direct connection, beside an ipc endpoint.
final class DirectPeer {
    private let descriptor: Int32

    struct Failure: Error {
        let errno: Int32
    }

    /// Who has nothing more to say.
    struct Ended: Error {}

    init(beside endpoint: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0)
        let path = endpoint.dropFirst("ipc://".count) + ".direct"
        guard path.utf8.count <= IPCPath.maxLength else { throw Failure(errno: ENAMETOOLONG) }
        let descriptor = descriptor
        let result = IPCPath.withAddress(String(path)) { connect(descriptor, $0, $1) }
        guard result == 0 else { throw Failure(errno: errno) }
        var time = timeval(tv_sec: Int(patience.components.seconds), tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    func send(raw packet: [UInt8]) throws {
        guard Glibc.send(descriptor, packet, packet.count, Int32(MSG_NOSIGNAL)) == packet.count else {
            throw Failure(errno: errno)
        }
    }

    func send(_ request: Request, _ payload: [UInt8]? = nil) throws {
        let prefix = UInt32(request.bytes.count) | (payload == nil ? 0 : 1 << 31)
        let size = withUnsafeBytes(of: prefix.littleEndian) { Array($0) }
        try send(raw: size + request.bytes + (payload ?? []))
    }

    func receiveRaw() throws -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: 1 << 18)
        let size = recv(descriptor, &packet, packet.count, 0)
        guard size >= 0 else { throw Failure(errno: errno) }
        guard size > 0 else { throw Ended() }
        return Array(packet[..<size])
    }

    func receive() throws -> Answer {
        let packet = try receiveRaw()
        try #require(packet.count >= 4)
        let prefix = packet[..<4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let end = 4 + Int(prefix & ~(1 << 31))
        let header = Array(packet[4..<end])
        return try Answer(prefix >> 31 == 1 ? [header, Array(packet[end...])] : [header])
    }

    @discardableResult
    func ask(_ request: Request, _ payload: [UInt8]? = nil) throws -> Answer {
        try send(request, payload)
        return try receive()
    }
}

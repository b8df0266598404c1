import Foundation
import Platform
import Synchronization

@testable import TwofoldServer

/// A temporary directory with a short path. The deinitialiser removes it with its content.
final class ScratchDirectory: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/twofold-test-XXXXXX".utf8CString)
        path = template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
    }

    deinit {
        // Try again if a server that is just ending removes a file at the same time.
        for _ in 0..<3 where access(path, F_OK) == 0 { try? FileManager.default.removeItem(atPath: path) }
    }

    /// The sorted names of the files.
    var files: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }

    /// Writes a file with this text, and returns its path.
    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        try text.write(toFile: path + "/" + name, atomically: false, encoding: .utf8)
        return path + "/" + name
    }

    /// Returns the ipc endpoint with this name in the directory.
    func ipc(_ name: String = "s") -> String { "ipc://" + path + "/" + name }
}

/// A bound Unix socket, as if it belonged to another program. It listens if its kind allows that, and never removes its
/// file.
final class UnixSocket {
    enum Kind: CaseIterable { case stream, datagram, packets }

    private let descriptor: Int32

    struct Failure: Error {
        let errno: Int32
    }

    init(_ kind: Kind, at path: String) throws {
        let type =
            switch kind {
            case .stream: SOCK_STREAM
            case .datagram: SOCK_DGRAM
            case .packets: SOCK_SEQPACKET
            }
        descriptor = socket(AF_UNIX, Int32(type.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let descriptor = descriptor
        let result = IPCPath.withAddress(path) { bind(descriptor, $0, $1) }
        guard result == 0, kind == .datagram || listen(descriptor, 5) == 0 else {
            throw Failure(errno: errno)
        }
    }

    deinit { close(descriptor) }
}

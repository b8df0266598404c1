public import Platform
public import ZeroMQ

/// The functions for CURVE key files, which are ZeroMQ certificates in the format of pyzmq's `zmq.auth` and of CZMQ.
///
///     metadata
///     curve
///         public-key = "…40 Z85 characters…"
///         secret-key = "…"                          only in the secret file
public enum CurveFiles {
    /// The maximum size of a file in bytes: enough for a list of 400,000 keys without names.
    static let maxBytes = 16 << 20

    /// Creates a key pair. Writes it to `path.key` (public) and `path.key_secret` (readable only by its owner).
    /// Returns the public key. Never overwrites a file.
    public static func generate(_ path: String) throws(Reason) -> CurvePublicKey {
        let pair: CurveKeyPair
        do throws(ZeroMQError) { pair = try CurveKeyPair() } catch {
            throw Reason("this libzmq can't make keys: \(error)")
        }
        let publicText = "metadata\ncurve\n    public-key = \"\(pair.publicKey)\"\n"
        let head = "# A Twofold key, made by twofold-server keygen.\n"
        try write(
            head + "# Keep this file secret: anyone who has it can connect as its owner.\n" + publicText
                + "    secret-key = \"\(pair.secretText)\"\n",
            to: path + ".key_secret", mode: 0o600)
        do throws(Reason) {
            try write(head + publicText, to: path + ".key", mode: 0o644)
        } catch {
            unlink(path + ".key_secret")
            throw error
        }
        return pair.publicKey
    }

    /// Reads the key pair from a secret file.
    public static func readSecret(_ path: String) throws(Reason) -> CurveKeyPair {
        let secretText = value("secret-key", in: try text(path)) ?? ""
        do throws(ZeroMQError) {
            if let pair = try CurveKeyPair(secretText: secretText) { return pair }
        } catch {
            throw Reason("this libzmq can't use the key in '\(path)': \(error)")
        }
        throw Reason(
            "'\(path)' has no secret key; it needs a line secret-key = \"…\" with a 40-character Z85 key")
    }

    /// Reads the public key from a public or a secret file.
    public static func readPublic(_ path: String) throws(Reason) -> CurvePublicKey {
        guard let key = value("public-key", in: try text(path)).flatMap(CurvePublicKey.init) else {
            throw Reason(
                "'\(path)' has no public key; it needs a line public-key = \"…\" with a 40-character Z85 key")
        }
        return key
    }

    /// Returns true if users other than the owner can read a file.
    public static func isReadableByOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & 0o077 != 0
    }

    /// Returns true if a file is a pipe, whose reader waits for a writer.
    static func isPipe(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// Reads a list of authorised clients. Returns the clients' names by public key.
    ///
    /// Each line has a 40-character Z85 key, then the client's name. Empty lines and lines that start with "#" are
    /// skipped. ("#" is also a Z85 character, but a key has exactly 40 characters.) The parser works on bytes for
    /// speed, because a list may have 100,000 lines.
    static func readAllowed(_ path: String) throws(Reason) -> [String: String] {
        var names: [String: String] = [:]
        let content = try bytes(path)
        let lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let words = line.split(maxSplits: 1, whereSeparator: \.isWhitespace)
            guard let first = words.first else { continue }
            if let key = CurvePublicKey(String(decoding: first, as: UTF8.self)) {
                let name = words.count > 1 ? words[1].trimmed : []
                names[key.description] = String(
                    decoding: name.isEmpty ? first.prefix(8) : name, as: UTF8.self)
            } else if first.first != UInt8(ascii: "#") {
                if value("public-key", in: String(decoding: content, as: UTF8.self)) != nil {
                    throw Reason(
                        "'\(path)' is a key file, not a list of clients; each line of a list has a public key and "
                            + "a name, as keygen prints them")
                }
                throw Reason(
                    "line \(index + 1) of '\(path)' does not begin with a public key (40 Z85 characters)")
            }
        }
        return names
    }

    private static func value(_ name: String, in text: String) -> String? {
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
            let parts = line.split(separator: UInt8(ascii: "="), maxSplits: 1)
            guard parts.count == 2, String(parts[0].trimmed) == name else { continue }
            let value = String(parts[1].trimmed) ?? ""
            guard value.hasPrefix("\""), value.hasSuffix("\"") else { return nil }
            return String(value.dropFirst().dropLast())
        }
        return nil
    }

    private static func text(_ path: String) throws(Reason) -> String {
        String(decoding: try bytes(path), as: UTF8.self)
    }

    private static func bytes(_ path: String) throws(Reason) -> [UInt8] {
        do throws(SystemError) {
            return try Descriptor.contents(of: path, limit: maxBytes)
        } catch {
            throw Reason(
                error.code == EFBIG
                    ? "'\(path)' has more than \(maxBytes) bytes, the maximum for a key file"
                    : "can't read '\(path)': \(error)")
        }
    }

    private static func write(_ text: String, to path: String, mode: mode_t) throws(Reason) {
        try explaining("can't create '\(path)'") { () throws(SystemError) in
            try Array(text.utf8).span.bytes.withUnsafeBytes { (bytes) throws(SystemError) in
                try Descriptor.makeFile(at: path, mode: mode, bytes)
            }
        }
    }
}

extension UInt8 {
    fileprivate var isWhitespace: Bool { self == UInt8(ascii: " ") || (9...13).contains(self) }
}

extension BidirectionalCollection<UInt8> {
    /// The bytes without leading and trailing white space.
    fileprivate var trimmed: SubSequence {
        let rest = drop(while: \.isWhitespace)
        let end = rest.lastIndex { !$0.isWhitespace }
        return end.map { rest[...$0] } ?? rest
    }
}

internal import CZeroMQ

/// A public key for CURVE, ZeroMQ's encryption. The key has 32 bytes, and is written as 40 Z85 characters.
public struct CurvePublicKey: Hashable, Sendable, CustomStringConvertible {
    /// The key in Z85.
    public let description: String

    /// Creates a key from 40 Z85 characters. Returns nil for any other text.
    public init?(_ z85: String) {
        guard isKey(z85) else { return nil }
        description = z85
    }

    /// Creates a key from 32 bytes. Returns nil for any other number of bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        description = withUnsafeTemporaryAllocation(of: CChar.self, capacity: textSize) { text in
            // because: it fails only if the number of bytes is not a multiple of 4.
            zmq_z85_encode(text.baseAddress, bytes, bytes.count)
            return String(cString: text.baseAddress!)
        }
    }
}

/// A secret key and the public key that belongs to it. Only `secretText` reveals the secret key. Prints, logs and dumps
/// show only the public key.
public struct CurveKeyPair: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    public let publicKey: CurvePublicKey
    /// The secret key in Z85. Use it only to write the key file.
    public let secretText: String

    /// Creates a new random key pair.
    ///
    /// - Throws: ENOTSUP if libzmq was built without CURVE.
    public init() throws(ZeroMQError) {
        let publicText: String
        (publicText, secretText) = try withText(capacity: 2 * textSize) { (text) throws(ZeroMQError) in
            let (first, second) = (text, text + textSize)
            try check("zmq_curve_keypair") { zmq_curve_keypair(first, second) }
            return (String(cString: first), String(cString: second))
        }
        // because: libzmq creates keys in the form that it reads.
        publicKey = CurvePublicKey(publicText)!
    }

    /// Creates a key pair from a secret key of 40 Z85 characters, by computing the public key. Returns nil for any
    /// other text.
    ///
    /// - Throws: ENOTSUP if libzmq was built without CURVE.
    public init?(secretText: String) throws(ZeroMQError) {
        guard isKey(secretText) else { return nil }
        let publicText = try withText(capacity: textSize) { (text) throws(ZeroMQError) in
            try check("zmq_curve_public") { zmq_curve_public(text, secretText) }
            return String(cString: text)
        }
        publicKey = CurvePublicKey(publicText)!
        self.secretText = secretText
    }

    /// A text that names the pair by its public key.
    public var description: String { "the key pair of \(publicKey)" }

    /// A mirror without the secret key.
    public var customMirror: Mirror { Mirror(self, children: ["publicKey": publicKey]) }
}

/// The size of a buffer for a key's text, as libzmq's manual requires: 40 characters and a zero byte.
private let textSize = 41

/// Returns true if a text is a key: 40 Z85 characters.
private func isKey(_ text: String) -> Bool {
    guard text.utf8.count == textSize - 1 else { return false }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { bytes in
        // because: 40 characters decode to 32 bytes, and null means that some characters are not Z85.
        zmq_z85_decode(bytes.baseAddress, text) != nil
    }
}

extension Socket {
    /// Makes this socket accept only encrypted connections, from peers that know the socket's public key. Call it
    /// before bind. The context's authenticator decides which peers are allowed (see ``setZAPDomain(_:)``).
    ///
    /// - Throws: EINVAL if libzmq was built without CURVE.
    public func serveCurve(_ keys: CurveKeyPair) throws(ZeroMQError) {
        try setNumber(ZMQ_CURVE_SERVER, name: "ZMQ_CURVE_SERVER", to: CInt(1))
        try setText(ZMQ_CURVE_SECRETKEY, name: "ZMQ_CURVE_SECRETKEY", to: keys.secretText)
    }

    /// Makes this socket connect only to the server with this public key, and identify itself with `keys`. Call it
    /// before connect.
    ///
    /// - Throws: EINVAL if libzmq was built without CURVE.
    public func useCurve(server: CurvePublicKey, _ keys: CurveKeyPair) throws(ZeroMQError) {
        try setText(ZMQ_CURVE_SERVERKEY, name: "ZMQ_CURVE_SERVERKEY", to: server.description)
        try setText(ZMQ_CURVE_PUBLICKEY, name: "ZMQ_CURVE_PUBLICKEY", to: keys.publicKey.description)
        try setText(ZMQ_CURVE_SECRETKEY, name: "ZMQ_CURVE_SECRETKEY", to: keys.secretText)
    }

    /// Sets the domain name that libzmq sends to the context's authenticator with each handshake of this socket.
    /// The authenticator listens on `inproc://zeromq.zap.01`. Call it before bind.
    public func setZAPDomain(_ domain: String) throws(ZeroMQError) {
        try setText(ZMQ_ZAP_DOMAIN, name: "ZMQ_ZAP_DOMAIN", to: domain)
    }
}

extension Message {
    /// The user id that the authenticator has assigned to the sender's connection; nil without an authenticator.
    public var userID: String? { text("User-Id") }

    /// The sender's address; nil for a message that did not arrive over a network.
    public var peerAddress: String? { text("Peer-Address") }

    private func text(_ property: String) -> String? {
        // because: the text belongs to the message and is copied at once; null means that the message has no such
        // property.
        withUnsafePointer(to: raw) { zmq_msg_gets($0, property).map { String(cString: $0) } }
    }
}

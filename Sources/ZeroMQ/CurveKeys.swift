internal import CZeroMQ

/// A public key of CURVE, ZeroMQ's encryption: 32 bytes, which people and files know as 40 characters of
/// Z85. Anybody may see it.
public struct CurvePublicKey: Hashable, Sendable, CustomStringConvertible {
    /// The key in Z85.
    public let description: String

    /// A key from its 40 characters; nil for any other text.
    public init?(_ z85: String) {
        guard CurveKeyText.isKey(z85) else { return nil }
        description = z85
    }

    /// A key from its 32 bytes; nil for any other number of them.
    public init?(bytes: [UInt8]) {
        guard let text = CurveKeyText.encode(bytes) else { return nil }
        description = text
    }
}

/// A secret key of CURVE. Its text is there only by name, never by accident: printed, logged or dumped it is
/// "a secret key".
public struct CurveSecretKey: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The key in Z85: for the file that it is kept in, and nothing else.
    public let secretText: String

    /// A key from its 40 characters; nil for any other text.
    public init?(_ z85: String) {
        guard CurveKeyText.isKey(z85) else { return nil }
        secretText = z85
    }

    /// Not the key.
    public var description: String { "a secret key" }

    /// Not the key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A secret key and the public one that belongs to it.
public struct CurveKeyPair: Hashable, Sendable {
    /// What others may know.
    public let publicKey: CurvePublicKey
    /// What they may not.
    public let secretKey: CurveSecretKey

    /// A new pair.
    ///
    /// The corresponding C function is `zmq_curve_keypair`.
    ///
    /// - Throws: ENOTSUP by a libzmq without CURVE.
    public init() throws(ZeroMQError) {
        let (publicText, secretText) = try CurveKeyText.makePair()
        // because: libzmq makes keys of the form that it reads.
        publicKey = CurvePublicKey(publicText)!
        secretKey = CurveSecretKey(secretText)!
    }

    /// The pair that a secret key belongs to.
    ///
    /// The corresponding C function is `zmq_curve_public`.
    ///
    /// - Throws: ENOTSUP by a libzmq without CURVE.
    public init(secretKey: CurveSecretKey) throws(ZeroMQError) {
        publicKey = CurvePublicKey(try CurveKeyText.publicText(of: secretKey.secretText))!
        self.secretKey = secretKey
    }
}

/// Keys as text. The unsafe room: each call gets a buffer of the size that its manual asks for, 41 bytes
/// for 40 characters and their zero.
private enum CurveKeyText {
    static let length = 40

    static func isKey(_ text: String) -> Bool {
        guard text.utf8.count == length else { return false }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { bytes in
            // because: 40 characters decode to 32 bytes, and null says that some were not Z85.
            zmq_z85_decode(bytes.baseAddress, text) != nil
        }
    }

    static func encode(_ bytes: [UInt8]) -> String? {
        guard bytes.count == 32 else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: length + 1) { text in
            zmq_z85_encode(text.baseAddress, bytes, bytes.count).map { String(cString: $0) }
        }
    }

    static func makePair() throws(ZeroMQError) -> (publicText: String, secretText: String) {
        try withText(capacity: 2 * (length + 1)) { (text) throws(ZeroMQError) in
            let (first, second) = (text, text + length + 1)
            try check("zmq_curve_keypair") { zmq_curve_keypair(first, second) }
            return (String(cString: first), String(cString: second))
        }
    }

    static func publicText(of secretText: String) throws(ZeroMQError) -> String {
        try withText(capacity: length + 1) { (text) throws(ZeroMQError) in
            try check("zmq_curve_public") { zmq_curve_public(text, secretText) }
            return String(cString: text)
        }
    }
}

extension Socket {
    /// Makes this socket let in only peers that know its public key and have keys of their own; before
    /// bind. Whether it knows their keys is asked of the context's authenticator (see ``setZAPDomain(_:)``).
    ///
    /// The corresponding C function is `zmq_setsockopt` with `ZMQ_CURVE_SERVER` and
    /// `ZMQ_CURVE_SECRETKEY`.
    ///
    /// - Throws: `.invalidArgument` by a libzmq without CURVE.
    public func serveCurve(_ secretKey: CurveSecretKey) throws(ZeroMQError) {
        try setNumber(ZMQ_CURVE_SERVER, name: "ZMQ_CURVE_SERVER", to: CInt(1))
        try setText(ZMQ_CURVE_SECRETKEY, name: "ZMQ_CURVE_SECRETKEY", to: secretKey.secretText)
    }

    /// Makes this socket talk only to a server with that public key, and show it these keys; before
    /// connect.
    ///
    /// The corresponding C function is `zmq_setsockopt` with `ZMQ_CURVE_SERVERKEY`,
    /// `ZMQ_CURVE_PUBLICKEY` and `ZMQ_CURVE_SECRETKEY`.
    ///
    /// - Throws: `.invalidArgument` by a libzmq without CURVE.
    public func useCurve(server: CurvePublicKey, _ keys: CurveKeyPair) throws(ZeroMQError) {
        try setText(ZMQ_CURVE_SERVERKEY, name: "ZMQ_CURVE_SERVERKEY", to: server.description)
        try setText(ZMQ_CURVE_PUBLICKEY, name: "ZMQ_CURVE_PUBLICKEY", to: keys.publicKey.description)
        try setText(ZMQ_CURVE_SECRETKEY, name: "ZMQ_CURVE_SECRETKEY", to: keys.secretKey.secretText)
    }

    /// The name under which the context's authenticator, which is bound to `inproc://zeromq.zap.01`, is
    /// asked about peers of this socket; before bind.
    ///
    /// The corresponding C function is `zmq_setsockopt` with `ZMQ_ZAP_DOMAIN`.
    public func setZAPDomain(_ domain: String) throws(ZeroMQError) {
        try setText(ZMQ_ZAP_DOMAIN, name: "ZMQ_ZAP_DOMAIN", to: domain)
    }
}

extension Message {
    /// The sender: the user id that the authenticator gave its connection; nil without an authenticator.
    ///
    /// The corresponding C function is `zmq_msg_gets` with "User-Id".
    public var userID: String? {
        // because: the text belongs to the message and is copied at once; null says that there is none.
        withUnsafePointer(to: raw) { zmq_msg_gets($0, "User-Id").map { String(cString: $0) } }
    }
}

import Testing
import ZeroMQ

@Suite struct CurveTests {
    @Test func `each pair of keys is new, and a secret key gives its public key`() throws {
        let (one, other) = (try CurveKeyPair(), try CurveKeyPair())
        #expect(one != other)
        #expect(try CurveKeyPair(secretText: one.secretText) == one)
        #expect(CurvePublicKey(one.publicKey.description) == one.publicKey)
    }

    @Test(arguments: [
        "", "short", String(repeating: "a", count: 39), String(repeating: "a", count: 41),
        String(repeating: "~", count: 40), String(repeating: "ä", count: 20),
    ])
    func `only 40 characters of Z85 are a key`(text: String) throws {
        #expect(CurvePublicKey(text) == nil)
        #expect(try CurveKeyPair(secretText: text) == nil)
    }

    @Test func `a public key has 32 bytes`() throws {
        #expect(CurvePublicKey(bytes: [UInt8](repeating: 7, count: 31)) == nil)
        #expect(CurvePublicKey(bytes: [UInt8](repeating: 7, count: 33)) == nil)
        // The example of https://rfc.zeromq.org/spec/32: 8 bytes, four times.
        let bytes: [UInt8] = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b]
        let key = try #require(CurvePublicKey(bytes: bytes + bytes + bytes + bytes))
        #expect(key.description == String(repeating: "HelloWorld", count: 4))
    }

    @Test func `a secret key is never printed`() throws {
        let keys = try CurveKeyPair()
        var dumped = ""
        dump(keys, to: &dumped)
        for text in ["\(keys)", String(reflecting: keys), dumped] {
            #expect(!text.contains(keys.secretText))
        }
        #expect("\(keys)".contains(keys.publicKey.description))
    }

    @Test func `an authenticator gets the key, and each frame has its user id`() throws {
        let context = try Context()
        let (server, client) = (try CurveKeyPair(), try CurveKeyPair())
        let zap = try Socket.bound(.rep, to: "inproc://zeromq.zap.01", in: context)
        let router = try Socket.patient(.router, in: context)
        try router.serveCurve(server)
        try router.setZAPDomain("a domain")
        try router.bind("tcp://127.0.0.1:*")
        let request = try Socket.patient(.req, in: context)
        try request.useCurve(server: server.publicKey, client)
        try request.connect(router.lastEndpoint)
        try request.send("hello")

        var asked = Multipart()
        #expect(try zap.receive(into: &asked) == 7)
        #expect(asked[0].text == "1.0" && asked[2].text == "a domain" && asked[5].text == "CURVE")
        #expect(CurvePublicKey(bytes: asked[6].bytes) == client.publicKey)
        try zap.send(["1.0", asked[1].text, "200", "OK", "somebody", ""])

        var message = Multipart()
        #expect(try router.receive(into: &message) == 3)
        #expect(message[2].text == "hello")
        #expect(message[2].userID == "somebody")
        #expect(try Message("of one's own").userID == nil)
    }
}

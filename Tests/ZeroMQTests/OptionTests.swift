import Platform
import Testing
import ZeroMQ

@Suite struct OptionTests {
    @Test func `the error for an invalid value has the option's name`() throws {
        let context = try Context()
        let socket = try Socket(.dealer, in: context)
        func refusal(_ body: () throws(ZeroMQError) -> Void) -> String? {
            let error = failure(of: body)
            #expect(error?.code == EINVAL)
            return error?.subject
        }
        let refusals = [
            refusal { () throws(ZeroMQError) in try socket.setLinger(.seconds(Int64.max)) },
            refusal { () throws(ZeroMQError) in try socket.setTCPKeepalive(after: .seconds(-5)) },
        ]
        #expect(refusals == ["ZMQ_LINGER", "ZMQ_TCP_KEEPALIVE_IDLE"])
    }

    @Test func `a negative time is a precondition failure`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let context = try Context()
            let socket = try Socket(.dealer, in: context)
            try socket.setLinger(.milliseconds(-1))
        }
        #expect(died(result, saying: "a negative time"))
    }

    @Test func `the connection of a peer that takes no bytes ends like that of a silent peer`() throws {
        let context = try Context()
        let server = try Socket.patient(.rep, in: context)
        try server.setTCPKeepalive(after: .seconds(5))
        try server.bind(Transport.tcp.wildcard)
        let client = try Socket.connected(.req, to: server.lastEndpoint, in: context)
        try client.send("request")
        #expect(try server.receiveText() == "request")
        #expect((0..<4096).contains { unacknowledgedTimeout(of: $0) == 65_000 })
    }
}

/// Returns the milliseconds after which the system closes a tcp connection whose bytes are not acknowledged; nil for
/// any other descriptor.
private func unacknowledgedTimeout(of descriptor: Int32) -> UInt32? {
    var milliseconds: UInt32 = 0
    var size = socklen_t(MemoryLayout<UInt32>.size)
    let result = getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, &size)
    return result == 0 ? milliseconds : nil
}

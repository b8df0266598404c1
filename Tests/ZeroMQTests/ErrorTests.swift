import Platform
import Testing

@testable import ZeroMQ

@Suite struct ErrorTests {
    @Test func `a REQ that receives before it has sent is in the wrong state`() throws {
        let context = try Context()
        let socket = try Socket.bound(.req, to: uniqueInproc(), in: context)
        let error = failure { () throws(ZeroMQError) in _ = try socket.receive() }
        #expect(error == ZeroMQError(code: wrongState, operation: "zmq_msg_recv"))
        let nonblocking = failure { () throws(ZeroMQError) in _ = try socket.tryReceive() }
        #expect(nonblocking?.code == wrongState)
    }

    @Test func `the error for an address in use names the address`() throws {
        let context = try Context()
        let first = try Socket.bound(.rep, to: "tcp://127.0.0.1:*", in: context)
        let endpoint = try first.lastEndpoint
        let second = try Socket(.rep, in: context)
        let error = failure { () throws(ZeroMQError) in try second.bind(endpoint) }
        #expect(error?.code == EADDRINUSE)
        #expect(error?.description == "zmq_bind \(endpoint): Address already in use")
    }

    @Test(
        arguments: [
            ("", EINVAL),
            ("hello", EINVAL),
            ("tcp://127.0.0.1", EINVAL),
            ("tcp://no-such-interface0:5555", ENODEV),
            ("tcp://192.0.2.1:5555", EADDRNOTAVAIL),
            ("carrier-pigeon://home", EPROTONOSUPPORT),
            ("ipc:///tmp/\(String(repeating: "x", count: 200))", ENAMETOOLONG),
            ("ipc:///proc/here", ENOENT),
        ] as [(String, CInt)])
    func `a bad endpoint is refused by bind`(endpoint: String, code: CInt) throws {
        let context = try Context()
        let socket = try Socket(.rep, in: context)
        let error = failure { () throws(ZeroMQError) in try socket.bind(endpoint) }
        #expect(error == ZeroMQError(code: code, operation: "zmq_bind", subject: endpoint))
    }

    @Test(
        arguments: [
            ("hello", EINVAL),
            ("carrier-pigeon://home", EPROTONOSUPPORT),
        ] as [(String, CInt)])
    func `a bad endpoint is refused by connect`(endpoint: String, code: CInt) throws {
        let context = try Context()
        let socket = try Socket(.req, in: context)
        let error = failure { () throws(ZeroMQError) in try socket.connect(endpoint) }
        #expect(error == ZeroMQError(code: code, operation: "zmq_connect", subject: endpoint))
    }

    @Test func `a socket throws EAGAIN after its timeout, not before`() throws {
        let context = try Context()
        let socket = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        try socket.setReceiveTimeout(.milliseconds(50))
        try socket.setSendTimeout(.milliseconds(50))
        let start = ContinuousClock.now
        let receive = failure { () throws(ZeroMQError) in _ = try socket.receive() }
        let middle = ContinuousClock.now
        let send = failure { () throws(ZeroMQError) in try socket.send("x") }
        let end = ContinuousClock.now
        #expect(receive?.code == EAGAIN)
        #expect(send?.code == EAGAIN)
        #expect(middle - start >= .milliseconds(50) - slack)
        #expect(end - middle >= .milliseconds(50) - slack)
    }

    @Test func `reasons are the texts of libzmq and of the system`() {
        func reason(_ code: CInt) -> String { ZeroMQError(code: code, operation: "zmq_poll").reason }
        #expect(reason(wrongState).contains("current state"))
        #expect(reason(ENOENT) == "No such file or directory")
        #expect(
            ZeroMQError(code: EAGAIN, operation: "zmq_poll").description
                == "zmq_poll: Resource temporarily unavailable")
    }
}

/// Tests the function `check` with fake calls, which fail as each test requires.
@Suite struct CheckTests {
    @Test func `an interrupted call is repeated until it has a result`() throws {
        var calls = 0
        let result = try check("fake") {
            calls += 1
            errno = EINTR
            return calls < 4 ? -1 : 7
        }
        #expect(calls == 4)
        #expect(result == 7)
    }

    @Test func `any other failure is thrown at once`() {
        var calls = 0
        let error = failure { () throws(ZeroMQError) in
            try check("fake", on: "subject") {
                calls += 1
                errno = ENOENT
                return -1
            }
        }
        #expect(calls == 1)
        #expect(error == ZeroMQError(code: ENOENT, operation: "fake", subject: "subject"))
    }

    @Test func `an attempt returns false only if the call would have to wait`() throws {
        func attempting(_ code: CInt) throws(ZeroMQError) -> Bool {
            try attempt("fake") {
                errno = code
                return code == 0 ? 0 : -1
            }
        }
        #expect(try attempting(0) == true)
        #expect(try attempting(EAGAIN) == false)
        let error = failure { () throws(ZeroMQError) in _ = try attempting(EPIPE) }
        #expect(error?.code == EPIPE)
    }

    @Test(
        arguments: [
            (.zero, 0), (.nanoseconds(1), 1), (.milliseconds(1), 1), (.microseconds(1001), 2),
            (.seconds(3), 3000),
            (.milliseconds(-1), -1), (.seconds(Int64.max), .max), (.seconds(Int64.min), .min),
        ] as [(Duration, Int64)])
    func `milliseconds are rounded up and saturate`(duration: Duration, milliseconds: Int64) {
        #expect(duration.millisecondsRoundedUp == milliseconds)
    }
}

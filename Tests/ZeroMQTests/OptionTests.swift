import Testing
import ZeroMQ

@Suite struct OptionTests {
    private func roundTrip<Value: Equatable>(_ option: SocketOption<Value>, _ values: Value...) throws {
        let context = try Context()
        let socket = try Socket(.dealer, in: context)
        for value in values {
            try socket.set(option, to: value)
            #expect(try socket.get(option) == value)
        }
    }

    @Test func `options come back as they were set`() throws {
        try roundTrip(.linger, nil, .zero, .milliseconds(1), .seconds(5))
        try roundTrip(.receiveTimeout, nil, .zero, .milliseconds(1500))
        try roundTrip(.sendTimeout, nil, .zero, .milliseconds(1500))
        try roundTrip(.handshakeInterval, .zero, .seconds(3))
        try roundTrip(.heartbeatInterval, .zero, .seconds(3))
        try roundTrip(.heartbeatTimeout, .zero, .seconds(3))
        try roundTrip(.heartbeatTimeToLive, .zero, .seconds(3))
        try roundTrip(.reconnectInterval, .milliseconds(10))
        try roundTrip(.sendHighWaterMark, 0, 1, 5000)
        try roundTrip(.receiveHighWaterMark, 0, 1, 5000)
        try roundTrip(.backlog, 1, 500)
        try roundTrip(.sendBuffer, 100_000)
        try roundTrip(.receiveBuffer, 100_000)
        try roundTrip(.maxMessageSize, nil, 0, 1000, 1 << 40)
        try roundTrip(.immediate, true, false)
        try roundTrip(.ipv6, true, false)
        try roundTrip(.tcpKeepalive, true, false, nil)
        try roundTrip(.tcpKeepaliveCount, 3, nil)
        try roundTrip(.tcpKeepaliveIdle, 30, nil)
        try roundTrip(.tcpKeepaliveInterval, 30, nil)
    }

    @Test func `a new socket lingers not, waits for ever and takes any size`() throws {
        let context = try Context()
        let socket = try Socket(.router, in: context)
        #expect(try socket.get(.linger) == .some(.zero))
        #expect(try socket.get(.receiveTimeout) == nil)
        #expect(try socket.get(.sendTimeout) == nil)
        #expect(try socket.get(.maxMessageSize) == nil)
        #expect(try socket.get(.sendHighWaterMark) == 1000)
        #expect(try socket.get(.tcpKeepalive) == nil)
    }

    @Test func `times below a millisecond are rounded up, not to zero`() throws {
        let context = try Context()
        let socket = try Socket(.router, in: context)
        try socket.set(.receiveTimeout, to: .microseconds(1))
        #expect(try socket.get(.receiveTimeout) == .milliseconds(1))
    }

    @Test func `a routing id comes back as it was set`() throws {
        let context = try Context()
        let socket = try Socket(.dealer, in: context)
        #expect(try socket.routingID == [])
        for id in [[1], Array(1...255), [9, 0, 9]] as [[UInt8]] {
            try socket.setRoutingID(id)
            #expect(try socket.routingID == id)
        }
    }

    @Test func `values that libzmq can't take are refused with the option's name`() throws {
        let context = try Context()
        let socket = try Socket(.dealer, in: context)
        func refusal(_ body: () throws(ZeroMQError) -> Void) -> String? {
            let error = failure(of: body)
            #expect(error?.code == .invalidArgument)
            return error?.subject
        }
        let long = [UInt8](repeating: 1, count: 256)
        let refusals = [
            refusal { () throws(ZeroMQError) in try socket.setRoutingID([]) },
            refusal { () throws(ZeroMQError) in try socket.setRoutingID(long) },
            refusal { () throws(ZeroMQError) in try socket.set(.sendHighWaterMark, to: -1) },
            refusal { () throws(ZeroMQError) in try socket.set(.sendHighWaterMark, to: .max) },
            refusal { () throws(ZeroMQError) in try socket.set(.linger, to: .seconds(Int64.max)) },
            refusal { () throws(ZeroMQError) in try socket.set(.reqCorrelate, to: true) },
            refusal { () throws(ZeroMQError) in _ = try socket.get(.reqCorrelate) },
        ]
        #expect(
            refusals == [
                "ZMQ_ROUTING_ID", "ZMQ_ROUTING_ID", "ZMQ_SNDHWM", "ZMQ_SNDHWM", "ZMQ_LINGER",
                "ZMQ_REQ_CORRELATE", "ZMQ_REQ_CORRELATE",
            ])
    }

    @Test func `a negative time is a programmer's error`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let context = try Context()
            let socket = try Socket(.dealer, in: context)
            try socket.set(.linger, to: .milliseconds(-1))
        }
        #expect(died(result, saying: "a negative time"))
    }
}

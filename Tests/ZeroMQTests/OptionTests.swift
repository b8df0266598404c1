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
            refusal { () throws(ZeroMQError) in try socket.setReqCorrelate(true) },
        ]
        #expect(refusals == ["ZMQ_LINGER", "ZMQ_REQ_CORRELATE"])
    }

    @Test func `a negative time is a precondition failure`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let context = try Context()
            let socket = try Socket(.dealer, in: context)
            try socket.setLinger(.milliseconds(-1))
        }
        #expect(died(result, saying: "a negative time"))
    }
}

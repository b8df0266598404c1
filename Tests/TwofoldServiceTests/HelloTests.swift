import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService

@Suite struct HelloTests {
    @Test func `hello reports version, games, actions in their frozen order, limits and threads`() throws {
        var limits = Limits()
        limits.maxMessageBytes = 1001
        limits.maxBoardsPerSession = 1002
        limits.maxSessions = 1003
        limits.maxSessionsPerClient = 1004
        limits.maxBoards = 1005
        limits.maxBytes = 1006
        limits.idleTimeout = .seconds(1007)
        var request = HelloRequest()
        request.protocolVersion = 1
        let reply = try service(threads: 3, limits: limits).hello(request)
        #expect(reply.protocolVersion == 1)
        #expect(reply.serverVersion == EnvironmentService.version)
        #expect(reply.environments[0].rewardTerms.prefix(2) == ["merge_score", "merge_exponent"])
        #expect(reply.environments[0].rewardTerms.count == 15)
        #expect(
            reply.environments[0].extraInfos == [
                "reward_terms", "episode_return", "merges", "chance", "afterstates", "optimal_value",
                "action_values", "regret",
            ])
        #expect(reply.environments.map(\.id) == ["twofold/Game2048-v0", "twofold/Concentration-v0"])
        #expect(reply.environments[0].actions == ["up", "right", "down", "left"])
        #expect(reply.environments[1].actions.count == 17)
        #expect(reply.environments[1].actions.first == "turn 0")
        #expect(reply.environments[1].actions.last == "peek")
        #expect(
            reply.environments[1].rewardTerms == [
                "match", "mismatch", "face_up_touch", "cleared", "peek", "survival",
            ])
        #expect(reply.environments[1].extraInfos == ["reward_terms", "episode_return", "flips"])
        #expect(reply.limits.maxMessageBytes == 1001)
        #expect(reply.limits.maxBoardsPerSession == 1002)
        #expect(reply.limits.maxSessions == 1003)
        #expect(reply.limits.maxSessionsPerClient == 1004)
        #expect(reply.limits.maxBoards == 1005)
        #expect(reply.limits.maxBytes == 1006)
        #expect(reply.limits.idleTimeout == 1007)
        #expect(reply.threads == 3)
    }

    @Test func `the limits have these defaults`() {
        let limits = Limits()
        #expect(limits.maxMessageBytes == 268_435_456)
        #expect(limits.maxBoardsPerSession == 1_048_576)
        #expect(limits.maxSessions == 10_000)
        #expect(limits.maxSessionsPerClient == 1000)
        #expect(limits.maxBoards == 16_777_216)
        #expect(limits.idleTimeout == .seconds(86_400))
    }

    @Test(arguments: [0, 2, UInt32.max])
    func `another version of the protocol is refused, and the error has both versions`(version: UInt32) throws
    {
        var request = HelloRequest()
        request.protocolVersion = version
        let error = try #require(throws: ServiceError.self) { try service().hello(request) }
        #expect(error.code == .unsupportedVersion)
        #expect(error.field == "protocol_version")
        #expect(error.message.contains("version \(version) "))
        #expect(error.message.contains("supports 1"))
    }

    @Test(
        arguments: [
            (.invalid("", ""), .invalidArgument), (.precondition("", ""), .failedPrecondition),
            (.exhausted("", ""), .resourceExhausted), (.notFound("", ""), .notFound),
        ] as [(EnvironmentError, ErrorCode)])
    func `each kind of refusal has its code`(error: EnvironmentError, code: ErrorCode) {
        #expect(ServiceError(error).code == code)
    }

    @Test func `an error is sent with exactly the fields that it has`() {
        let full = ServiceError(.outOfSequence, field: "seq", lane: 3, expectedSeq: 7, "a sentence")
        #expect(full.code == .outOfSequence)
        #expect(full.field == "seq")
        #expect(full.message == "a sentence")
        #expect(full.hasLane && full.lane == 3)
        #expect(full.hasExpectedSeq && full.expectedSeq == 7)
        let bare = ServiceError(.internal, "a sentence")
        #expect(bare.field.isEmpty && !bare.hasLane && !bare.hasExpectedSeq)
        #expect(ServiceError(.invalidArgument, lane: 0, "").hasLane, "lane 0 is a lane")
    }
}

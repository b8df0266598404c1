import CTwofold
import Foundation
import Testing
import TwofoldEmbedded
import TwofoldProtocol
import TwofoldTestSupport

/// Tests the function that trains networks: its sizes and its refusals.
@Suite struct LearnTests {
    /// A network's form: one tuple with the cells 0, 1, 4 and 5, ten exponents, all images.
    private let form: [UInt8] = [0x0a, 6, 0x0a, 4, 0, 1, 4, 5, 0x10, 10, 0x18, 1]

    /// Calls the function with a learner that `change` has changed. Returns its status, the error in its reply, and the
    /// learner.
    private func call(
        lanes: Int = 3, autoreset: Twofold_V1_AutoresetMode = .nextStep,
        _ change: (inout twofold_learner) -> Void
    ) throws -> (status: Int32, error: ServiceError?, learner: twofold_learner) {
        let request = Request(.create(lanes: lanes) { $0.autoresetMode = autoreset }).bytes
        var header = [UInt8](repeating: 0, count: 4096)
        return try request.withUnsafeBufferPointer { request in
            try form.withUnsafeBufferPointer { form in
                try header.withUnsafeMutableBufferPointer { header in
                    var learner = twofold_learner()
                    (learner.request, learner.request_size) = (request.baseAddress, request.count)
                    (learner.form, learner.form_size) = (form.baseAddress, form.count)
                    (learner.threads, learner.learning_rate) = (1, 1)
                    change(&learner)
                    var reply = twofold_reply()
                    (reply.header, reply.header_capacity) = (header.baseAddress, header.count)
                    let status = learn(&learner, &reply)
                    let answer = try Reply(bytes: Array(header[..<reply.header_size]))
                    guard case .error(let error) = answer.result else { return (status, nil, learner) }
                    return (status, error, learner)
                }
            }
        }
    }

    @Test func `without weights, only the sizes are reported`() throws {
        let found = try call { _ in }
        #expect(found.status == TWOFOLD_ANSWERED && found.error == nil)
        #expect(found.learner.weight_count == 10_000)
        #expect(found.learner.state_size > 3 * 32 && found.learner.state_size % 3 == 0)
    }

    @Test func `each call adds to the counts`() throws {
        let sizes = try call { _ in }.learner
        var weights = [Float](repeating: 0, count: 3 * sizes.weight_count)
        var state = [UInt8](repeating: 0, count: sizes.state_size)
        var counts = sizes
        for turn in 0..<3 as Range<UInt64> {
            counts = try weights.withUnsafeMutableBufferPointer { weights in
                try state.withUnsafeMutableBufferPointer { state in
                    let seeds = [1, 2, 3] as [UInt64]
                    return try seeds.withUnsafeBytes { seeds in
                        let found = try call {
                            $0.steps = 100
                            $0.seeds = turn == 0 ? seeds.bindMemory(to: UInt8.self).baseAddress : nil
                            ($0.weights, $0.weight_count) = (weights.baseAddress, sizes.weight_count)
                            ($0.state, $0.state_size) = (state.baseAddress, state.count)
                            ($0.played, $0.moves, $0.episodes) = (
                                counts.played, counts.moves, counts.episodes
                            )
                        }
                        #expect(found.status == TWOFOLD_ANSWERED && found.error == nil)
                        return found.learner
                    }
                }
            }
            #expect(counts.played == 100 * (turn + 1))
            #expect((counts.played * 3 - 3...counts.played * 3).contains(counts.moves + counts.episodes))
        }
        #expect(weights.contains { $0 != 0 })
    }

    @Test func `a missing pointer or an impossible size is a bad argument`() throws {
        #expect(learn(nil, nil) == TWOFOLD_BAD_ARGUMENT)
        var memory: Float = 0
        try withUnsafeMutablePointer(to: &memory) { memory in
            let changes: [(inout twofold_learner) -> Void] = [
                { $0.request = nil }, { $0.form = nil }, { $0.threads = 0 }, { $0.threads = 1025 },
                { $0.request_size = -1 }, { $0.form_size = -1 },
                { $0.weights = memory },
                {
                    $0.weights = memory
                    $0.state = UnsafeMutableRawPointer(memory).assumingMemoryBound(to: UInt8.self)
                    ($0.weight_count, $0.state_size) = (1, 4)
                },
            ]
            for change in changes {
                let status = try call(change).status
                #expect(status == TWOFOLD_BAD_ARGUMENT)
            }
        }
    }

    @Test func `weights or a state of another size are a bad argument`() throws {
        let sizes = try call { _ in }.learner
        var weights = [Float](repeating: 0, count: 3 * sizes.weight_count + 3)
        var state = [UInt8](repeating: 0, count: sizes.state_size + 3)
        for (more, other) in [(1, 0), (-1, 0), (0, 3), (0, -3), (0, 0)] {
            let status = try weights.withUnsafeMutableBufferPointer { weights in
                try state.withUnsafeMutableBufferPointer { state in
                    try [1, 2, 3].withUnsafeBytes { seeds in
                        try call {
                            $0.seeds = seeds.bindMemory(to: UInt8.self).baseAddress
                            ($0.weights, $0.weight_count) = (weights.baseAddress, sizes.weight_count + more)
                            ($0.state, $0.state_size) = (state.baseAddress, sizes.state_size + other)
                        }.status
                    }
                }
            }
            let isRight = more == 0 && other == 0
            #expect(status == (isRight ? TWOFOLD_ANSWERED : TWOFOLD_BAD_ARGUMENT))
        }
    }

    @Test func `an invalid argument is refused by its name`() throws {
        let garbage: [UInt8] = [0xff, 0xff]
        try garbage.withUnsafeBufferPointer { garbage in
            let request = try call { ($0.request, $0.request_size) = (garbage.baseAddress, 2) }
            #expect(request.error?.field == "request")
            let form = try call { ($0.form, $0.form_size) = (garbage.baseAddress, 2) }
            #expect(form.error?.field == "tuples")
        }
        let rate = try call { $0.learning_rate = 2 }
        #expect(rate.error?.field == "learning_rate")
        let lanes = try call(lanes: 0) { _ in }
        #expect(lanes.error?.field == "num_envs")
        for mode in [Twofold_V1_AutoresetMode.sameStep, .disabled] {
            let autoreset = try call(autoreset: mode) { _ in }
            #expect(autoreset.error?.field == "autoreset_mode")
        }
    }
}

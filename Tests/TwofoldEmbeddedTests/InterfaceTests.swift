import CTwofold
import Dispatch
import Foundation
import Synchronization
import Testing
import TwofoldEmbedded
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@Suite struct InterfaceTests {
    private let library = try! Library()

    @Test func `the library reports its versions`() throws {
        #expect(interface() == UInt32(TWOFOLD_INTERFACE))
        #expect(version().map { String(cString: $0) } == EnvironmentService.version)
        let hello = try library.call(Request(.hello)).reply.hello
        #expect(hello.serverVersion == EnvironmentService.version)
        #expect(hello.limits.idleTimeout == 0, "sessions never time out")
    }

    @Test(arguments: [1, 64, 67, 1000])
    func `the step function and the general function give the same step`(lanes: Int) throws {
        let (lean, general) = (
            try Boards(library, lanes: lanes, seed: 9), try Boards(library, lanes: lanes, seed: 9)
        )
        for turn in 0..<50 {
            let step = try lean.step(lean.actions(turn))
            #expect(step.status == TWOFOLD_STEPPED && step.header.isEmpty)
            let call = try general.ask(.step, general.actions(turn))
            #expect(try call.reply.result == .step(.init()))
            #expect(step.payload == call.payload)
            #expect(step.payload.count == Int(lean.created.step.size))
        }
    }

    @Test func `with SAME_STEP a step in which episodes end has a header`() throws {
        let boards = try Boards(library, lanes: 30) {
            $0.autoresetMode = .sameStep
            $0.maxEpisodeSteps = 3
        }
        for turn in 0..<7 {
            let step = try boards.step(boards.actions(turn))
            guard turn % 3 == 2 else {
                #expect(step.status == TWOFOLD_STEPPED)
                continue
            }
            #expect(step.status == TWOFOLD_ANSWERED)
            let reply = try step.reply.step
            #expect(reply.hasFinals && step.payload.count == Int(reply.finals.size))
            #expect(boards.repeatStep(boards.actions(turn)).payload == step.payload)
        }
    }

    // MARK: once

    @Test func `a repeat gets the stored reply and is not executed again`() throws {
        let (boards, twin) = (try Boards(library, lanes: 100), try Boards(library, lanes: 100))
        for turn in 0..<30 {
            let step = try boards.step(boards.actions(turn))
            for _ in 0..<turn % 3 {
                let again = boards.repeatStep(boards.actions(turn))
                #expect(again.status == TWOFOLD_STEPPED && again.payload == step.payload)
            }
            #expect(try twin.step(twin.actions(turn)).payload == step.payload)
        }
        let observed = try boards.ask(.observe)
        let repeated = library.call(
            Request(.observe, session: Data(boards.id), seq: boards.seq))
        #expect(repeated.payload == observed.payload && repeated.header == observed.header)
    }

    @Test func `a used seq with other bytes is a conflict, and a seq beyond the next one is refused`()
        throws
    {
        let boards = try Boards(library, lanes: 3)
        try boards.step([0, 1, 2])
        let other = library.step(boards.id, seq: boards.seq, [0, 1, 3])
        #expect(other.status == TWOFOLD_ANSWERED && other.error?.code == .conflict)
        let late = library.step(boards.id, seq: boards.seq + 2, [0, 1, 2])
        #expect(late.error?.code == .outOfSequence && late.error?.expectedSeq == boards.seq + 1)
        let lost = library.step(boards.id, epoch: 2, seq: boards.seq + 1, [0, 1, 2])
        #expect(lost.error?.code == .notFound && lost.error?.field == "session")
        try boards.step([0, 1, 2])
    }

    @Test func `a reply that does not fit is kept, and its request is executed once`() throws {
        let (boards, twin) = (try Boards(library, lanes: 100), try Boards(library, lanes: 100))
        let expected = try twin.step(twin.actions(0))
        library.payloadRoom = expected.payload.count - 1
        for _ in 0..<2 {
            let small = library.step(boards.id, seq: 3, boards.actions(0))
            #expect(small.status == TWOFOLD_TOO_SMALL)
            #expect(small.sizes.payload == expected.payload.count)
        }
        library.payloadRoom = expected.payload.count
        #expect(library.step(boards.id, seq: 3, boards.actions(0)).payload == expected.payload)
        // A header that does not fit is not lost either.
        library.headerRoom = 3
        let observe = Request(.observe, session: Data(boards.id), seq: 4)
        let small = library.call(observe)
        #expect(small.status == TWOFOLD_TOO_SMALL && small.sizes.header > 3)
        library.headerRoom = small.sizes.header
        #expect(library.call(observe).status == TWOFOLD_ANSWERED)
    }

    @Test func `threads that repeat a step in progress execute it once`() throws {
        let (boards, twin) = (try Boards(library, lanes: 20_000), try Boards(library, lanes: 20_000))
        library.payloadRoom = Int(boards.created.step.size)
        for turn in 0..<40 {
            let expected = try twin.step(twin.actions(turn)).payload
            let (id, actions, library) = (boards.id, boards.actions(turn), Unchecked(value: library))
            let answers = Mutex<[Int32: Int]>([:])
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                let answer = library.value.step(id, seq: UInt64(turn) + 3, actions)
                if answer.status == TWOFOLD_STEPPED {
                    #expect(answer.payload == expected, "turn \(turn)")
                } else {
                    #expect(answer.error?.code == .failedPrecondition && answer.error?.field == "session")
                }
                answers.withLock { $0[answer.status, default: 0] += 1 }
            }
            #expect(answers.withLock { $0[Int32(TWOFOLD_STEPPED)] ?? 0 } >= 1)
        }
    }

    /// A wrapper for a value whose functions any thread may call.
    private struct Unchecked<Value>: @unchecked Sendable {
        let value: Value
    }

    // MARK: refusals

    @Test func `a refusal names the code, the field and the lane, and changes nothing`() throws {
        let (boards, twin) = (try Boards(library, lanes: 5), try Boards(library, lanes: 5))
        let bad = library.step(boards.id, seq: 3, [0, 1, 7, 9, 0])
        #expect(bad.status == TWOFOLD_ANSWERED)
        #expect(bad.error?.code == .invalidArgument)
        #expect(bad.error?.field == "actions" && bad.error?.lane == 2)
        for count in [0, 2, 6, 5000] {
            let other = library.step(boards.id, seq: 3, [UInt8](repeating: 0, count: count))
            #expect(other.error?.code == .invalidArgument && other.error?.field == "actions")
            #expect(other.error?.message.contains("\(count) actions") == true)
        }
        #expect(try boards.step([0, 1, 2, 3, 0]).payload == twin.step([0, 1, 2, 3, 0]).payload)
    }

    @Test func `actions may have any width, and the error for an action out of range names its lane`() throws
    {
        let twin = try Boards(library, lanes: 4)
        let expected = try twin.step([0, 1, 2, 3]).payload
        func check<Value: FixedWidthInteger>(_: Value.Type) throws {
            let boards = try Boards(library, lanes: 4)
            for wrong in [4, 100, Value.max, Value.min] where wrong != 0 {
                let refused = library.step(boards.id, seq: 3, wide: [0, 1, wrong, wrong])
                #expect(refused.error?.code == .invalidArgument && refused.error?.field == "actions")
                #expect(refused.error?.lane == 2)
                #expect(refused.error?.message.contains("\(wrong)") == true)
            }
            let step = library.step(boards.id, seq: 3, wide: [0, 1, 2, 3] as [Value])
            #expect(step.status == TWOFOLD_STEPPED && step.payload == expected)
            // The same actions in another width are the same request.
            #expect(library.step(boards.id, seq: 3, [0, 1, 2, 3]).payload == expected)
            #expect(library.step(boards.id, seq: 3, wide: [0, 1, 2, 3] as [Value]).payload == expected)
            for other in [[0, 1, 2, 259], [0, 1, 2]] as [[Int32]] {
                #expect(library.step(boards.id, seq: 3, wide: other).error?.code == .conflict)
            }
        }
        try check(UInt8.self)
        try check(Int8.self)
        try check(UInt16.self)
        try check(Int16.self)
        try check(UInt32.self)
        try check(Int32.self)
        try check(UInt64.self)
        try check(Int64.self)
        let boards = try Boards(library, lanes: 4)
        #expect(library.step(boards.id, seq: 3, wide: [0, 256, 0, 0] as [Int64]).error?.lane == 1)
        var reply = twofold_reply()
        let actions: [UInt64] = [0, 0, 0, 0]
        for width: Int32 in [0, 3, -5, 16, .min] {
            #expect(
                reply.step(library.number, boards.id, 1, 3, actions, 4, width)
                    == Int32(TWOFOLD_BAD_ARGUMENT))
        }
        #expect(
            reply.step(library.number, boards.id, 1, 3, actions, .max, 8)
                == Int32(TWOFOLD_BAD_ARGUMENT))
    }

    @Test(arguments: [1, -1, 2, -2, 4, -4, 8, -8] as [Int32])
    func `the number of actions is checked before they are read`(width: Int32) throws {
        let boards = try Boards(library, lanes: 5)
        let actions: [UInt64] = [0, 0, 0, 0, 0]
        var header = [UInt8](repeating: 0, count: 1 << 12)
        for count in [5000, 1 << 40, Int.max / 8] {
            let unknown = [UInt8](repeating: 9, count: 16)
            for (session, code) in [(boards.id, ErrorCode.invalidArgument), (unknown, .notFound)] {
                let answer = header.withUnsafeMutableBufferPointer { header in
                    var reply = twofold_reply()
                    (reply.header, reply.header_capacity) = (header.baseAddress, header.count)
                    #expect(
                        reply.step(library.number, session, 1, 3, actions, count, width) == TWOFOLD_ANSWERED)
                    return Array(header[..<reply.header_size])
                }
                let error = try Reply(bytes: answer).error
                #expect(error.code == code)
                #expect(error.field == (code == .notFound ? "session" : "actions"))
            }
        }
        try boards.step([0, 1, 2, 3, 0])
    }

    @Test func `a repeat of a long request is recognised at any address`() throws {
        let (boards, twin) = (try Boards(library, lanes: 20_000), try Boards(library, lanes: 20_000))
        library.payloadRoom = Int(boards.created.step.size)
        let expected = try twin.step(twin.actions(1)).payload
        #expect(try boards.step(boards.actions(1)).payload == expected)
        #expect(boards.repeatStep(boards.actions(1)).payload == expected)
        let other = library.step(boards.id, seq: boards.seq, boards.actions(2))
        #expect(other.error?.code == .conflict)
        #expect(try boards.step(boards.actions(2)).payload == twin.step(twin.actions(2)).payload)
    }

    @Test(arguments: [
        ([], "op"), ([0xff, 0xff], "request"), ([0x08], "request"),
        (Request(.resume(.init()), session: Data(repeating: 1, count: 16)).bytes, "op"),
        (Request(.stats(.init())).bytes, "op"), (Request(.step, session: Data([1]), seq: 1).bytes, "session"),
        (Request(.step, session: Data(repeating: 9, count: 16), seq: 7).bytes, "session"),
        ([UInt8](repeating: 0, count: 1 << 18 + 1), "request"),
    ])
    func `a request that the library can't execute is refused with its field`(
        header: [UInt8], field: String
    ) throws {
        let answer = library.call(header)
        #expect(answer.status == TWOFOLD_ANSWERED)
        #expect(answer.error?.field == field)
        #expect(library.call(Request(.hello), []).error?.field == "payload")
    }

    @Test func `missing pointers and invalid sizes are bad arguments`() throws {
        let boards = try Boards(library, lanes: 1)
        let bad = Int32(TWOFOLD_BAD_ARGUMENT)
        var reply = twofold_reply()
        let hello = Request(.hello).bytes
        var number: UInt64 = 0
        var text: CChar = 0
        #expect(create(nil, nil, 0) == bad)
        #expect(create(&number, nil, 5) == bad)
        #expect(create(&number, &text, -1) == bad)
        #expect(TwofoldEmbedded.call(library.number, nil, 0, nil, 0, &reply) == bad)
        #expect(TwofoldEmbedded.call(library.number, hello, -1, nil, 0, &reply) == bad)
        #expect(TwofoldEmbedded.call(library.number, hello, hello.count, nil, 3, &reply) == bad)
        #expect(TwofoldEmbedded.call(library.number, hello, hello.count, hello, -3, &reply) == bad)
        #expect(TwofoldEmbedded.call(library.number, hello, hello.count, nil, 0, nil) == bad)
        #expect(TwofoldEmbedded.step(nil, 3, [0]) == bad)
        var steps = twofold_steps()
        (steps.service, steps.width, steps.count) = (library.number, 1, 1)
        #expect(TwofoldEmbedded.step(&steps, 3, [0]) == bad)
        #expect(reply.step(library.number, boards.id, 1, 3, nil, 1, 1) == bad)
        #expect(reply.step(library.number, boards.id, 1, 3, [0], -1, 1) == bad)
        for capacity in [-1, 10] {
            var wrong = twofold_reply()
            wrong.header_capacity = capacity
            #expect(TwofoldEmbedded.call(library.number, hello, hello.count, nil, 0, &wrong) == bad)
            wrong.header_capacity = 0
            wrong.payload_capacity = capacity
            #expect(wrong.step(library.number, boards.id, 1, 3, [0], 1, 1) == bad)
        }
        // Without any room the sizes are reported.
        #expect(
            TwofoldEmbedded.call(library.number, hello, hello.count, nil, 0, &reply)
                == Int32(TWOFOLD_TOO_SMALL))
        #expect(reply.header_size > 0)
    }

    // MARK: services

    @Test func `each service has separate sessions, and a destroyed service has none`() throws {
        let boards = try Boards(library, lanes: 2)
        let other = try Library()
        #expect(other.number != library.number)
        #expect(other.step(boards.id, seq: 3, [0, 1]).error?.code == .notFound)
        #expect(destroy(other.number) == TWOFOLD_ANSWERED)
        for number in [other.number, 0, .max] {
            #expect(destroy(number) == TWOFOLD_NO_SERVICE)
            var reply = twofold_reply()
            #expect(reply.step(number, boards.id, 1, 3, [0, 1], 2, 1) == TWOFOLD_NO_SERVICE)
            let hello = Request(.hello).bytes
            #expect(call(number, hello, hello.count, nil, 0, &reply) == TWOFOLD_NO_SERVICE)
        }
        try boards.step([0, 1])
    }

    @Test func `expand writes to the caller's memory, and computes nothing if it does not fit`() throws {
        let request = Request(.expand(.legal, boards: 1))
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        let answer = library.call(request, board)
        #expect(answer.payload == [0, 1, 1, 1])
        #expect(try answer.reply.expand.count == 1)
        library.payloadRoom = 3
        let small = library.call(request, board)
        #expect(small.status == TWOFOLD_TOO_SMALL && small.sizes.payload == 4)
        // Not even the boards were looked at.
        let wrong = [99] + board.dropFirst()
        #expect(library.call(request, wrong).status == TWOFOLD_TOO_SMALL)
        library.payloadRoom = 4
        #expect(library.call(request, wrong).error?.field == "boards")
        #expect(library.call(request, [1]).error?.field == "payload")
    }

    @Test(arguments: [4, 5])
    func `expand may answer in the memory of its payload`(size: Int) throws {
        let request = Request(
            .expand(.move, boards: 100) {
                ($0.game2048.rows, $0.game2048.columns) = (UInt32(size), UInt32(size))
            })
        let count = 100 * size * size
        var payload: [UInt8] = []
        for cell in 0..<count { payload.append(UInt8((cell * 7 + cell / 5) % 4)) }
        for action in 0..<100 { payload.append(UInt8(action % 4)) }
        let expected = library.call(request, payload).payload
        let header = request.bytes
        var (room, text) = (payload, [UInt8](repeating: 0, count: 1 << 10))
        room += [UInt8](repeating: 0, count: expected.count)
        room.withUnsafeMutableBufferPointer { room in
            text.withUnsafeMutableBufferPointer { text in
                var reply = twofold_reply(
                    header: text.baseAddress, header_capacity: text.count, header_size: 0,
                    payload: room.baseAddress, payload_capacity: room.count, payload_size: 0)
                let status = call(
                    library.number, header, header.count, room.baseAddress, payload.count, &reply)
                #expect(status == TWOFOLD_ANSWERED && reply.payload_size == expected.count)
            }
        }
        #expect(Array(room.prefix(expected.count)) == expected)
    }

    @Test func `a reply whose header does not fit leaves the payload's memory unchanged`() throws {
        func ask(_ operation: ExpandOperation, _ board: [UInt8], room: Int) -> (Int32, [UInt8], Int) {
            let header = Request(.expand(operation, boards: 1)).bytes
            var (text, payload) = ([UInt8](repeating: 7, count: room), [UInt8](repeating: 7, count: 200))
            return text.withUnsafeMutableBufferPointer { text in
                payload.withUnsafeMutableBufferPointer { payload in
                    var reply = twofold_reply(
                        header: text.baseAddress, header_capacity: room, header_size: 0,
                        payload: payload.baseAddress, payload_capacity: 200, payload_size: 0)
                    let status = call(library.number, header, header.count, board, board.count, &reply)
                    return (status, Array(payload), reply.header_size)
                }
            }
        }
        let untouched = [UInt8](repeating: 7, count: 200)
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        for (operation, board) in [
            (.legal, board), (.afterstates, board), (.afterstates, [99] + board.dropFirst()),
        ] as [(ExpandOperation, [UInt8])] {
            let (status, payload, size) = ask(operation, board, room: 3)
            #expect(status == TWOFOLD_TOO_SMALL && size > 3)
            #expect(payload == untouched)
            let (again, written, _) = ask(operation, board, room: size)
            #expect(again == TWOFOLD_ANSWERED)
            #expect((written == untouched) == (board[0] == 99))
        }
    }

    @Test func `any number of services can be made and destroyed, each with a unique number`()
        throws
    {
        var numbers: Set<UInt64> = []
        for _ in 0..<5000 {
            var number: UInt64 = 0
            try #require(create(&number, nil, 0) == TWOFOLD_ANSWERED)
            #expect(numbers.insert(number).inserted)
            #expect(destroy(number) == TWOFOLD_ANSWERED)
            #expect(destroy(number) == TWOFOLD_NO_SERVICE)
        }
    }

    @Test func `the number of a destroyed service never leads to another service`() throws {
        let first = try Library().number
        let hello = Request(.hello).bytes
        // There are 4,096 places, so one of these services gets the first one's place, unless another test keeps it.
        for _ in 0..<2 * 4096 {
            let library = try Library()
            var reply = twofold_reply()
            #expect(call(first, hello, hello.count, nil, 0, &reply) == TWOFOLD_NO_SERVICE)
            withExtendedLifetime(library) {}
        }
    }

    @Test func `threads that destroy a service in use end it once`() throws {
        for _ in 0..<200 {
            var number: UInt64 = 0
            try #require(create(&number, nil, 0) == TWOFOLD_ANSWERED)
            let (service, hello) = (number, Request(.hello).bytes)
            let destroyed = Atomic(0)
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                if thread < 2 {
                    if destroy(service) == TWOFOLD_ANSWERED { destroyed.add(1, ordering: .relaxed) }
                    return
                }
                var reply = twofold_reply()
                let status = call(service, hello, hello.count, nil, 0, &reply)
                #expect(status == TWOFOLD_TOO_SMALL || status == TWOFOLD_NO_SERVICE)
            }
            #expect(destroyed.load(ordering: .relaxed) == 1)
        }
    }
}

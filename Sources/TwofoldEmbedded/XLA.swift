public import CTwofold
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

// The functions of xla.h, which XLA calls from compiled programs. Each is a pure function of its arguments, because all
// state is in them. Only this file uses XLA's pointers: it checks them and turns them into arrays.

private let seedArrays = ExpectedArrays([ArraySpec("seeds", .uint32, shape: [2])])
private let actionArrays = ExpectedArrays([ArraySpec("actions", .uint8)])

@_cdecl("twofold_xla_reset")
public func xlaReset(_ frame: UnsafeMutablePointer<twofold_xla_frame>?) -> OpaquePointer? {
    answer(frame) { (call) throws(EnvironmentError) in
        try call.withEnvironment(seedArrays) { (environment, arguments, results) throws(EnvironmentError) in
            let seeds = try arguments.bytes(seedArrays)
            let rest = try results.next(environment.rest)
            let arrays = try results.next(environment.reset)
            try results.end()
            try environment.batch.reset(seeds: seeds, into: arrays, rest: rest)
        }
    }
}

@_cdecl("twofold_xla_step")
public func xlaStep(_ frame: UnsafeMutablePointer<twofold_xla_frame>?) -> OpaquePointer? {
    answer(frame) { (call) throws(EnvironmentError) in
        try call.withEnvironment(actionArrays) { (environment, arguments, results) throws(EnvironmentError) in
            let actions = try arguments.bytes(actionArrays)
            let states = try arguments.next(environment.states)
            try arguments.end()
            let rest = try results.next(environment.rest)
            let arrays = try results.next(environment.step)
            let finals = environment.restarts ? try results.next(environment.reset) : nil
            try results.end()
            try environment.batch.step(states, actions: actions, into: arrays, finals: finals, rest: rest)
        }
    }
}

@_cdecl("twofold_xla_afterstates")
public func xlaAfterstates(_ frame: UnsafeMutablePointer<twofold_xla_frame>?) -> OpaquePointer? {
    answer(frame) { (call) throws(EnvironmentError) in
        try call.withBoards { (rules, boards, arguments, results) throws(EnvironmentError) in
            try arguments.end()
            let arrays = try results.next(ExpectedArrays(rules.afterstateArrays))
            try results.end()
            try rules.afterstates(boards, into: arrays)
        }
    }
}

@_cdecl("twofold_xla_spawn")
public func xlaSpawn(_ frame: UnsafeMutablePointer<twofold_xla_frame>?) -> OpaquePointer? {
    answer(frame) { (call) throws(EnvironmentError) in
        try call.withBoards { (rules, boards, arguments, results) throws(EnvironmentError) in
            let seeds = try arguments.bytes(seedArrays)
            try arguments.end()
            let arrays = try results.next(ExpectedArrays(rules.spawnArrays))
            try results.end()
            try rules.spawn(boards, seeds: seeds, into: arrays)
        }
    }
}

// MARK: working memory

/// The working memory of calls: a batch for each combination of rules and number of lanes. It holds no state between
/// two calls, and is only kept because making it takes longer than a step.
///
/// `@unchecked Sendable` because only the call that has taken it from the list of idle ones uses it.
private final class WorkingEnvironment: @unchecked Sendable {
    /// The encoded request to create the environment.
    let request: [UInt8]
    let lanes: Int
    let batch: Batch
    let (states, rest, reset, step): (ExpectedArrays, ExpectedArrays, ExpectedArrays, ExpectedArrays)
    /// Whether a step restarts the lanes whose episodes ended.
    let restarts: Bool
    private let service: EnvironmentService
    private let create: CreateRequest
    private let reservation: MemoryBudget.Reservation
    private var boardRules: BoardRules?

    /// The memory of all working environments together.
    private static let budget = Result { () throws(EnvironmentError) in
        MemoryBudget(limit: try ServiceSettings.ofProcess().limits.maxBytes)
    }

    init(_ request: UnsafeRawBufferPointer, lanes: Int) throws(EnvironmentError) {
        var create = try CreateRequest(ofCaller: request)
        create.numEnvs = UInt64(lanes)
        let budget = try Self.budget.get()
        self.request = Array(request)
        self.lanes = lanes
        self.create = create
        reservation = budget.reserveNothing()
        service = try ServiceSettings.ofProcess().service(budget)
        batch = try service.batch(create, reserve: reservation.growForBoards)
        states = ExpectedArrays(batch.stateArrays)
        rest = ExpectedArrays(batch.restArrays)
        reset = ExpectedArrays(batch.resetArrays)
        step = ExpectedArrays(batch.stepArrays)
        restarts = batch.autoreset == .sameStep
        try batch.checkStateless()
    }

    /// Returns the rules of 2048 for arrays of boards. Throws for other games.
    func rules() throws(EnvironmentError) -> BoardRules {
        if let boardRules { return boardRules }
        let rules = try service.boardRules(of: create.environmentID, create.game2048)
        boardRules = rules
        return rules
    }

    // A program has few calls, so a short list is enough. The lock is held for less than a microsecond.
    private static let most = 16
    private static let idle = Locked<[WorkingEnvironment]>([])

    /// Returns an idle environment with this request and number of lanes, or a new one.
    static func take(_ request: UnsafeRawBufferPointer, lanes: Int) throws(EnvironmentError)
        -> WorkingEnvironment
    {
        let found = idle.withLock { idle -> WorkingEnvironment? in
            idle.lastIndex { $0.lanes == lanes && $0.request.elementsEqual(request) }.map {
                idle.remove(at: $0)
            }
        }
        if let found { return found }
        do throws(EnvironmentError) { return try WorkingEnvironment(request, lanes: lanes) } catch {
            guard error.kind == .resourceExhausted else { throw error }
            // Drops the idle environments before it refuses.
            idle.withLock { $0.removeAll() }
            return try WorkingEnvironment(request, lanes: lanes)
        }
    }

    static func give(_ environment: WorkingEnvironment) {
        idle.withLock { idle in
            if idle.count == most { idle.removeFirst() }
            idle.append(environment)
        }
    }
}

// MARK: the frame of a call

/// Answers XLA's request for metadata, or executes the call.
private func answer(
    _ frame: UnsafeMutablePointer<twofold_xla_frame>?, _ body: (XLACall) throws(EnvironmentError) -> Void
) -> OpaquePointer? {
    guard let frame else { return nil }
    var extensions = frame.pointee.extension_start
    while let found = extensions {
        if found.pointee.type == TWOFOLD_XLA_METADATA {
            found.withMemoryRebound(to: twofold_xla_metadata_extension.self, capacity: 1) { metadata in
                // Any minor version will do, because Twofold uses only parts that all of them have.
                metadata.pointee.metadata.pointee.version.major_version = 0
                metadata.pointee.metadata.pointee.version.minor_version =
                    frame.pointee.api?.pointee.version.minor_version ?? 1
                metadata.pointee.metadata.pointee.traits = 0
            }
            return nil
        }
        extensions = found.pointee.next
    }
    guard let api = frame.pointee.api else { return nil }
    do throws(EnvironmentError) {
        guard frame.pointee.struct_size >= MemoryLayout<twofold_xla_frame>.size else {
            throw .invalid("", "this version of XLA has call frames that Twofold does not know")
        }
        try body(XLACall(frame: frame.pointee))
        return nil
    } catch {
        let code =
            switch error.kind {
            case .resourceExhausted: TWOFOLD_XLA_RESOURCE_EXHAUSTED
            case .failedPrecondition: TWOFOLD_XLA_FAILED_PRECONDITION
            case .invalidArgument, .notFound: TWOFOLD_XLA_INVALID_ARGUMENT
            }
        return error.description.withCString { message in
            var arguments = twofold_xla_error_args()
            arguments.struct_size = MemoryLayout<twofold_xla_error_args>.size
            arguments.message = message
            arguments.code = Int32(code)
            return api.pointee.create_error(&arguments)
        }
    }
}

/// A call's arguments, results and attributes.
private struct XLACall {
    let frame: twofold_xla_frame

    /// Calls `body` with working memory for the rules in the attribute `request`, the arguments, the first of which must
    /// be `first`, and the results. Does nothing without lanes.
    func withEnvironment(
        _ first: ExpectedArrays,
        _ body: (WorkingEnvironment, inout BufferList, inout BufferList) throws(EnvironmentError) -> Void
    ) throws(EnvironmentError) {
        let lanes = try lanes(of: first)
        guard lanes > 0 else { return }
        let environment = try WorkingEnvironment.take(try request(), lanes: lanes)
        defer { WorkingEnvironment.give(environment) }
        var (arguments, results) = buffers(lanes)
        try body(environment, &arguments, &results)
    }

    /// Calls `body` with the rules of 2048 in the attribute `request`, the boards in the first argument, the other
    /// arguments, and the results. Does nothing without boards.
    func withBoards(
        _ body: (BoardRules, BoardInput, inout BufferList, inout BufferList) throws(EnvironmentError) -> Void
    ) throws(EnvironmentError) {
        let environment = try WorkingEnvironment.take(try request(), lanes: 1)
        defer { WorkingEnvironment.give(environment) }
        let rules = try environment.rules()
        let expected = ExpectedArrays([ArraySpec("boards", .uint8, shape: rules.boardShape)])
        let count = try lanes(of: expected)
        guard count > 0 else { return }
        var (arguments, results) = buffers(count)
        let boards = BoardInput(try arguments.bytes(expected), count: count)
        try body(rules, boards, &arguments, &results)
    }

    private func buffers(_ lanes: Int) -> (arguments: BufferList, results: BufferList) {
        (
            BufferList(buffers: frame.arguments, lanes: lanes, kind: "arguments"),
            BufferList(buffers: frame.results, lanes: lanes, kind: "results")
        )
    }

    private func request() throws(EnvironmentError) -> UnsafeRawBufferPointer {
        let attributes = frame.attributes
        for index in 0..<Int(attributes.size) {
            guard let name = attributes.names[index]?.pointee,
                UnsafeRawBufferPointer(start: name.ptr, count: name.len).elementsEqual("request".utf8),
                attributes.types[index] == TWOFOLD_XLA_ATTRIBUTE_ARRAY,
                let array = attributes.values[index]?.assumingMemoryBound(to: twofold_xla_array.self).pointee,
                array.dtype == TWOFOLD_XLA_U8
            else { continue }
            return UnsafeRawBufferPointer(start: array.data, count: array.size)
        }
        throw .invalid("request", "the attribute request is missing; expected an array of uint8")
    }

    /// Returns the number of lanes: the product of the leading axes of the first argument.
    private func lanes(of first: ExpectedArrays) throws(EnvironmentError) -> Int {
        guard frame.arguments.size > 0, let buffer = frame.arguments.buffers[0] else {
            throw .invalid("", "the call has no arguments")
        }
        return try first.lanes(buffer.pointee, 0)
    }
}

/// The arguments or results of a call, which are taken one after another.
private struct BufferList {
    let buffers: twofold_xla_buffers
    let lanes: Int
    let kind: StaticString
    private(set) var taken = 0

    /// Takes the next arrays, which must be as expected.
    mutating func next(_ expected: ExpectedArrays) throws(EnvironmentError) -> BatchArrays {
        let first = taken
        taken += expected.specs.count
        guard taken <= Int(buffers.size) else { throw wrongCount }
        for index in expected.specs.indices {
            let found = try expected.lanes(buffers.buffers[first + index]!.pointee, index)
            guard found == lanes else {
                let name = expected.specs[index].name
                throw .invalid(name, "\(name) has \(found) lanes; expected \(lanes)")
            }
        }
        return BatchArrays(expected.specs) { buffers.buffers[first + $0]!.pointee.data }
    }

    /// Takes the next array, which must be as expected, and returns its bytes.
    mutating func bytes(_ expected: ExpectedArrays) throws(EnvironmentError) -> UnsafeRawBufferPointer {
        _ = try next(expected)
        return UnsafeRawBufferPointer(
            start: buffers.buffers[taken - 1]!.pointee.data, count: lanes * expected.specs[0].bytesPerLane)
    }

    /// Throws unless all arrays have been taken.
    func end() throws(EnvironmentError) { guard taken == Int(buffers.size) else { throw wrongCount } }

    private var wrongCount: EnvironmentError {
        .invalid("", "the call has \(buffers.size) \(kind); expected \(taken) so far")
    }
}

/// The types and shapes that arrays must have, in a form whose check takes a few nanoseconds.
private struct ExpectedArrays: Sendable {
    let specs: [ArraySpec]
    private let rows: [Row]

    private struct Row {
        let dtype: Int32
        let rank: Int
        /// The axes of one lane's row, from the last to the first; 1 for an axis that it does not have.
        let axes: (Int64, Int64, Int64)
    }

    init(_ specs: [ArraySpec]) {
        self.specs = specs
        rows = specs.map { spec in
            let axes = spec.shape.reversed().map { Int64($0) } + [1, 1, 1]
            return Row(dtype: spec.dtype.xla, rank: spec.shape.count, axes: (axes[0], axes[1], axes[2]))
        }
    }

    /// Returns the number of lanes of a buffer, which must have the type and the trailing axes of array `index`.
    @inline(__always)
    func lanes(_ buffer: twofold_xla_buffer, _ index: Int) throws(EnvironmentError) -> Int {
        let row = rows[index]
        let rank = Int(buffer.rank)
        guard buffer.dtype == row.dtype, rank >= row.rank,
            row.rank < 1 || buffer.dims[rank - 1] == row.axes.0,
            row.rank < 2 || buffer.dims[rank - 2] == row.axes.1,
            row.rank < 3 || buffer.dims[rank - 3] == row.axes.2
        else { throw wrong(buffer, index) }
        var lanes = 1
        for axis in 0..<rank - row.rank { lanes &*= Int(buffer.dims[axis]) }
        return lanes
    }

    private func wrong(_ buffer: twofold_xla_buffer, _ index: Int) -> EnvironmentError {
        let spec = specs[index]
        let shape = (0..<Int(buffer.rank)).map { "\(buffer.dims[$0])" }.joined(separator: ", ")
        let expected = (["…"] + spec.shape.map { "\($0)" }).joined(separator: ", ")
        return .invalid(
            spec.name,
            "\(spec.name) has XLA's type \(buffer.dtype) and the shape (\(shape)); expected \(spec.dtype) and the "
                + "shape (\(expected))")
    }
}

extension DataType {
    /// The number of the type in XLA's interface.
    fileprivate var xla: Int32 {
        let number =
            switch self {
            case .bool: TWOFOLD_XLA_PRED
            case .uint8: TWOFOLD_XLA_U8
            case .int8: TWOFOLD_XLA_S8
            case .int32: TWOFOLD_XLA_S32
            case .uint32: TWOFOLD_XLA_U32
            case .float32: TWOFOLD_XLA_F32
            case .uint64: TWOFOLD_XLA_U64
            case .float64: TWOFOLD_XLA_F64
            }
        return Int32(number)
    }
}

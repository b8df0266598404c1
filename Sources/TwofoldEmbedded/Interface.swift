public import CTwofold
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

// The functions of twofold.h, which documents them. Only this file uses callers' pointers: it checks them and
// turns them into buffers.

@_cdecl("twofold_interface")
public func interface() -> UInt32 { UInt32(TWOFOLD_INTERFACE) }

@_cdecl("twofold_version")
public func version() -> UnsafePointer<CChar>? { versionText }

/// The version as a C string that lives as long as the process.
nonisolated(unsafe) private let versionText = UnsafePointer(strdup(EnvironmentService.version))

@_cdecl("twofold_create")
public func create(
    _ service: UnsafeMutablePointer<UInt64>?, _ message: UnsafeMutablePointer<CChar>?, _ capacity: Int
) -> Int32 {
    guard let service, message != nil || capacity == 0, capacity >= 0 else {
        return status(TWOFOLD_BAD_ARGUMENT)
    }
    func fail(_ reason: String) -> Int32 {
        if let message, capacity > 0 {
            let text = Array(reason.utf8.prefix(capacity - 1)) + [0]
            UnsafeMutableRawPointer(message).copyMemory(from: text, byteCount: text.count)
        }
        return status(TWOFOLD_FAILED)
    }
    do throws(Reason) {
        var settings = try ServiceSettings()
        settings.limits.idleTimeout = nil
        guard let number = EmbeddedService.create(settings) else {
            return fail("this process has \(EmbeddedService.limit) services, the maximum; destroy one first")
        }
        service.pointee = number
        return status(TWOFOLD_ANSWERED)
    } catch {
        return fail(error.description)
    }
}

@_cdecl("twofold_destroy")
public func destroy(_ service: UInt64) -> Int32 {
    status(EmbeddedService.destroy(service) ? TWOFOLD_ANSWERED : TWOFOLD_NO_SERVICE)
}

@_cdecl("twofold_call")
public func call(
    _ service: UInt64, _ header: UnsafePointer<UInt8>?, _ headerSize: Int,
    _ payload: UnsafePointer<UInt8>?, _ payloadSize: Int, _ reply: UnsafeMutablePointer<twofold_reply>?
) -> Int32 {
    guard let reply, reply.isValid, let header = Frame(ofCaller: header, headerSize, width: 1),
        payloadSize >= 0, payload != nil || payloadSize == 0
    else { return status(TWOFOLD_BAD_ARGUMENT) }
    let payload = Frame(ofCaller: payload, payloadSize, width: 1)
    guard let answer = EmbeddedService.call(service, header, payload, memory: reply.earlyPayload) else {
        return status(TWOFOLD_NO_SERVICE)
    }
    if let size = answer.missingRoom {
        (reply.pointee.header_size, reply.pointee.payload_size) = (longestHeader, size)
        return status(TWOFOLD_TOO_SMALL)
    }
    return reply.put(answer.reply, isStep: false)
}

@_cdecl("twofold_step")
public func step(
    _ steps: UnsafePointer<twofold_steps>?, _ seq: UInt64, _ actions: UnsafeRawPointer?
) -> Int32 {
    guard let steps, let reply = steps.pointee.reply, reply.isValid,
        let actions = Frame(ofCaller: actions, steps.pointee.count, width: steps.pointee.width),
        let id = withUnsafeBytes(of: steps.pointee.session, { SessionID(bytes: $0) })
    else { return status(TWOFOLD_BAD_ARGUMENT) }
    let answer = EmbeddedService.step(
        steps.pointee.service, id, epoch: steps.pointee.epoch, seq: seq, actions: actions)
    guard let answer else { return status(TWOFOLD_NO_SERVICE) }
    return reply.put(answer, isStep: true)
}

@_cdecl("twofold_learn")
public func learn(
    _ learner: UnsafeMutablePointer<twofold_learner>?, _ reply: UnsafeMutablePointer<twofold_reply>?
) -> Int32 {
    guard let reply, reply.isValid, let learner else { return status(TWOFOLD_BAD_ARGUMENT) }
    do throws(EnvironmentError) {
        guard try learner.run() else { return status(TWOFOLD_BAD_ARGUMENT) }
        (reply.pointee.header_size, reply.pointee.payload_size) = (0, 0)
        return status(TWOFOLD_ANSWERED)
    } catch {
        return reply.put(StoredReply(ServiceError(error), seq: 0), isStep: false)
    }
}

extension UnsafeMutablePointer<twofold_learner> {
    /// Plays and learns or, without weights, only writes the sizes. Returns false if a pointer is missing or a size is
    /// impossible.
    fileprivate func run() throws(EnvironmentError) -> Bool {
        let given = pointee
        guard let request = given.request, let form = given.form, (1...1024).contains(given.threads),
            min(given.request_size, given.form_size) >= 0, given.weights == nil || given.state != nil
        else { return false }
        let learner = try makeLearner(
            request: UnsafeRawBufferPointer(start: request, count: given.request_size),
            form: UnsafeRawBufferPointer(start: form, count: given.form_size), threads: Int(given.threads),
            rate: given.learning_rate,
            // A board's state has more than one byte.
            limits: given.weights == nil ? try .ofProcess() : .unlimited(boards: given.state_size))
        guard let weights = given.weights else {
            (pointee.weight_count, pointee.state_size) = (learner.weightCount, learner.stateSize)
            return true
        }
        guard let start = given.state, given.weight_count == learner.weightCount,
            given.state_size == learner.stateSize, let steps = Int(exactly: given.steps)
        else { return false }
        let state = UnsafeMutableRawBufferPointer(start: start, count: given.state_size)
        if let seeds = given.seeds {
            try learner.start(seeds: UnsafeRawBufferPointer(start: seeds, count: 8 * learner.lanes))
        } else {
            try learner.restore(UnsafeRawBufferPointer(state))
        }
        let counts = try learner.run(steps: steps, .init(weights))
        try learner.save(into: state)
        pointee.played &+= given.steps
        pointee.moves &+= UInt64(counts.moves)
        pointee.episodes &+= UInt64(counts.episodes)
        pointee.score &+= UInt64(counts.score)
        pointee.goals &+= UInt64(counts.goals)
        return true
    }
}

/// The maximum header size, in bytes, of a reply whose payload is written before its header.
private let longestHeader = 4096

/// The caller's memory for a reply.
extension UnsafeMutablePointer<twofold_reply> {
    /// Whether no capacity is negative, and only a buffer of capacity 0 has no pointer.
    fileprivate var isValid: Bool {
        min(pointee.header_capacity, pointee.payload_capacity) >= 0
            && (pointee.header != nil || pointee.header_capacity == 0)
            && (pointee.payload != nil || pointee.payload_capacity == 0)
    }

    private var header: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: pointee.header, count: pointee.header_capacity)
    }

    private var payload: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: pointee.payload, count: pointee.payload_capacity)
    }

    /// The memory for a payload that is written before its header; nil if the header might not fit.
    fileprivate var earlyPayload: UnsafeMutableRawBufferPointer? {
        pointee.header_capacity >= longestHeader ? payload : nil
    }

    /// Copies a reply into the caller's memory, or returns TWOFOLD_TOO_SMALL if the reply does not fit.
    fileprivate func put(_ answer: StoredReply, isStep: Bool) -> Int32 {
        let isLean = isStep && answer.isPlainStep
        let frame = isLean ? [] : answer.header
        let size = answer.payload?.count ?? 0
        (pointee.header_size, pointee.payload_size) = (frame.count, size)
        guard frame.count <= header.count, size <= payload.count else { return status(TWOFOLD_TOO_SMALL) }
        header.copyBytes(from: frame)
        answer.payload?.withBytes { bytes in
            // The payload of a request without a session is already in the caller's memory.
            if size > 0, bytes.baseAddress != UnsafeRawPointer(payload.baseAddress) {
                payload.copyMemory(from: bytes)
            }
        }
        return status(isLean ? TWOFOLD_STEPPED : TWOFOLD_ANSWERED)
    }
}

/// Converts a constant of twofold.h to the return type of the C functions.
private func status(_ code: Int) -> Int32 { Int32(code) }

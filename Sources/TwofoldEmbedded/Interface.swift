public import CTwofold
internal import Platform
internal import Synchronization
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

// The functions of twofold.h, which describes them. This is the room for the pointers of callers: here they become
// buffers, checked, and nowhere else.

/// The services of this process by their numbers, from 1 on. A number is never given twice and a service never freed,
/// only emptied: so they are found without a lock, which a fork in the wrong moment would leave locked in the child.
private enum Services {
    private static let limit = 4096
    private static let count = Atomic(0)
    private static let all = (0..<limit).map { _ in Slot() }

    private final class Slot: Sendable {
        let service = Atomic<UInt>(0)
    }

    /// The number of a service that was just made; nil when there were too many.
    static func add(_ service: EmbeddedService) -> UInt64? {
        let index = count.add(1, ordering: .relaxed).oldValue
        guard index < limit else { return nil }
        let address = UInt(bitPattern: Unmanaged.passRetained(service).toOpaque())
        all[index].service.store(address, ordering: .releasing)
        return UInt64(index) + 1
    }

    static func find(_ number: UInt64) -> EmbeddedService? {
        guard (1...UInt64(limit)).contains(number) else { return nil }
        return find(all[Int(number) - 1].service.load(ordering: .acquiring))
    }

    /// Forgets a service, and returns it.
    static func remove(_ number: UInt64) -> EmbeddedService? {
        guard (1...UInt64(limit)).contains(number) else { return nil }
        return find(all[Int(number) - 1].service.exchange(0, ordering: .acquiring))
    }

    private static func find(_ address: UInt) -> EmbeddedService? {
        UnsafeRawPointer(bitPattern: address).map {
            Unmanaged<EmbeddedService>.fromOpaque($0).takeUnretainedValue()
        }
    }
}

@c(twofold_interface)
public func interface() -> UInt32 { UInt32(TWOFOLD_INTERFACE) }

@c(twofold_version)
public func version() -> UnsafePointer<CChar>? { versionText }

/// Lives for as long as the process.
nonisolated(unsafe) private let versionText = UnsafePointer(strdup(EnvironmentService.version))

@c(twofold_create)
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
    do throws(SettingError) {
        var settings = try ServiceSettings()
        settings.limits.idleTimeout = nil
        guard let number = Services.add(EmbeddedService(settings)) else {
            return fail("this process has made too many services")
        }
        service.pointee = number
        return status(TWOFOLD_ANSWERED)
    } catch {
        return fail(error.description)
    }
}

@c(twofold_destroy)
public func destroy(_ service: UInt64) -> Int32 {
    guard let service = Services.remove(service) else { return status(TWOFOLD_NO_SERVICE) }
    service.end()
    return status(TWOFOLD_ANSWERED)
}

@c(twofold_call)
public func call(
    _ service: UInt64, _ header: UnsafePointer<UInt8>?, _ headerSize: Int,
    _ payload: UnsafePointer<UInt8>?, _ payloadSize: Int, _ reply: UnsafeMutablePointer<twofold_reply>?
) -> Int32 {
    guard let reply, let room = ReplyBuffers(reply), let header = buffer(header, headerSize),
        payloadSize >= 0, payload != nil || payloadSize == 0
    else { return status(TWOFOLD_BAD_ARGUMENT) }
    guard let service = Services.find(service) else { return status(TWOFOLD_NO_SERVICE) }
    let payload = payload.map { UnsafeRawBufferPointer(start: $0, count: payloadSize) }
    let (seq, answer) = service.call(header, payload, memory: room.payload)
    return room.put(answer, seq: seq, isStep: false)
}

@c(twofold_step)
public func step(
    _ steps: UnsafePointer<twofold_steps>?, _ seq: UInt64, _ actions: UnsafeRawPointer?
) -> Int32 {
    guard let steps, let reply = steps.pointee.reply, let room = ReplyBuffers(reply),
        let actions = Actions(actions, steps.pointee.count, width: steps.pointee.width),
        let id = withUnsafeBytes(of: steps.pointee.session, { SessionID(bytes: $0) })
    else { return status(TWOFOLD_BAD_ARGUMENT) }
    guard let service = Services.find(steps.pointee.service) else { return status(TWOFOLD_NO_SERVICE) }
    let answer = service.step(id, epoch: steps.pointee.epoch, seq: seq, actions: actions)
    return room.put(answer, seq: seq, isStep: true)
}

/// The caller's memory for a reply.
private struct ReplyBuffers {
    private let reply: UnsafeMutablePointer<twofold_reply>
    private let header: UnsafeMutableRawBufferPointer
    let payload: UnsafeMutableRawBufferPointer

    /// Nil when a pointer is missing, or a capacity is impossible.
    init?(_ reply: UnsafeMutablePointer<twofold_reply>) {
        func room(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> UnsafeMutableRawBufferPointer? {
            guard count >= 0, start != nil || count == 0 else { return nil }
            return UnsafeMutableRawBufferPointer(start: start, count: count)
        }
        guard let header = room(reply.pointee.header, reply.pointee.header_capacity),
            let payload = room(reply.pointee.payload, reply.pointee.payload_capacity)
        else { return nil }
        self.reply = reply
        self.header = header
        self.payload = payload
    }

    /// Writes an answer, if there is room for it.
    func put(_ answer: EmbeddedService.Answer, seq: UInt64, isStep: Bool) -> Int32 {
        switch answer {
        case .kept(let kept):
            if isStep, case .step(let step) = kept.result, !step.hasFinals {
                return put(header: [], kept.payload?.bytes, TWOFOLD_STEPPED)
            }
            return put(header: frame(seq) { $0.result = kept.result }, kept.payload?.bytes)
        case .done(let result, let size):
            // The payload is there already.
            return put(
                header: frame(seq) { $0.result = result },
                UnsafeMutableRawBufferPointer(rebasing: payload[..<size]))
        case .refused(let error): return put(header: frame(seq) { $0.error = error.wire }, nil)
        case .tooSmall(let size):
            (reply.pointee.header_size, reply.pointee.payload_size) = (0, size)
            return status(TWOFOLD_TOO_SMALL)
        }
    }

    private func frame(_ seq: UInt64, _ fill: (inout Reply) -> Void) -> [UInt8] {
        var reply = Reply()
        reply.seq = seq
        fill(&reply)
        return reply.frame
    }

    private func put(
        header frame: [UInt8], _ bytes: UnsafeMutableRawBufferPointer?, _ outcome: Int = TWOFOLD_ANSWERED
    ) -> Int32 {
        let size = bytes?.count ?? 0
        (reply.pointee.header_size, reply.pointee.payload_size) = (frame.count, size)
        guard frame.count <= header.count, size <= payload.count else { return status(TWOFOLD_TOO_SMALL) }
        header.copyBytes(from: frame)
        if let bytes, size > 0, bytes.baseAddress != payload.baseAddress {
            payload.baseAddress!.copyMemory(from: bytes.baseAddress!, byteCount: size)
        }
        return status(outcome)
    }
}

/// Bytes of the caller; nil when the pointer is missing, or the size is impossible.
private func buffer(_ start: UnsafePointer<UInt8>?, _ count: Int) -> UnsafeRawBufferPointer? {
    guard count >= 0, let start else { return nil }
    return UnsafeRawBufferPointer(start: start, count: count)
}

/// A constant of twofold.h as its functions return it.
private func status(_ code: Int) -> Int32 { Int32(code) }

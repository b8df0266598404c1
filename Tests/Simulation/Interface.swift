internal import Platform
internal import Synchronization
internal import TwofoldSessions

// The functions that python_client/simulation calls. The file world.py in that folder describes them.
//
// Only this file uses callers' pointers and the addresses of worlds. A world has one caller, which is a
// single thread.

/// Returns the world with this number, which is the address of its object. The caller owns the world until
/// `simulation_destroy`.
private func world(_ number: UInt64) -> Held {
    Unmanaged<Held>.fromOpaque(UnsafeRawPointer(bitPattern: UInt(number))!).takeUnretainedValue()
}

/// A world, and the last message that its caller received.
private final class Held {
    let world: World
    /// The last received message. Its memory is valid until the caller requests the next message.
    var message: World.Packet?

    init(_ world: World) { self.world = world }
}

private func numbers(_ start: UnsafePointer<UInt64>?, _ count: Int64) -> [UInt64] {
    start.map { Array(UnsafeBufferPointer(start: $0, count: Int(count))) } ?? []
}

private func bytes(_ start: UnsafePointer<UInt8>?, _ count: Int64) -> [UInt8]? {
    guard count >= 0 else { return nil }
    return Array(UnsafeBufferPointer(start: start, count: Int(count)))
}

/// Writes as much of the text as fits into the memory. Returns the full size of the text in bytes.
private func put(_ text: String, _ memory: UnsafeMutablePointer<UInt8>?, _ capacity: Int64) -> Int64 {
    let text = Array(text.utf8)
    if let memory { for (place, byte) in text.prefix(Int(capacity)).enumerated() { memory[place] = byte } }
    return Int64(text.count)
}

@_cdecl("simulation_create")
public func simulationCreate(
    _ seed: UInt64, _ clients: UInt64, _ disabled: UInt64, _ suppressed: UnsafePointer<UInt64>?,
    _ count: Int64
) -> UInt64 {
    let world = World(
        seed: seed, clients: Int(clients), disabled: disabled, suppressed: numbers(suppressed, count))
    return UInt64(UInt(bitPattern: Unmanaged.passRetained(Held(world)).toOpaque()))
}

@_cdecl("simulation_destroy")
public func simulationDestroy(_ number: UInt64) {
    Unmanaged<Held>.fromOpaque(UnsafeRawPointer(bitPattern: UInt(number))!).release()
}

@_cdecl("simulation_now")
public func simulationNow(_ number: UInt64) -> Int64 { Int64(world(number).world.now) }

@_cdecl("simulation_jumped")
public func simulationJumped(_ number: UInt64) -> Int64 { Int64(world(number).world.jumped) }

@_cdecl("simulation_next")
public func simulationNext(_ number: UInt64) -> Int64 {
    let world = world(number).world
    guard let client = world.next() else { return world.violation == nil ? -1 : -2 }
    return Int64(client)
}

@_cdecl("simulation_wake")
public func simulationWake(_ number: UInt64, _ client: Int64, _ at: Int64) {
    world(number).world.wake(Int(client), at: Int(at))
}

@_cdecl("simulation_open")
public func simulationOpen(_ number: UInt64, _ client: Int64) -> Int64 {
    Int64(world(number).world.open(Int(client)))
}

@_cdecl("simulation_close")
public func simulationClose(_ number: UInt64, _ socket: Int64) { world(number).world.close(Int(socket)) }

@_cdecl("simulation_send")
public func simulationSend(
    _ number: UInt64, _ socket: Int64, _ header: UnsafePointer<UInt8>?, _ headerSize: Int64,
    _ payload: UnsafePointer<UInt8>?, _ payloadSize: Int64
) {
    world(number).world.send(
        Int(socket), header: bytes(header, headerSize) ?? [], payload: bytes(payload, payloadSize))
}

@_cdecl("simulation_receive")
public func simulationReceive(
    _ number: UInt64, _ socket: Int64, _ header: UnsafeMutablePointer<UnsafePointer<UInt8>?>,
    _ headerSize: UnsafeMutablePointer<Int64>, _ payload: UnsafeMutablePointer<UnsafePointer<UInt8>?>,
    _ payloadSize: UnsafeMutablePointer<Int64>
) -> Int64 {
    let held = world(number)
    held.message = held.world.receive(Int(socket))
    guard let message = held.message else { return 0 }
    // The arrays stay in place as long as `message` exists.
    header.pointee = message.header.withUnsafeBufferPointer { $0.baseAddress }
    headerSize.pointee = Int64(message.header.count)
    payload.pointee = message.payload?.withUnsafeBufferPointer { $0.baseAddress }
    payloadSize.pointee = message.payload.map { Int64($0.count) } ?? -1
    return 1
}

@_cdecl("simulation_fault")
public func simulationFault(_ number: UInt64, _ kind: Int64) -> Int64 {
    guard let fault = Fault(rawValue: Int(kind)) else { return 0 }
    return world(number).world.faults.strikes(fault) ? 1 : 0
}

@_cdecl("simulation_kill_client")
public func simulationKillClient(_ number: UInt64, _ client: Int64) {
    world(number).world.killClient(Int(client))
}

@_cdecl("simulation_mark")
public func simulationMark(_ number: UInt64, _ name: UnsafePointer<UInt8>?, _ size: Int64) {
    let name = String(decoding: bytes(name, size) ?? [], as: UTF8.self)
    world(number).world.ownMarks[name, default: 0] += 1
}

@_cdecl("simulation_is_open")
public func simulationIsOpen(_ number: UInt64, _ session: UnsafePointer<UInt8>?) -> Int64 {
    let id = SessionID(bytes: UnsafeRawBufferPointer(start: session, count: 16))!
    return world(number).world.servers.first?.isOpen(id) == true ? 1 : 0
}

@_cdecl("simulation_calm")
public func simulationCalm(_ number: UInt64) { world(number).world.calm() }

@_cdecl("simulation_settle")
public func simulationSettle(_ number: UInt64) { world(number).world.settle() }

@_cdecl("simulation_report")
public func simulationReport(_ number: UInt64, _ memory: UnsafeMutablePointer<UInt8>?, _ capacity: Int64)
    -> Int64
{
    put(world(number).world.report, memory, capacity)
}

@_cdecl("simulation_models")
public func simulationModels(
    _ seed: UInt64, _ requests: UInt64, _ disabled: UInt64, _ suppressed: UnsafePointer<UInt64>?,
    _ count: Int64,
    _ memory: UnsafeMutablePointer<UInt8>?, _ capacity: Int64
) -> Int64 {
    let run = ModelRun(seed: seed, disabled: disabled, suppressed: numbers(suppressed, count))
    run.run(requests: Int(requests))
    return put(run.world.report, memory, capacity)
}

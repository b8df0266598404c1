import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import ZeroMQ

extension Socket {
    /// Waits until the socket has room for a message, and sends it.
    func send(_ message: inout Multipart, within time: Duration) throws(ZeroMQError) {
        let deadline = ContinuousClock.now + time
        while try !trySend(&message) {
            guard ContinuousClock.now < deadline else {
                throw ZeroMQError(code: EAGAIN, operation: "zmq_msg_send")
            }
            usleep(1000)
        }
    }

    /// Waits for the next message and receives it.
    func receive(into message: inout Multipart, within time: Duration) throws(ZeroMQError) {
        var poller = Poller()
        _ = poller.add(self)
        while try poller.wait(timeout: time) > 0 {
            if let frameCount = try tryReceive(into: &message) {
                let kept = message.count
                #expect(frameCount == kept)
                return
            }
        }
        throw ZeroMQError(code: EAGAIN, operation: "zmq_poll")
    }
}

/// A client's socket in a separate context. Only one thread may use it.
final class Peer {
    private let socket: Socket
    /// Whether this class writes the delimiter: true for a DEALER, false for a REQ, where libzmq writes it.
    private let writesDelimiter: Bool
    /// The maximum time that a send or a receive may take.
    private var timeout = patience

    private static let reqCorrelate: CInt = 52

    /// Creates a REQ or DEALER socket. `correlated` adds a request id to the route.
    init(_ kind: Socket.Kind = .req, to endpoint: String, correlated: Bool = false) throws {
        socket = try Socket(kind, in: Context())
        if correlated { try socket.setNumber(Self.reqCorrelate, name: "ZMQ_REQ_CORRELATE", to: CInt(1)) }
        try socket.connect(endpoint)
        writesDelimiter = kind == .dealer
    }

    /// Sends frames unchanged.
    func send(raw frames: [[UInt8]]) throws {
        var message = Multipart()
        for frame in frames { message.append(try Message(copying: frame)) }
        try socket.send(&message, within: timeout)
    }

    /// Sends frames after the delimiter.
    func send(_ frames: [[UInt8]]) throws { try send(raw: writesDelimiter ? [[]] + frames : frames) }

    func send(_ request: Request, _ payload: [UInt8]? = nil) throws {
        try send([request.bytes] + (payload.map { [$0] } ?? []))
    }

    /// Receives the next message unchanged.
    func receiveRaw() throws -> [[UInt8]] {
        var message = Multipart()
        try socket.receive(into: &message, within: timeout)
        return (0..<message.count).map { index in message[index].withUnsafeBytes { Array($0) } }
    }

    /// Receives the next reply.
    func receive() throws -> Answer {
        var frames = try receiveRaw()
        if writesDelimiter {
            try #require(!frames.isEmpty)
            #expect(frames.removeFirst() == [], "the delimiter")
        }
        return try Answer(frames)
    }

    /// Receives the next reply; returns nil if none arrives within this time.
    func receive(within time: Duration) throws -> Answer? {
        let usual = timeout
        timeout = time
        defer { timeout = usual }
        do {
            return try receive()
        } catch let error as ZeroMQError where error.code == EAGAIN {
            return nil
        }
    }

    /// Checks that no reply is in transit: the next reply must belong to a new request.
    func expectNothing() throws { #expect(try ask(Request(.hello, seq: 4712)).reply.seq == 4712) }

    @discardableResult
    func ask(_ request: Request, _ payload: [UInt8]? = nil) throws -> Answer {
        try send(request, payload)
        return try receive()
    }
}

/// A reply in its encoded form.
struct Answer: Equatable {
    /// The header frame's bytes.
    let header: [UInt8]
    let payload: [UInt8]?
    let reply: Reply

    init(_ frames: [[UInt8]]) throws {
        try #require(frames.count == 1 || frames.count == 2)
        header = frames[0]
        payload = frames.count == 2 ? frames[1] : nil
        reply = try Reply(bytes: header)
        #expect(!reply.hasUnknownFields)
    }

    /// The error; nil if the reply is a result.
    var error: ServiceError? {
        if case .error(let error) = reply.result { error } else { nil }
    }
}

/// Returns a new session id.
func newSessionID() -> Data { Data((0..<16).map { _ in UInt8.random(in: 0...255) }) }

/// The client of one session. It counts the executed requests.
final class Player {
    let id: Data
    var peer: Peer
    private(set) var seq: UInt64 = 0
    private(set) var created = CreateReply()
    /// The last request and its payload, for repeats.
    private(set) var last: (request: Request, payload: [UInt8]?) = (Request(), nil)

    /// Draws a session id, without creating the session.
    init(_ peer: Peer) {
        self.peer = peer
        id = newSessionID()
    }

    /// Draws a session id, and creates the session.
    convenience init(_ peer: Peer, lanes: Int) throws {
        self.init(peer)
        let answer = try ask(.create(lanes: lanes))
        guard case .create(let reply) = answer.reply.result else {
            throw Refused(error: answer.error ?? ServiceError())
        }
        #expect(answer.payload == nil)
        created = reply
    }

    /// Returns the next request.
    func request(_ op: Request.OneOf_Op) -> Request {
        Request(op, session: id, seq: seq + 1)
    }

    /// Sends the next request; call `receive` for its reply.
    func send(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws {
        last = (request(op), payload)
        try peer.send(last.request, payload)
    }

    /// Receives a reply to the next request.
    func receive() throws -> Answer {
        let answer = try peer.receive()
        #expect(answer.reply.seq == seq + 1)
        if answer.error == nil { seq += 1 }
        return answer
    }

    /// Sends the next request and receives the answer, which may be a refusal.
    @discardableResult
    func ask(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> Answer {
        try send(op, payload)
        return try receive()
    }

    /// Repeats the last request over another socket.
    func repeatLast(over peer: Peer) throws -> Answer { try peer.ask(last.request, last.payload) }

    /// Executes a request and returns its payload.
    @discardableResult
    func execute(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> [UInt8] {
        let answer = try ask(op, payload)
        if let error = answer.error { throw Refused(error: error) }
        return answer.payload ?? []
    }

    struct Refused: Error {
        let error: ServiceError
    }

    // MARK: the requests

    var lanes: Int { Int(created.step.arrays[0].shape[0]) }

    /// Resets lane i with the seed `seed + i`.
    @discardableResult
    func reset(seed: UInt64) throws -> [UInt8] {
        try execute(.seededReset, bytes(of: (0..<lanes).map { seed &+ UInt64($0) }))
    }

    /// Steps lane i with the action `(i + turn) % 4`.
    @discardableResult
    func step(turn: Int) throws -> [UInt8] { try execute(.step, actions(turn: turn)) }

    func actions(turn: Int) -> [UInt8] { (0..<lanes).map { UInt8(($0 + turn) % 4) } }

    func close() throws { try execute(.close) }
}

/// A number of boards large enough that a queue executes a step, even if its session is the only one.
let queuedBatch = 300_000

import Foundation
import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@testable import TwofoldSessions

/// A second, much simpler implementation of the ledger's rules. It represents a session by the complete list of its
/// executed requests.
private struct Model {
    /// The data that identifies a request.
    struct Asked: Equatable {
        var isCreate = false
        var isClose = false
        var session = 0
        var epoch: UInt32 = 1
        var seq: UInt64 = 0
        /// A number that represents all other bytes of the request.
        var variant = 0
    }

    struct Session {
        var done: [(asked: Asked, reply: Int)] = []
        var running: (asked: Asked, route: Int)?
        var isClosed: Bool { done.last?.asked.isClose == true }
    }

    enum Expected: Equatable {
        case execute
        case resend(Int)
        case park
        case refuse(ErrorCode, expected: UInt64?)

        /// The kind of the outcome, without its numbers.
        var kind: String {
            switch self {
            case .execute: "execute"
            case .resend: "resend"
            case .park: "park"
            case .refuse(let code, _): "\(code)"
            }
        }
    }

    let limit: Int
    var sessions: [Int: Session] = [:]

    var open: Int { sessions.values.filter { !$0.isClosed }.count }

    mutating func ask(_ asked: Asked, route: Int) -> Expected {
        guard var session = sessions[asked.session] else {
            if !asked.isCreate { return .refuse(.notFound, expected: nil) }
            if asked.seq != 1 { return .refuse(.outOfSequence, expected: 1) }
            if asked.epoch != 1 { return .refuse(.invalidArgument, expected: nil) }
            if open == limit { return .refuse(.resourceExhausted, expected: nil) }
            sessions[asked.session] = Session(running: (asked, route))
            return .execute
        }
        if asked.epoch == 0 { return .refuse(.staleEpoch, expected: nil) }
        if asked.epoch > 1 { return .refuse(.notFound, expected: nil) }
        if let last = session.done.last, asked.seq == UInt64(session.done.count) {
            return asked == last.asked ? .resend(last.reply) : .refuse(.conflict, expected: nil)
        }
        if session.isClosed { return .refuse(.notFound, expected: nil) }
        let next = UInt64(session.done.count) + 1
        if asked.seq != next { return .refuse(.outOfSequence, expected: next) }
        if let running = session.running {
            if asked != running.asked { return .refuse(.conflict, expected: nil) }
            session.running = (asked, route)
            sessions[asked.session] = session
            return .park
        }
        if asked.isCreate { return .refuse(.conflict, expected: nil) }
        session.running = (asked, route)
        sessions[asked.session] = session
        return .execute
    }

    /// Completes a request. Returns the route that gets the reply.
    mutating func complete(_ number: Int, reply: Int) -> Int {
        let running = sessions[number]!.running!
        sessions[number]!.running = nil
        sessions[number]!.done.append((running.asked, reply))
        return running.route
    }

    /// Abandons a request. Returns the route that gets the error.
    mutating func abandon(_ number: Int) -> Int {
        let running = sessions[number]!.running!
        sessions[number]!.running = nil
        if sessions[number]!.done.isEmpty { sessions[number] = nil }
        return running.route
    }
}

@Suite struct SessionLedgerModelTests {
    @Test(arguments: 1...20)
    func `any sequence of requests, replies and refusals has the model's outcome`(seed: UInt64) throws {
        var dice = Dice(seed: seed)
        var ledger = SessionLedger(maxSessions: 3)
        var model = Model(limit: 3)
        var replies: [StoredReply] = []
        var routes: [Route] = []
        var busy: [(session: Int, entry: SessionLedger.Entry)] = []
        var seen: [String: Int] = [:]
        let board = try ServedEnvironment.small()

        for turn in 0..<2000 {
            if !busy.isEmpty, Int.random(in: 0..<4, using: &dice) == 0 {
                let (session, entry) = busy.remove(at: .random(in: 0..<busy.count, using: &dice))
                let asked = model.sessions[session]!.running!.asked
                // A close with a payload is always refused.
                let isWrong = asked.isClose && payload(asked.variant) != nil
                if isWrong || Int.random(in: 0..<3, using: &dice) == 0 {
                    let route = try ledger.abandon(entry).route
                    #expect(route === routes[model.abandon(session)], "turn \(turn)")
                } else {
                    let reply = StoredReply(seq: asked.seq)
                    replies.append(reply)
                    let route = try ledger.complete(
                        entry, reply, creating: asked.isCreate ? board : nil
                    ).route
                    #expect(
                        route === routes[model.complete(session, reply: replies.count - 1)], "turn \(turn)")
                }
            } else {
                let asked = random(model, &dice)
                routes.append(Route())
                let verdict = try ledger.admit(
                    request(asked), payload: payload(asked.variant), from: routes.last!)
                let expected = model.ask(asked, route: routes.count - 1)
                seen[expected.kind, default: 0] += 1
                switch expected {
                case .execute:
                    let entry = try #require(verdict.entry, "turn \(turn): \(asked)")
                    busy.append((asked.session, entry))
                case .resend(let number):
                    #expect(verdict.resent === replies[number], "turn \(turn): \(asked)")
                case .park:
                    #expect(verdict.isParked, "turn \(turn): \(asked)")
                case .refuse(let code, let expectedSeq):
                    let error = try #require(verdict.refusal, "turn \(turn): \(asked)")
                    #expect(error.code == code, "turn \(turn): \(asked)")
                    let seq = error.hasExpectedSeq ? error.expectedSeq : nil
                    #expect(seq == expectedSeq, "turn \(turn): \(asked)")
                }
            }
            #expect(ledger.openCount == model.open, "turn \(turn)")
        }
        // Check that the test has reached every outcome.
        for kind in ["execute", "resend", "park"] { #expect(seen[kind, default: 0] > 20, "\(kind)") }
        for code in [
            ErrorCode.notFound, .outOfSequence, .conflict, .invalidArgument, .staleEpoch, .resourceExhausted,
        ] {
            #expect(seen["\(code)", default: 0] > 2, "\(code)")
        }
    }

    /// Returns a random request, which is valid about half of the time. New session ids gradually replace closed ones.
    private func random(_ model: Model, _ dice: inout Dice) -> Model.Asked {
        var asked = Model.Asked()
        let closed = model.sessions.values.filter(\.isClosed).count
        asked.session = .random(in: max(0, closed - 2)..<closed + 5, using: &dice)
        let done = UInt64(model.sessions[asked.session]?.done.count ?? 0)
        switch Int.random(in: 0..<20, using: &dice) {
        case 0: asked.seq = .random(in: 0...done + 3, using: &dice)
        case 1...6: asked.seq = done
        default: asked.seq = done + 1
        }
        if Int.random(in: 0..<20, using: &dice) == 0 { asked.epoch = .random(in: 0...2, using: &dice) }
        asked.isCreate = (asked.seq <= 1) != (Int.random(in: 0..<15, using: &dice) == 0)
        asked.isClose = !asked.isCreate && Int.random(in: 0..<8, using: &dice) == 0
        asked.variant = Int.random(in: 0..<10, using: &dice) < 7 ? 0 : .random(in: 0..<4, using: &dice)
        // Repeats must be frequent, so that some are parked and resent.
        if let session = model.sessions[asked.session], Int.random(in: 0..<3, using: &dice) == 0 {
            if let running = session.running { return running.asked }
            if let last = session.done.last { return last.asked }
        }
        return asked
    }

    private func request(_ asked: Model.Asked) -> Request {
        let session = Data(bytes(of: [UInt64(asked.session), 5]))
        let op: Request.OneOf_Op = asked.isCreate ? .create(lanes: 1) : asked.isClose ? .close : .step
        return Request(op, session: session, epoch: asked.epoch, seq: asked.seq)
    }

    private func payload(_ variant: Int) -> [UInt8]? {
        [nil, [], [1], [2]][variant]
    }
}

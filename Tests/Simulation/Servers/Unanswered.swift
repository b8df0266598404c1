internal import TwofoldProtocol

/// The messages that a server has taken but not answered. Each gets one reply, unless a newer message
/// replaces it.
///
///     a copy of a request in progress ──► replaces the copy before it
///     a resume that waits             ──► replaces the resume of this session that waited before it
struct Unanswered {
    struct Message {
        let place: SimulatedServer.Place
        let question: Oracle.Question?
    }

    private var messages: [Message] = []

    var count: Int { messages.count }

    /// Adds a message that the server is about to take.
    mutating func add(_ question: Oracle.Question?, from place: SimulatedServer.Place) {
        messages.append(Message(place: place, question: question))
    }

    /// Removes and returns the message that a reply answers; nil if there is no such message.
    mutating func answer(at place: SimulatedServer.Place) -> Message? {
        messages.lastIndex { $0.place == place }.map { messages.remove(at: $0) }
    }

    /// Removes the message that the newest one replaces. The server has taken the newest one and has not
    /// answered it at once.
    mutating func replaceOlder() {
        guard let newest = messages.last?.question else { return }
        let older = messages.dropLast().firstIndex { $0.question?.isReplaced(by: newest) ?? false }
        if let older { messages.remove(at: older) }
    }
}

extension Oracle.Question {
    fileprivate func isReplaced(by newer: Self) -> Bool {
        switch (request.op, newer.request.op) {
        case (.hello, _), (.stats, _), (.expand, _): false
        case (.resume, .resume): request.session == newer.request.session
        default: isSame(as: newer)
        }
    }
}

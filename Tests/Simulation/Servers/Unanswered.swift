internal import TwofoldProtocol

/// The messages that a server has taken but not yet answered. Each gets one reply, unless a newer message
/// replaces it.
///
///     a copy of a request in progress ──► replaces the previous copy
///     a parked resume request         ──► replaces the previous parked resume request of the same session
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

    /// Removes the message that the newest one replaces. Called after the server has taken the newest message
    /// without answering it at once.
    mutating func replaceOlder() {
        guard let newest = messages.last?.question else { return }
        let older = messages.dropLast().firstIndex { $0.question?.isReplaced(by: newest) ?? false }
        if let older { messages.remove(at: older) }
    }
}

extension Oracle.Question {
    fileprivate func isReplaced(by newer: Self) -> Bool {
        switch (request.op, newer.request.op) {
        case _ where isOfNoSession: false
        case (.resume, .resume): request.session == newer.request.session
        default: isSame(as: newer)
        }
    }
}

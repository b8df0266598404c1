internal import CZeroMQ

extension Socket {
    /// The kinds of sockets, by what they do with a message.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// One to one, for two threads over inproc.
        case pair
        /// Sends to all subscribers.
        case pub
        /// Receives what it subscribed to.
        case sub
        /// Sends a request, receives its reply, in this order.
        case req
        /// Receives a request, sends its reply, in this order.
        case rep
        /// An asynchronous REQ: writes its own empty delimiter.
        case dealer
        /// An asynchronous REP: a received message starts with its peer's routing id, a sent one must.
        case router
        /// Receives from all who push.
        case pull
        /// Sends to those who pull, in turn.
        case push

        var rawValue: CInt {
            switch self {
            case .pair: ZMQ_PAIR
            case .pub: ZMQ_PUB
            case .sub: ZMQ_SUB
            case .req: ZMQ_REQ
            case .rep: ZMQ_REP
            case .dealer: ZMQ_DEALER
            case .router: ZMQ_ROUTER
            case .pull: ZMQ_PULL
            case .push: ZMQ_PUSH
            }
        }
    }
}

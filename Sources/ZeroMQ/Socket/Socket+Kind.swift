internal import CZeroMQ

extension Socket {
    /// The kinds of sockets, which differ in their handling of messages.
    public enum Kind: Sendable {
        /// Sends a request, then receives its reply.
        case req
        /// Receives a request, then sends its reply.
        case rep
        /// An asynchronous REQ: writes its own empty delimiter.
        case dealer
        /// An asynchronous REP: a received message starts with its peer's routing id, a sent one must.
        case router
        /// One end of a connection between exactly two sockets.
        case pair

        var rawValue: CInt {
            switch self {
            case .req: ZMQ_REQ
            case .rep: ZMQ_REP
            case .dealer: ZMQ_DEALER
            case .router: ZMQ_ROUTER
            case .pair: ZMQ_PAIR
            }
        }
    }
}

internal import CZeroMQ

extension Socket {
    /// The kinds of sockets, which differ in their handling of messages.
    public enum Kind: Sendable {
        /// A client that sends a request, then receives its reply.
        case req
        /// A server that receives a request, then sends its reply.
        case rep
        /// An asynchronous REQ. Its user writes the empty delimiter.
        case dealer
        /// An asynchronous REP. All messages, received or sent, start with the peer's routing id.
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

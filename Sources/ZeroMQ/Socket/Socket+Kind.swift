internal import CZeroMQ

extension Socket {
    /// The kind of a socket, which determines how it handles messages.
    public enum Kind: Sendable {
        /// A client socket. It sends a request, then receives the reply.
        case req
        /// A server socket. It receives a request, then sends the reply.
        case rep
        /// An asynchronous REQ socket. The caller must send the empty delimiter.
        case dealer
        /// An asynchronous REP socket. Each message, received or sent, starts with the peer's routing id.
        case router

        var rawValue: CInt {
            switch self {
            case .req: ZMQ_REQ
            case .rep: ZMQ_REP
            case .dealer: ZMQ_DEALER
            case .router: ZMQ_ROUTER
            }
        }
    }
}

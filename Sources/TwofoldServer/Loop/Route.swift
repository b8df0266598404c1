internal import TwofoldCore
package import TwofoldSessions
package import ZeroMQ

/// Where a reply goes: the endpoint that the request came through, all frames of its message up to and including
/// the empty delimiter, and the client that sent it.
package final class Route: ReplyRoute {
    package let endpoint: Int
    package let client: Client
    /// When the request came.
    let arrived: Moment
    package var frames: Multipart

    init(endpoint: Int, client: Client, arrived: Moment, frames: consuming Multipart) {
        self.endpoint = endpoint
        self.client = client
        self.arrived = arrived
        self.frames = frames
    }
}

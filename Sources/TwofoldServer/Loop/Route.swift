internal import TwofoldSessions
internal import ZeroMQ

/// Where a reply goes: the endpoint that the request came through, all frames of its message up to and including
/// the empty delimiter, and the client that sent it.
final class Route: ReplyRoute {
    let endpoint: Int
    let client: Client
    /// When the request came.
    let arrived: Moment
    var frames: Multipart

    init(endpoint: Int, client: Client, arrived: Moment, frames: consuming Multipart) {
        self.endpoint = endpoint
        self.client = client
        self.arrived = arrived
        self.frames = frames
    }
}

internal import TwofoldService

/// What a session's requests run on: its boards and the memory of its replies. Belongs to whoever
/// executes the session's request.
final class ServerSession {
    let environment: EnvironmentSession
    let pool = PayloadPool()

    init(_ environment: EnvironmentSession) { self.environment = environment }
}

internal import ZeroMQ

/// Who sent a request, as far as that can be told.
enum Client: Hashable, Sendable {
    /// Somebody who could reach an endpoint that asks for no key.
    case anonymous
    /// The holder of the secret key that belongs to this public one.
    case key(CurvePublicKey)
}

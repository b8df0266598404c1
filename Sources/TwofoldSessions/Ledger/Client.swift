/// The identity of a request's sender.
package enum Client: Hashable, Sendable {
    /// Any client of a carrier that requires no keys.
    case anonymous
    /// The holder of the secret key that belongs to this public key, in Z85.
    case key(String)
}

/// The sender of a request, as far as it is known.
package enum Client: Hashable, Sendable {
    /// Any client of a carrier that does not ask for keys.
    case anonymous
    /// The holder of the secret key that belongs to this public one, in Z85.
    case key(String)
}

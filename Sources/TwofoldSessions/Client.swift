/// Who sent a request, as far as that can be told.
package enum Client: Hashable, Sendable {
    /// Somebody who could reach a carrier that asks for no key.
    case anonymous
    /// The holder of the secret key that belongs to this public one, told in Z85.
    case key(String)
}

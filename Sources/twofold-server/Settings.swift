public import ArgumentParser
import Glibc
public import Logging
public import TwofoldCore

/// A TWOFOLD_ variable of the environment, nil where unset or empty.
func variable(_ name: String) -> String? {
    guard let value = getenv("TWOFOLD_" + name).map({ String(cString: $0) }), !value.isEmpty else {
        return nil
    }
    return value
}

/// The option's value where it was given, else the variable's; throws when the variable can't be read
/// as such a value.
func setting<Value: ExpressibleByArgument>(_ option: Value?, _ name: String) throws -> Value? {
    if let option { return option }
    guard let text = variable(name) else { return nil }
    guard let value = Value(argument: text) else {
        throw ValidationError("TWOFOLD_\(name) is '\(text)', which is no \(Value.self)")
    }
    return value
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
extension Engine: ExpressibleByArgument {}

public import ArgumentParser
public import Logging
public import TwofoldCore
public import TwofoldOptimum
import TwofoldSessions

/// The option's value where it was given, else the variable's; throws when the variable can't be read
/// as such a value.
func setting<Value: ExpressibleByArgument>(_ option: Value?, _ name: String) throws -> Value? {
    if let option { return option }
    guard let text = ServiceSettings.variable(name) else { return nil }
    guard let value = Value(argument: text) else {
        throw ValidationError("TWOFOLD_\(name) is '\(text)', which is no \(Value.self)")
    }
    return value
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
extension Engine: ExpressibleByArgument {}
extension OptimumProblem.Objective: ExpressibleByArgument {}

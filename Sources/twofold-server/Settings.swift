public import ArgumentParser
public import Logging
import Platform
public import TwofoldOptimum
import TwofoldServer
import TwofoldSessions

/// Returns the option's value if it was given, otherwise the value of the environment variable TWOFOLD_`name`,
/// otherwise nil. Throws if the variable's text is not a valid value.
func setting<Value: ExpressibleByArgument>(_ option: Value?, _ name: String) throws -> Value? {
    if let option { return option }
    guard let text = try ServiceSettings.variable(name) else { return nil }
    guard let value = Value(argument: text) else {
        throw ValidationError("TWOFOLD_\(name) is '\(text)', which is not a valid \(Value.self)")
    }
    return value
}

/// Returns the given endpoints. If there are none, returns those in TWOFOLD_ENDPOINT or, failing that, the default.
/// Reports an invalid endpoint like an invalid option.
func endpoints(_ given: [String]) throws -> [String] {
    var chosen = given
    if chosen.isEmpty, let text = try ServiceSettings.variable("ENDPOINT") {
        chosen = text.split(separator: ",").map(String.init)
    }
    if chosen.isEmpty { chosen = ["tcp://127.0.0.1:5555"] }
    do throws(Reason) { for endpoint in chosen { try checkEndpoint(endpoint) } } catch {
        throw ValidationError(error.description)
    }
    // A tcp port may be 0 twice.
    let paths = chosen.filter { $0.hasPrefix("ipc://") }
    if let path = paths.first(where: { path in paths.count { $0 == path } > 1 }) {
        throw ValidationError("the endpoint '\(path)' is given twice")
    }
    return chosen
}

/// Returns the settings of the service, read from options and environment variables. Reports an invalid setting
/// like an invalid option.
func serviceSettings(options: [String: Int] = [:]) throws -> ServiceSettings {
    do throws(Reason) { return try ServiceSettings(options: options) } catch {
        throw ValidationError(error.description)
    }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
extension OptimumProblem.Objective: ExpressibleByArgument {}

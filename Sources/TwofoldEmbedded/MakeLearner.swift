internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// Makes a learner for a caller in the same process, from a request for its boards and a network's form. Throws if an
/// argument is invalid.
///
/// - Parameter limits: The limits on memory. Pass ``ServiceSettings/unlimited(boards:)`` once the caller has allocated
///   the memory, because this memory no longer counts as available.
func makeLearner(
    request: UnsafeRawBufferPointer, form: UnsafeRawBufferPointer, threads: Int, rate: Float,
    limits: ServiceSettings
) throws(EnvironmentError) -> NTupleLearner {
    let create = try CreateRequest(ofCaller: request)
    guard let form = NTupleForm(frame: form) else {
        throw .invalid("tuples", "form is not an encoded network form")
    }
    var settings = limits
    settings.threads = threads
    let service = settings.service()
    let reserved = service.budget.reserveNothing()
    let batch = try service.batch(create, reserve: reserved.growForBoards)
    let learner = try NTupleLearner(
        batch, NTupleNetwork.Form(form), rate: rate, maxBytes: settings.limits.maxPolicyBytes)
    // Each weight has two sums of errors.
    let bytes = 12 * learner.weightCount
    do throws(Reason) { try reserved.grow(by: bytes) } catch {
        throw .exhausted(
            "tuples",
            "the network and its learning rates take \(bytes) bytes; this process allows "
                + "\(settings.limits.maxBytes), of which the boards take \(reserved.bytes) (TWOFOLD_MAX_BYTES)"
        )
    }
    return learner
}

extension CreateRequest {
    /// Decodes a create request of a caller that has no session.
    init(ofCaller request: UnsafeRawBufferPointer) throws(EnvironmentError) {
        guard let create = Request(frame: request)?.create else {
            throw .invalid("request", "request is not an encoded create request")
        }
        self = create
    }
}

extension ServiceSettings {
    /// Returns the settings for a request that has already been checked, for at most this number of boards.
    static func unlimited(boards: Int) -> ServiceSettings {
        var settings = ServiceSettings(threads: 1)
        (settings.limits.maxBytes, settings.limits.maxBoardsPerSession) = (.max, boards)
        settings.limits.maxPolicyBytes = .max
        settings.engine = (try? variable("ENGINE")).flatMap(Engine.init) ?? .automatic
        return settings
    }

    /// Returns the settings in the environment variables of this process.
    static func ofProcess() throws(EnvironmentError) -> ServiceSettings {
        do throws(Reason) { return try ServiceSettings() } catch { throw .invalid("", error.description) }
    }
}

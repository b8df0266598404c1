internal import TwofoldCore
internal import TwofoldOptimum
package import TwofoldProtocol
package import TwofoldService

/// One admitted request, from its admission to its reply.
///
///     take ──► perform, on any thread ──► finish
///
/// `@unchecked Sendable` because each property has only one owner at a time. The machine creates the work and
/// updates the route of the reply. One thread performs the work and writes the results. The machine reads the
/// results when it finishes the work. Properties that both read never change.
package final class Work: @unchecked Sendable {
    /// The operation to execute, and the environment if it has one.
    enum Subject {
        case create(CreateRequest)
        case request(Request.OneOf_Op, ServedEnvironment)
        /// An expand request, which applies the rules to arrays of boards. It has no session, so it bypasses the
        /// ledger, and a repeat is executed again.
        case expand(Expansion)
        /// A stats request. It has no session either.
        case stats(StatsWork)
    }

    /// The thread or queue on which a server performs the work.
    package enum Place {
        /// On the socket thread.
        case here
        /// On any free thread, in parallel with other work.
        case queue
        /// On the queue for searches, one at a time, so that searches never occupy all threads.
        case searches
        /// On the queue for statistics, one at a time. Batches never delay this queue, because a probe may be
        /// waiting for the reply.
        case statistics
    }

    /// The maximum estimated time of work on the socket thread, in nanoseconds. For shorter work, handing it to
    /// another thread would take as long as the work itself.
    private static let inlineNanoseconds = 80_000
    /// The same maximum while only one session is open. More time is acceptable then, because the work can only
    /// delay a client that connects in the meantime.
    private static let aloneNanoseconds = 2_000_000
    /// The time to create one board, in nanoseconds. It is longer than the time of a step, because the first use of
    /// new memory is slow.
    private static let nanosecondsPerCreatedLane = 1000

    let subject: Subject
    /// The session's entry; nil for a request without a session. The reference is unowned because the entry owns
    /// the work in progress.
    unowned let entry: SessionLedger.Entry?
    let kind: RequestKind
    let seq: UInt64
    /// The moment at which the first copy of the request arrived.
    let arrived: Moment
    let header: Frame
    let payload: Frame?
    private var reservation: MemoryBudget.Reservation?

    /// The route of the newest copy of the request.
    private(set) var route: Route
    /// The resume request that waits for this work to end. Only the newest resume waits. The sender of an earlier
    /// one gets no reply, and has to repeat the request.
    private(set) var resumes: [(request: Request, route: Route)] = []

    /// The environment that a create request has created.
    var environment: ServedEnvironment?
    /// The size of the reply's payload in bytes, if it does not fit in the caller's memory. In that case, nothing
    /// was computed.
    package private(set) var missingRoom: Int?
    /// The number of board steps: the request's steps multiplied by the number of boards.
    private(set) var steps = 0
    /// The frames that the ledger keeps after the work has been performed.
    private var kept: (header: Frame, payload: Frame?)

    init(
        _ subject: Subject, of entry: SessionLedger.Entry?, _ kind: RequestKind, seq: UInt64, header: Frame,
        payload: Frame?, from route: Route
    ) {
        self.subject = subject
        self.entry = entry
        self.kind = kind
        self.seq = seq
        arrived = route.arrived
        self.header = header
        self.payload = payload
        self.route = route
        kept = (header, payload)
    }

    // MARK: for the machine

    /// Reserves memory for the frames, which the ledger keeps. Small frames are not counted.
    func reserve(in budget: MemoryBudget) throws(ServiceError) {
        let bytes = header.count + (payload?.count ?? 0)
        if case .request(_, let environment) = subject {
            reservation = try environment.requestMemory.reserve(keeping: bytes)
        } else {
            reservation = try budget.reserve(keeping: bytes)
        }
    }

    /// Returns the executed request in the form that the ledger keeps.
    func done(_ reply: StoredReply) -> SessionLedger.Done {
        .init(seq: seq, header: kept.header, payload: kept.payload, reservation: reservation, reply: reply)
    }

    /// Makes the reply go to the route of a newer copy of the request.
    func reroute(to route: Route) { self.route = route }

    /// Makes a resume request wait for this work to end. Returns true if it replaces an earlier resume request.
    func wait(_ resume: Request, from route: Route) -> Bool {
        defer { resumes = [(resume, route)] }
        return !resumes.isEmpty
    }

    // MARK: place

    /// Returns the thread or queue on which a server should perform the work. `isAlone` is true if only one session
    /// is open.
    package func place(isAlone: Bool) -> Place {
        let cost: Int
        switch subject {
        case .stats: return .statistics
        case .request where isSearch: return .searches
        case .request(let op, let environment): cost = environment.cost(op, payload: payload?.count ?? 0)
        case .create(let create): cost = Self.cost(of: create)
        case .expand(let expansion):
            return expansion.cost <= Self.inlineNanoseconds ? .here : .queue
        }
        return cost <= (isAlone ? Self.aloneNanoseconds : Self.inlineNanoseconds) ? .here : .queue
    }

    static func cost(of create: CreateRequest) -> Int {
        estimatedNanoseconds(
            lanes: Int(min(create.numEnvs, 1 << 32)), nanosecondsPerLane: nanosecondsPerCreatedLane,
            opensTable: create.extraInfos.contains(where: OptimumInfo.names.contains))
    }

    private var isSearch: Bool {
        if case .request(let op, _) = subject { ServedEnvironment.isSearch(op) } else { false }
    }

    /// Returns true if it is too late to start the work in this phase of a stop. Statistics may start in any phase.
    package func isTooLate(in phase: Phase) -> Bool {
        if case .stats = subject { return false }
        return phase >= (isSearch ? .refusing : .late)
    }

    // MARK: on any thread

    /// Executes the request. If `memory` is given, the payload of an expand request's reply is written there. If
    /// `memory` is too small, nothing is computed, and ``missingRoom`` is the required size.
    package func perform(
        _ service: EnvironmentService, into memory: UnsafeMutableRawBufferPointer? = nil
    ) -> Result<StoredReply, ServiceError> {
        do throws(EnvironmentError) {
            // A caller may change its memory during the call, or get the reply in the same memory.
            kept = (try header.kept(), try payload?.kept())
            guard let payload = kept.payload else {
                return .success(try execute(nil, service, memory))
            }
            return .success(
                try payload.withBytes { (bytes) throws(EnvironmentError) in
                    try execute(bytes, service, memory)
                })
        } catch {
            // A stop makes a running search fail as if its time limit had expired. The stop is reported instead.
            let isStopped = isSearch && service.phase.isStopping && error.kind == .resourceExhausted
            return .failure(isStopped ? .stopping : ServiceError(error))
        }
    }

    private func execute(
        _ payload: UnsafeRawBufferPointer?, _ service: EnvironmentService,
        _ memory: UnsafeMutableRawBufferPointer?
    ) throws(EnvironmentError) -> StoredReply {
        switch subject {
        case .request(let op, let environment):
            let (result, frame) = try environment.execute(op, payload: payload)
            steps = environment.steps(of: result)
            return StoredReply(result, seq: seq, payload: frame)
        case .create(let create):
            guard payload == nil else { throw .noPayload }
            let environment = try ServedEnvironment(create, service)
            self.environment = environment
            return StoredReply(.create(environment.createReply), seq: seq)
        case .expand(let expansion):
            var frame: Frame?
            let reply = try expansion.perform(payload: payload) { (size) throws(EnvironmentError) in
                if let memory {
                    guard size <= memory.count else {
                        missingRoom = size
                        throw .exhausted("", "the caller's memory has no room for the reply's \(size) bytes")
                    }
                    let room = UnsafeMutableRawBufferPointer(rebasing: memory[..<size])
                    frame = Frame(ofCaller: UnsafeRawBufferPointer(room))
                    return room
                }
                let buffer = try PayloadPool.Buffer(in: service.budget, size: size)
                frame = buffer.frame(size)
                return buffer.bytes
            }
            return StoredReply(.expand(reply), seq: seq, payload: frame)
        case .stats(let stats): return StoredReply(.stats(stats.finish()), seq: seq)
        }
    }
}

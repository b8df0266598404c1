internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol
package import TwofoldService

/// One admitted request, from its check to its reply.
///
///     take ──► perform, on any thread ──► finish
///
/// `@unchecked Sendable` because each property has one owner at a time. The machine creates the work and notes the
/// route of its reply. One thread performs it and writes the results, which the machine reads when it finishes the
/// work. Properties that both read never change.
package final class Work: @unchecked Sendable {
    /// The operation to execute, and its environment.
    enum Subject {
        case create(CreateRequest)
        case request(Request.OneOf_Op, EnvironmentHost)
        /// The rules over arrays of boards. It has no session, so the ledger never sees it, and a repeat is executed
        /// again.
        case expand(Expansion)
        /// The server's statistics. They have no session either.
        case stats(StatsWork)
    }

    /// The thread on which a server performs it.
    package enum Place {
        /// On the socket thread.
        case here
        /// On any thread, in parallel with other work.
        case queue
        /// On the queue of searches, one at a time, so that searches never take all threads.
        case searches
        /// On a queue that batches never delay, one at a time, because a probe is waiting.
        case statistics
    }

    /// The maximum time of work on the socket thread. Handing shorter work to another thread would take as long.
    private static let inlineNanoseconds = 80_000
    /// The same maximum while only one session is open. Such work delays only a client that arrives in the meantime.
    private static let aloneNanoseconds = 2_000_000
    /// The time that a create takes for each board. Fresh memory makes it slower than a step.
    private static let nanosecondsPerCreatedLane = 1000

    let subject: Subject
    /// The session's entry; nil for a request without a session. Unowned because the entry owns its work in progress.
    unowned let entry: SessionLedger.Entry?
    /// Whether the request has a session. A late thread may read this when ledger and entry no longer exist.
    private let isOfSession: Bool
    let kind: RequestKind
    let seq: UInt64
    /// The moment at which the request first arrived.
    let arrived: Moment
    let header: Frame
    let payload: Frame?
    private var reservation: MemoryBudget.Reservation?

    /// The route of the request's newest copy.
    private(set) var route: Route
    /// The resume that waits for the end of this work. Only the newest one waits: the sender of an earlier one gets no
    /// reply, and repeats it.
    private(set) var resumes: [(request: Request, route: Route)] = []

    /// The host that a create made when it was executed.
    var host: EnvironmentHost?
    /// The size of the reply's payload, if the caller's memory is too small for it; nothing was computed then.
    package private(set) var missingRoom: Int?
    /// The number of board steps: the request's steps times the boards.
    private(set) var steps = 0
    /// The frames that the ledger keeps of performed work.
    private var kept: (header: Frame, payload: Frame?)

    init(
        _ subject: Subject, of entry: SessionLedger.Entry?, _ kind: RequestKind, seq: UInt64, header: Frame,
        payload: Frame?, from route: Route
    ) {
        self.subject = subject
        self.entry = entry
        isOfSession = entry != nil
        self.kind = kind
        self.seq = seq
        arrived = route.arrived
        self.header = header
        self.payload = payload
        self.route = route
        kept = (header, payload)
    }

    // MARK: for the machine

    /// Reserves the bytes of the frames for as long as they are kept; small frames are not counted.
    func reserve(in budget: MemoryBudget) throws(ServiceError) {
        reservation = try budget.reserve(keeping: header.count + (payload?.count ?? 0))
    }

    /// Returns the ledger's record of the executed request.
    func done(_ reply: StoredReply) -> SessionLedger.Done {
        .init(seq: seq, header: kept.header, payload: kept.payload, reservation, reply: reply)
    }

    /// Sends the reply to the route of a newer copy.
    func reroute(to route: Route) { self.route = route }

    /// Makes a resume wait for the end of this work; returns true if it replaces an earlier resume.
    func wait(_ resume: Request, from route: Route) -> Bool {
        defer { resumes = [(resume, route)] }
        return !resumes.isEmpty
    }

    // MARK: place

    /// Returns the place where a server performs the work; `isAlone` is true if only one session is open.
    package func place(isAlone: Bool) -> Place {
        let cost: Cost
        switch subject {
        case .stats: return .statistics
        case .request where isSearch: return .searches
        case .request(let op, let host): cost = host.environment.cost(op, payload: payload?.count ?? 0)
        case .create(let create): cost = Self.cost(of: create)
        case .expand(let expansion):
            return expansion.cost.nanoseconds <= Self.inlineNanoseconds ? .here : .queue
        }
        return cost.nanoseconds <= (isAlone ? Self.aloneNanoseconds : Self.inlineNanoseconds) ? .here : .queue
    }

    static func cost(of create: CreateRequest) -> Cost {
        Cost(
            lanes: Int(min(create.numEnvs, 1 << 32)), nanosecondsPerLane: nanosecondsPerCreatedLane,
            opensTable: create.extraInfos.contains(where: OptimumInfo.names.contains))
    }

    private var isSearch: Bool {
        if case .request(let op, _) = subject { ServedEnvironment.isSearch(op) } else { false }
    }

    /// Returns true if the work must no longer begin in this phase of a stop. Statistics may always begin.
    package func isTooLate(in phase: Phase) -> Bool {
        if case .stats = subject { return false }
        return phase >= (isSearch ? .refusing : .late)
    }

    // MARK: on any thread

    /// Executes the request. The payload of an expand goes to `memory`, if given. If that is too small, nothing is
    /// computed, and ``missingRoom`` is the size that is needed.
    package func perform(
        _ service: EnvironmentService, _ budget: MemoryBudget,
        into memory: UnsafeMutableRawBufferPointer? = nil
    ) -> Result<StoredReply, ServiceError> {
        do throws(ServiceError) {
            if isOfSession { kept = (try header.kept(), try payload?.kept()) }
            guard let payload = kept.payload else {
                return .success(try execute(nil, service, budget, memory))
            }
            return .success(
                try payload.withBytes { (bytes) throws(ServiceError) in
                    try execute(bytes, service, budget, memory)
                })
        } catch {
            // A search that the stop has ended fails as if its time were over.
            let isStopped = isSearch && service.stop.isSet && error.code == .resourceExhausted
            return .failure(isStopped ? .stopping : error)
        }
    }

    private func execute(
        _ payload: UnsafeRawBufferPointer?, _ service: EnvironmentService, _ budget: MemoryBudget,
        _ memory: UnsafeMutableRawBufferPointer?
    ) throws(ServiceError) -> StoredReply {
        switch subject {
        case .request(let op, let host):
            let (result, frame) = try host.execute(op, payload: payload)
            steps = host.steps(of: result)
            return StoredReply(result, seq: seq, payload: frame)
        case .create(let create):
            guard payload == nil else { throw .noPayload }
            let host = try EnvironmentHost(create, service, budget)
            self.host = host
            return StoredReply(.create(host.environment.createReply), seq: seq)
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
                let buffer = try PayloadPool.Buffer(in: budget, size: size)
                frame = buffer.frame(size)
                return buffer.bytes
            }
            return StoredReply(.expand(reply), seq: seq, payload: frame)
        case .stats(let stats): return StoredReply(.stats(stats.finish()), seq: seq)
        }
    }
}

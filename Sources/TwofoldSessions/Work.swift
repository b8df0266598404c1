internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol
package import TwofoldService

/// One admitted request, from its check to its reply.
///
///     take ──► perform, on whichever thread ──► finish
///
/// `@unchecked Sendable` because each part has one owner at a time: the machine makes it, and notes where its reply goes; a
/// thread performs it once, and writes what the machine reads when it finishes it. What both read never changes.
package final class Work: @unchecked Sendable {
    /// The thing to execute, and its environment.
    enum Subject {
        case create(CreateRequest)
        case request(Request.OneOf_Op, EnvironmentHost)
        /// The rules over arrays of boards. No session: the ledger never hears of it, and a repeat is another one.
        case expand(Expansion)
        /// The server's statistics. No session either.
        case stats(StatsWork)
    }

    /// The thread on which a server performs it.
    package enum Place {
        /// On the socket thread.
        case here
        /// On any thread, beside others.
        case queue
        /// One at a time, so that searches never take all threads.
        case searches
        /// One at a time and soon, because a probe waits for it.
        case statistics
    }

    /// The longest work for the socket thread: handing it over would take as long.
    private static let inlineNanoseconds = 80_000
    /// The same while the request's session is the only one: a wait delays only a client that arrives during this time.
    private static let aloneNanoseconds = 2_000_000
    /// Memory that no board has used yet makes a create slower than any step.
    private static let nanosecondsPerCreatedLane = 1000

    let subject: Subject
    /// The session's; nil for a request of no session. Unowned because the entry refers to what it has in progress.
    unowned let entry: SessionLedger.Entry?
    /// Whether it is of a session; a thread that is late may ask after the ledger has gone.
    private let isOfSession: Bool
    let kind: RequestKind
    let seq: UInt64
    /// The moment at which the request came first.
    let arrived: Moment
    let header: Frame
    let payload: Frame?
    private var reservation: MemoryBudget.Reservation?

    /// The newest route that it came by.
    private(set) var route: Route
    /// The resume that waits for its end: at most one, the newest, since an earlier one that gets no reply asks again.
    private(set) var resumes: [(request: Request, route: Route)] = []

    /// The host that a create has made.
    var host: EnvironmentHost?
    /// Bytes of the reply's payload, noted before it is computed, where the caller's memory has no room for it.
    package private(set) var missingRoom: Int?
    /// The boards that it has stepped, each as often as it was.
    private(set) var steps = 0
    /// Its frames as the ledger keeps them, once it was performed.
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

    /// Holds the bytes of its frames in the budget for as long as they are kept; small ones are not counted.
    func reserve(in budget: MemoryBudget) throws(ServiceError) {
        reservation = try budget.reserve(keeping: header.count + (payload?.count ?? 0))
    }

    /// Returns what the ledger keeps of it.
    func done(_ reply: StoredReply) -> SessionLedger.Done {
        .init(seq: seq, header: kept.header, payload: kept.payload, reservation, reply: reply)
    }

    /// Sends its reply to a newer route.
    func reroute(to route: Route) { self.route = route }

    /// Has a resume wait for its end; returns whether an earlier one gets no reply.
    func wait(_ resume: Request, from route: Route) -> Bool {
        defer { resumes = [(resume, route)] }
        return !resumes.isEmpty
    }

    // MARK: where

    /// Returns where a server performs it; `isAlone` is true if no other session is open.
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

    /// Whether it has waited for a thread for too long: a search that began now would not get far. Statistics are answered
    /// to the end.
    package func isTooLate(in phase: Phase) -> Bool {
        if case .stats = subject { return false }
        return phase >= (isSearch ? .refusing : .late)
    }

    // MARK: on whichever thread

    /// Executes the request. The payload of an expand goes to `memory`, if there is any: without the room for it, nothing is
    /// computed, and ``missingRoom`` is the room to bring.
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
            // A search that the stop has ended has not run out of its time.
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

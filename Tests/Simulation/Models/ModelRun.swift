internal import TwofoldSessions
internal import TwofoldTestSupport

/// A run with modelled clients. After the given number of requests, faults stop, and the run continues until each
/// client has finished.
final class ModelRun {
    /// The simulated time, in nanoseconds, within which each client must finish after faults have stopped.
    private static let patience = 600_000_000_000

    let world: World
    private var clients: [ModelClient] = []
    private var sessions: [ModelSession] = []

    init(seed: UInt64, disabled: UInt64, suppressed: [UInt64]) {
        var dice = Dice(seed: seed ^ 0x6d6f_6465_6c)
        let count = 1 + dice.below(12)
        world = World(seed: seed, clients: count, disabled: disabled, suppressed: suppressed)
        var owners = Dice(seed: seed ^ 0x6f77_6e65_7273)
        let keys = ["a", "b"].map { String(repeating: $0, count: 40) }
        let known: [String?] = [nil] + (owners.once(in: 2) ? [] : keys)
        for number in 0..<count {
            let owner = known[owners.below(known.count)]
            clients.append(ModelClient(self, number: number, owner: owner, seed: dice.next()))
        }
    }

    func run(requests: Int) {
        while world.requests < requests, let client = world.next() { clients[client].proceed() }
        guard world.violation == nil else { return }
        world.calm()
        let end = world.now + Self.patience
        while !clients.allSatisfy(\.isDone), let client = world.next() {
            clients[client].proceed()
            guard world.now < end else {
                let late = clients.indices.filter { !clients[$0].isDone }
                return world.violate(
                    "not live: "
                        + late.map { "client \($0) is \(clients[$0].description)" }.joined(separator: ", "))
            }
        }
        guard world.violation == nil else { return }
        for client in clients.indices { world.killClient(client) }
        world.settle()
    }

    // MARK: sessions that clients share

    func anySession(_ dice: inout Dice) -> ModelSession? {
        sessions.isEmpty ? nil : sessions[dice.below(sessions.count)]
    }

    func add(_ session: ModelSession) { sessions.append(session) }

    func remove(_ session: ModelSession) { sessions.removeAll { $0 === session } }
}

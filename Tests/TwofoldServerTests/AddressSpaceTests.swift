import Platform
import Testing
import TwofoldProtocol
import TwofoldTestSupport

@Suite struct AddressSpaceTests {
    private let directory = ScratchDirectory()

    @Test func `sessions get half of the memory that a limit on address space leaves`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), limit: "-v 1500000")
        let limits = try Peer(to: server.endpoints()[0]).ask(Request(.hello)).reply.hello.limits
        #expect(Int(limits.maxBytes) < (1_500_000 * 1024 - MemoryPromise.kept) / 2)
        #expect(Int(limits.maxBytes) > 500_000 * 1024)
        #expect(Int(limits.maxMessageBytes) < Int(limits.maxBytes) / 3)
    }

    @Test func `with too little address space the server does not start, and says how much it needs`() throws
    {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), limit: "-v 120000")
        #expect(try server.exit() == .code(64))
        #expect(server.standardError.contains("ulimit -v"))
    }

    @Test func `the memory that a request needs while it runs is not promised to another request`() async {
        await #expect(processExitsWith: .success) {
            var limit = rlimit()
            let bytes = ProcessUsage.addressSpaceBytes! + MemoryPromise.kept + 400 << 20
            (limit.rlim_cur, limit.rlim_max) = (rlim_t(bytes), rlim_t(bytes))
            try system { setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) }
            let promise = try MemoryPromise.make(250 << 20)
            #expect(throws: Reason.self) { try MemoryPromise.make(250 << 20) }
            withExtendedLifetime(promise) {}
        }
    }
}

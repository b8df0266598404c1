import Platform
import Testing
import TwofoldCore
import TwofoldService
import TwofoldSessions

@Suite struct SettingTests {
    @Test(arguments: [
        ("THREADS", "0"), ("THREADS", "1025"), ("SEARCH_THREADS", "0"), ("MAX_MESSAGE_BYTES", "511"),
        ("MAX_POLICY_BYTES", "0"), ("MAX_SEARCH_MILLISECONDS", "soon"),
        ("MAX_SEARCH_MILLISECONDS", "3600001"), ("ENGINE", "steam"),
    ])
    func `the error for an invalid variable names it`(name: String, value: String) {
        let error = #expect(throws: Reason.self) {
            try ServiceSettings { $0 == name ? value : nil }
        }
        #expect(error?.description.contains("TWOFOLD_\(name)") == true)
        #expect(error?.description.contains(value) == true)
    }

    @Test func `settings come from the variables, and a flag overrides its variable`() throws {
        let variables = [
            "THREADS": "3", "MAX_BYTES": "5000000", "MAX_BOARDS": "3003", "ENGINE": "baseline",
            "MAX_SEARCH_MILLISECONDS": "250", "MAX_POLICY_BYTES": "1000", "IDLE_TIMEOUT": "0",
            "TABLES": "/a/folder",
        ]
        let settings = try ServiceSettings(options: ["threads": 2]) { variables[$0] }
        #expect(settings.threads == 2 && settings.searchThreads == 1)
        #expect(settings.limits.maxBytes == 5_000_000)
        #expect(settings.limits.maxBoards == 3003)
        #expect(settings.limits.idleTimeout == nil)
        #expect(settings.engine == .baseline)
        #expect(settings.limits.maxSearch == .milliseconds(250))
        #expect(settings.limits.maxPolicyBytes == 1000)
        #expect(settings.tables == "/a/folder")
        let limits = Limits()
        let none = try ServiceSettings { _ in nil }
        #expect(none.threads == availableProcessors())
        // The memory in use may have changed slightly by now.
        #expect(abs(none.limits.maxBytes - availableMemory() / 2) < 256 << 20)
        #expect(none.limits.maxBoards == limits.maxBoards)
    }
}

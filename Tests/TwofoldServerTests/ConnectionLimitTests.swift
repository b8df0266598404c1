import Logging
import Synchronization
import Testing
import TwofoldCore

@testable import TwofoldServer

@Suite struct ConnectionLimitTests {
    @Test func `each refused connection is reported once, and at most once a minute`() {
        let lines = Mutex<[String]>([])
        let logger = Logger(label: "test") { _ in Lines { line in lines.withLock { $0.append(line) } } }
        var report = RefusedConnectionsReport()
        for (second, refused) in [(0, 0), (1, 3), (2, 5), (60, 5), (61, 6), (62, 6), (200, 6), (201, 7)] {
            report.update(to: refused, at: Moment(nanoseconds: 0) + .seconds(second), logger)
        }
        let counts = lines.withLock { $0.map { $0.suffix(13) } }
        #expect(counts == ["connections=3", "connections=3", "connections=1"])
    }
}

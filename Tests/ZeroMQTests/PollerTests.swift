import Platform
import Synchronization
import Testing
import ZeroMQ

/// A pipe. Tests poll its reading end.
private final class Pipe: Sendable {
    let reader: CInt
    private let writer: Atomic<CInt>

    init() throws {
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0)
        reader = ends[0]
        writer = Atomic(ends[1])
    }

    deinit {
        hangUp()
        close(reader)
    }

    func write() { _ = Platform.write(writer.load(ordering: .relaxed), "x", 1) }

    /// Closes the writing end once.
    func hangUp() {
        let writer = writer.exchange(-1, ordering: .relaxed)
        if writer >= 0 { close(writer) }
    }
}

@Suite struct PollerTests {
    @Test func `a poll finds the socket with a message`() throws {
        let context = try Context()
        let quiet = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        let endpoint = uniqueInproc()
        let receiver = try Socket.bound(.dealer, to: endpoint, in: context)
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        var poller = Poller()
        let quietItem = poller.add(quiet)
        let item = poller.add(receiver)
        let before = try poller.wait(timeout: .zero)
        #expect(before == 0)
        try sender.send("x")
        let after = try poller.wait(timeout: patience)
        #expect(after == 1)
        #expect(poller[item])
        #expect(!poller[quietItem])
        #expect(try receiver.receiveText() == "x")
        let drained = try poller.wait(timeout: .zero)
        #expect(drained == 0)
        #expect(!poller[item])
    }

    @Test func `a pipe written by another thread wakes a poll without a timeout`() throws {
        let context = try Context()
        let pipe = try Pipe()
        let worker = Worker {
            let socket = try Socket.bound(.rep, to: uniqueInproc(), in: context)
            var poller = Poller()
            let requests = poller.add(socket)
            let wake = poller.add(descriptor: pipe.reader)
            let ready = try poller.wait()
            return (ready, poller[requests], poller[wake])
        }
        #expect(worker.waitUntilAsleep())
        pipe.write()
        let (ready, requests, wake) = try worker.join()
        #expect(ready == 1)
        #expect(!requests)
        #expect(wake)
    }

    @Test func `a pipe whose other end is closed is ready`() throws {
        let pipe = try Pipe()
        var poller = Poller()
        let item = poller.add(descriptor: pipe.reader)
        let open = try poller.wait(timeout: .zero)
        #expect(open == 0)
        pipe.hangUp()
        let ready = try poller.wait(timeout: patience)
        #expect(ready == 1)
        #expect(poller[item])
    }

    @Test func `a descriptor that is not open is ready, and no error is thrown`() throws {
        var poller = Poller()
        // Linux never assigns a descriptor as high as this one.
        let item = poller.add(descriptor: CInt.max)
        let ready = try poller.wait(timeout: patience)
        #expect(ready == 1)
        #expect(poller[item])
    }

    @Test func `a poll ends after its timeout, not before`() throws {
        let context = try Context()
        let socket = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
        var poller = Poller()
        _ = poller.add(socket)
        let start = ContinuousClock.now
        let ready = try poller.wait(timeout: .milliseconds(60))
        let elapsed = ContinuousClock.now - start
        #expect(ready == 0)
        #expect(elapsed >= .milliseconds(60) - slack)
    }

    @Test func `a poller keeps its sockets open`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        var poller = Poller()
        do {
            let socket = try Socket.bound(.dealer, to: endpoint, in: context)
            _ = poller.add(socket)
        }
        let sender = try Socket.connected(.dealer, to: endpoint, in: context)
        try sender.send("x")
        let ready = try poller.wait(timeout: patience)
        #expect(ready == 1)
    }

    @Test func `a poll of an empty poller is a precondition failure`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            var poller = Poller()
            _ = try poller.wait(timeout: .zero)
        }
        #expect(died(result, saying: "an empty poller"))
    }
}

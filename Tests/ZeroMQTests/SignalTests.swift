import Platform
import Synchronization
import Testing
import ZeroMQ

private let handled = Atomic(0)

/// Whether the SIGUSR1 handler is installed. The handler only counts. Without SA_RESTART, the signal interrupts
/// system calls.
private let installed: Bool = {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in handled.add(1, ordering: .relaxed) }
    action.sa_flags = 0
    return sigaction(SIGUSR1, &action, nil) == 0
}()

/// Tests that share a counter of signals, and therefore run one at a time.
@Suite(.serialized) struct SignalTests {
    init() { #expect(installed) }

    /// Interrupts a sleeping thread ten times, and checks that it goes back to sleep each time.
    private func disturb<Value>(_ worker: Worker<Value>) throws {
        for _ in 0..<10 {
            try #require(worker.waitUntilAsleep())
            let before = handled.load(ordering: .relaxed)
            worker.kill(SIGUSR1)
            try #require(eventually { handled.load(ordering: .relaxed) > before })
        }
        try #require(worker.waitUntilAsleep())
        try #require(worker.isRunning)
    }

    @Test func `a blocked receive continues after signals and gets its message`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let sender = try Socket.bound(.dealer, to: endpoint, in: context)
        let worker = Worker {
            try Socket.connected(.dealer, to: endpoint, in: context).receiveText()
        }
        try disturb(worker)
        try sender.send("at last")
        #expect(try worker.join() == "at last")
    }

    @Test func `a blocked send continues after signals and delivers its message once`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let worker = Worker {
            let sender = try Socket.bound(.dealer, to: endpoint, in: context)
            try sender.setLinger(patience)
            try sender.send("at last")
        }
        try disturb(worker)
        let receiver = try Socket.connected(.dealer, to: endpoint, in: context)
        #expect(try receiver.receiveText() == "at last")
        try worker.join()
        let second = try receiver.tryReceive()
        let isAlone = second == nil
        #expect(isAlone)
    }

    @Test func `a poll without a timeout continues after signals and finds the message`() throws {
        let context = try Context()
        let endpoint = uniqueInproc()
        let sender = try Socket.bound(.dealer, to: endpoint, in: context)
        let worker = Worker {
            let receiver = try Socket.connected(.dealer, to: endpoint, in: context)
            var poller = Poller()
            _ = poller.add(receiver)
            let ready = try poller.wait()
            return (ready, try receiver.receiveText())
        }
        try disturb(worker)
        try sender.send("at last")
        let (ready, text) = try worker.join()
        #expect(ready == 1)
        #expect(text == "at last")
    }

    @Test func `signals neither shorten nor lengthen a poll`() throws {
        let context = try Context()
        let timeout = Duration.milliseconds(400)
        let worker = Worker {
            let receiver = try Socket.bound(.dealer, to: uniqueInproc(), in: context)
            var poller = Poller()
            _ = poller.add(receiver)
            let start = ContinuousClock.now
            let ready = try poller.wait(timeout: timeout)
            return (ready, ContinuousClock.now - start)
        }
        // The signals are more frequent than the timeout. If each signal restarted it, the poll would never end.
        let hasEnded = eventually {
            worker.kill(SIGUSR1)
            usleep(20_000)
            return !worker.isRunning
        }
        #expect(hasEnded)
        let (ready, elapsed) = try worker.join()
        #expect(ready == 0)
        #expect(elapsed >= timeout - slack)
    }

    @Test func `signals do not disturb a context that waits for lingering messages`() throws {
        let worker = Worker {
            let start = ContinuousClock.now
            do {
                let context = try Context()
                let sender = try Socket.connected(.dealer, to: nowhere, in: context)
                try sender.setLinger(.milliseconds(500))
                try sender.send("never read")
            }
            return ContinuousClock.now - start
        }
        try #require(
            eventually {
                worker.kill(SIGUSR1)
                usleep(20_000)
                return !worker.isRunning
            })
        #expect(try worker.join() >= .milliseconds(500) - slack)
    }
}

internal import Glibc

/// Whether the next request of a direct connection is worth looking for, in place of sleeping until it wakes the
/// socket thread up: that takes 20 to 50 microseconds, several times what a step of a few boards does.
///
/// It is while one client alone asks again and again within a short time, and there is another processor for it
/// to run on. Then the thread looks for about twice as long as the client usually takes, and sleeps if nothing
/// comes. Each time it has looked it yields; where that takes long, somebody else runs on this processor, most
/// likely that client (the system brings those together who wake each other up), and the thread moves to another.
struct BriskConversation {
    /// Requests in a row from one client.
    private static let leastStreak = 16
    /// What a client may take on average between a reply and its next request.
    private static let longestPause = 500_000

    /// A yield that takes longer has let another thread run.
    private static let longYield = 4_000
    /// So many requests in a row for which it had to wait for the processor, and it is the client that is there.
    private static let leastMeetings = 16

    private var partner: ObjectIdentifier?
    private var partnersEndpoint = 0
    private var streak = 0
    private var averagePause = longestPause
    private var lastReply = Moment.now
    /// Whether somebody else has run here since the last reply, and for how many requests in a row that was so.
    private var hasMet = false
    private var meetings = 0
    /// Whether the thread may not run everywhere.
    private var isConfined = false

    /// To be told of each request over a direct connection.
    mutating func received(from connection: DirectConnection, at endpoint: Int) {
        let partner = ObjectIdentifier(connection)
        if self.partner == partner {
            streak += 1
            keepApart()
            let pause = min(Moment.now - lastReply, 2 * Self.longestPause)
            averagePause += (pause - averagePause) / 8
        } else {
            self.partner = partner
            partnersEndpoint = endpoint
            streak = 0
            averagePause = Self.longestPause
        }
    }

    /// To be told of each reply over a direct connection.
    mutating func replied() { lastReply = .now }

    /// To be told of each message that came in another way.
    mutating func interrupted() {
        streak = 0
        pauses()
    }

    /// Lets others run who wait for this processor.
    mutating func yield() {
        let begin = Moment.now
        sched_yield()
        if Moment.now - begin > Self.longYield { hasMet = true }
    }

    /// Moves where the client does not run, if it runs here.
    private mutating func keepApart() {
        meetings = hasMet ? meetings + 1 : 0
        hasMet = false
        guard meetings == Self.leastMeetings else { return }
        SharedProcessor.leave()
        SharedProcessor.leaveThisOne()
        isConfined = true
        meetings = 0
    }

    /// To be told before the thread sleeps.
    mutating func pauses() {
        guard isConfined else { return }
        SharedProcessor.leave()
        isConfined = false
    }

    /// Where to look before sleeping; nil for not at all, or not any more.
    var endpoint: Int? {
        guard SharedProcessor.hasAnother, streak >= Self.leastStreak, averagePause <= Self.longestPause,
            Moment.now - lastReply < 2 * averagePause
        else { return nil }
        return partnersEndpoint
    }
}

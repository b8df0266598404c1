internal import CLinux
internal import Glibc

/// Whether the next request of a direct connection is worth looking for, in place of sleeping until it wakes the
/// socket thread up: that takes 20 to 50 microseconds, several times what a step of a few boards does.
///
/// It is while one client alone asks again and again within a short time, and there is another processor for it
/// to run on. Then the thread looks for about as long as twice what the client usually takes; it yields
/// each time, and sleeps as soon as nothing comes.
struct BriskConversation {
    /// Requests in a row from one client.
    private static let leastStreak = 16
    /// What a client may take on average between a reply and its next request.
    private static let longestPause = 150_000

    private static let hasAnotherProcessor = twofold_affinity_count() > 1

    private var partner: ObjectIdentifier?
    private var streak = 0
    private var averagePause = longestPause
    private var lastReply = Moment.now

    /// To be told of each request over a direct connection.
    mutating func received(from connection: DirectConnection) {
        let partner = ObjectIdentifier(connection)
        if self.partner == partner {
            streak += 1
            let pause = min(Moment.now - lastReply, 2 * Self.longestPause)
            averagePause += (pause - averagePause) / 8
        } else {
            self.partner = partner
            streak = 0
            averagePause = Self.longestPause
        }
    }

    /// To be told of each reply over a direct connection.
    mutating func replied() { lastReply = .now }

    /// To be told of each message that came in another way.
    mutating func interrupted() { streak = 0 }

    /// Until when to look before sleeping; nil for not at all.
    var end: Moment? {
        guard Self.hasAnotherProcessor, streak >= Self.leastStreak, averagePause <= Self.longestPause else {
            return nil
        }
        return Moment(nanoseconds: lastReply.nanoseconds + 2 * averagePause)
    }
}

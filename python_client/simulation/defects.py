"""Defects to plant, each a small change that the simulation has to find.

    make defects                                # all: builds the library anew for each in Swift
    make defects DEFECTS_ARGS='--only epoch'    # those whose name contains this

A defect is a text that occurs once in a file, and what takes its place. tests/test_simulation.py
holds the texts against the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LEDGER = "Sources/TwofoldSessions/Ledger"
ENTRY = f"{LEDGER}/LedgerEntry.swift"
SERVER = "Sources/TwofoldServer"
SESSION = "python_client/src/twofold/client/session"


@dataclass(frozen=True)
class Defect:
    """A change that makes the system wrong.

    Args:
        name: What is wrong then.
        path: The file.
        text: What is there, once.
        instead: What takes its place.
    """

    name: str
    path: str
    text: str
    instead: str

    @property
    def is_swift(self) -> bool:
        """Whether the library has to be built for it; the clients are then modelled ones."""
        return self.path.endswith(".swift")


IN_SWIFT = (
    Defect(
        "a repeat is carried out once more",
        ENTRY,
        "                if seq == open.last.seq { return open.last.repeated(by: request) }\n",
        "                if case .idle = state, seq == open.last.seq, seq > 1 {\n"
        "                    state = .busy(open, Pending(request: request, route: route))\n"
        "                    return .execute(self, open.host)\n"
        "                }\n",
    ),
    Defect(
        "a repeat is not compared with the request",
        ENTRY,
        "request.isSame(as: other) ? .resend(reply) : .refuse(.conflict(seq))",
        ".resend(reply)",
    ),
    Defect(
        "the reply to a repeat is that of the request before",
        ENTRY,
        "open.last = Done(seq: seq, request: pending.request, reply: reply)",
        "open.last = Done(seq: seq, request: pending.request, reply: open.last.reply)",
    ),
    Defect(
        "a repeat in progress keeps the first route",
        ENTRY,
        "                self.route = route\n",
        "",
    ),
    Defect(
        "a parked repeat is refused, and answered later",
        f"{SERVER}/Loop/Requests.swift",
        "parked += 1\n            return []\n",
        "parked += 1\n            return try refuse(Job.stopping, seq: header.seq, to: route)\n",
    ),
    Defect(
        "a parked repeat is answered twice",
        f"{SERVER}/Loop/Requests.swift",
        "        if let waiting = delivery.resume {\n",
        "        if statistics.parked > 0 {\n"
        "            outputs += try answer(job, outcome, to: delivery.route, at: now)\n"
        "        }\n"
        "        if let waiting = delivery.resume {\n",
    ),
    Defect(
        "a resume that waits is forgotten when the server stops",
        f"{SERVER}/Loop/Requests.swift",
        "        if let waiting = delivery.resume {\n",
        "        if let waiting = delivery.resume, phase.value == .serving {\n",
    ),
    Defect(
        "a request may skip numbers",
        ENTRY,
        "guard seq == open.last.seq + 1 else {",
        "guard seq > open.last.seq else {",
    ),
    Defect(
        "a refused request uses up its number",
        ENTRY,
        "                state = .idle(open)\n                return pending.delivery",
        "                open.last = Done(\n"
        "                    seq: open.last.seq + 1, request: pending.request,\n"
        "                    reply: open.last.reply)\n"
        "                state = .idle(open)\n                return pending.delivery",
    ),
    Defect(
        "an old epoch is good enough",
        ENTRY,
        "guard epoch == self.epoch else {",
        "guard epoch <= self.epoch else {",
    ),
    Defect("a resume leaves the epoch", ENTRY, "                epoch += 1\n", ""),
    Defect(
        "the same holder gets another epoch",
        ENTRY,
        "            if open.holders.last != holder {\n",
        "            if open.holders.last == holder { open.holders.removeLast() }\n"
        "            do {\n",
    ),
    Defect(
        "a late copy of a resume takes the session back",
        ENTRY,
        "guard !open.holders.contains(holder) else { return .refuse(.shutOut) }",
        "",
    ),
    Defect(
        "a resume reports one request too few",
        ENTRY,
        "reply.lastSeq = open.last.seq\n",
        "reply.lastSeq = max(1, open.last.seq - 1)\n",
    ),
    Defect(
        "a resume for an old epoch takes the session",
        ENTRY,
        "guard given == 0 || given == epoch else",
        "guard given <= epoch else",
    ),
    Defect(
        "a resume reports a session that was reset as new",
        ENTRY,
        "reply.wasReset = open.host.environment.wasReset",
        "reply.wasReset = open.last.seq == 2 && open.host.environment.wasReset",
    ),
    Defect(
        "a resume does not wait for the request in progress",
        ENTRY,
        "                state = .busy(open, pending)\n                return resumption",
        "                state = .busy(open, pending)\n"
        "                _ = resumption\n"
        "                return resume(open, by: holder, only: 0)",
    ),
    Defect(
        "a refused create leaves its session",
        f"{LEDGER}/SessionLedger.swift",
        "        if entry.lastSeq == 0 { remove(entry) }\n",
        "",
    ),
    Defect(
        "a closed session still counts",
        f"{LEDGER}/SessionLedger.swift",
        "            usage.remove(boards: entry.boards, of: entry.owner)\n            if let",
        "            if let",
    ),
    Defect(
        "a closed session is forgotten at once",
        f"{LEDGER}/SessionLedger.swift",
        "if let forgotten = tombstones.add(entry.id) { entries[forgotten] = nil }",
        "entries[entry.id] = nil",
    ),
    Defect(
        "sessions end whether idle for long or not",
        f"{LEDGER}/SessionLedger.swift",
        "$0.isIdle && $0.idleSince < moment",
        "$0.isIdle && $0.begin < moment",
    ),
    Defect(
        "idle sessions stay for more than twice the timeout",
        f"{SERVER}/Loop/IdleCheck.swift",
        "now - timeout) - timeout)",
        "now - timeout) - timeout * 2)",
    ),
    Defect(
        "a close leaves its session",
        "Sources/TwofoldSessions/EnvironmentHost.swift",
        "case .close: change = .closed",
        "case .close: change = .none",
    ),
    Defect(
        "the library's repeats lack their payload",
        "Sources/TwofoldEmbedded/EmbeddedService.swift",
        "case .resend(let answer): return .kept(answer)",
        "case .resend(let answer):\n"
        "            return .kept(\n"
        "                SessionOutcome(\n"
        "                    result: answer.result, payload: nil, change: .none, steps: 0))",
    ),
    Defect(
        "the library does not compare a repeat's actions",
        "Sources/TwofoldEmbedded/KeptBytes.swift",
        "case (let mine?, let theirs?): mine.isSame(as: theirs)",
        "case (.some, .some): true",
    ),
    Defect(
        "a step that the library refuses stays in progress",
        "Sources/TwofoldEmbedded/EmbeddedService.swift",
        "            locked { $0.abandon(entry, at: Self.anyTime) }\n"
        "            return .refused(\n",
        "            return .refused(\n",
    ),
    Defect(
        "the library's replies have no number",
        "Sources/TwofoldEmbedded/EmbeddedService.swift",
        "return (request.seq, answer(",
        "return (0, answer(",
    ),
    Defect(
        "the library leaves out the header of a step's finals",
        "Sources/TwofoldEmbedded/Interface.swift",
        "case .step(let step) = kept.result, !step.hasFinals {",
        "case .step = kept.result {",
    ),
    Defect(
        "the library cuts a reply that does not fit",
        "Sources/TwofoldEmbedded/Interface.swift",
        "        let size = bytes?.count ?? 0\n",
        "        let size = min(bytes?.count ?? 0, payload.count)\n",
    ),
    Defect(
        "the library reads each wide action from the wrong place",
        "Sources/TwofoldEmbedded/Actions.swift",
        "fromByteOffset: lane * MemoryLayout<Value>.size, as: Value.self",
        "fromByteOffset: lane, as: Value.self",
    ),
    Defect(
        "a partial reset leaves the old board",
        "Sources/TwofoldCore/Environment/Batch.swift",
        "for lane in range where input.resets(lane) {",
        "for lane in range where input.resets(lane) && (lane < 2 || input.mask == nil) {",
    ),
    Defect(
        "fours are too frequent",
        "Sources/TwofoldCore/Game2048/Spawn.swift",
        "(fourProbability * 4_294_967_296)",
        "(fourProbability * 4_300_000_000)",
    ),
    Defect(
        "another client's requests keep a session",
        ENTRY,
        "            guard owner == route.client else { return .refuse(.unknown(id)) }\n"
        "            idleSince = now\n",
        "            idleSince = now\n"
        "            guard owner == route.client else { return .refuse(.unknown(id)) }\n",
    ),
    Defect(
        "another client may use a session",
        ENTRY,
        "            guard owner == route.client else { return .refuse(.unknown(id)) }\n",
        "",
    ),
    Defect(
        "another client may resume a session",
        ENTRY,
        "guard owner == route.client, !isClosed else",
        "guard !isClosed else",
    ),
    Defect(
        "another client learns that an id is taken",
        f"{LEDGER}/SessionLedger.swift",
        "        return entry.admit(\n            header.seq, epoch: header.epoch, isCreate: true,",
        "        guard entry.owner == route.client else { return .refuse(.idIsTaken) }\n"
        "        return entry.admit(\n            header.seq, epoch: header.epoch, isCreate: true,",
    ),
    Defect(
        "a saved session belongs to nobody",
        ENTRY,
        "            if case .key(let key) = owner { saved.clientKey = key }\n",
        "",
    ),
    Defect(
        "a client has one session more than allowed",
        f"{LEDGER}/LedgerUsage.swift",
        "default: 0] >= limits.maxSessionsPerClient",
        "default: 0] > limits.maxSessionsPerClient",
    ),
    Defect(
        "a pause of the server counts as idle time",
        f"{LEDGER}/SessionLedger.swift",
        "for entry in entries.values { entry.excuse(pause, until: now) }",
        "",
    ),
    Defect(
        "one session more than allowed",
        f"{LEDGER}/LedgerUsage.swift",
        "guard sessions < limits.maxSessions else {",
        "guard sessions <= limits.maxSessions else {",
    ),
    Defect(
        "each session may have all boards",
        f"{LEDGER}/LedgerUsage.swift",
        "boards > limits.maxBoards - self.boards",
        "boards > limits.maxBoards",
    ),
    Defect(
        "the budget is exceeded",
        "Sources/TwofoldSessions/MemoryBudget.swift",
        "guard !overflow, sum <= limit else {",
        "guard !overflow, sum <= limit + limit / 8 else {",
    ),
    Defect(
        "memory is not given back",
        "Sources/TwofoldSessions/MemoryBudget.swift",
        "deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }",
        "deinit { budget.reserved.subtract(bytes & ~15, ordering: .relaxed) }",
    ),
    Defect(
        "a saved session loses its epoch",
        ENTRY,
        "            saved.epoch = epoch\n",
        "            saved.epoch = 1\n",
    ),
    Defect(
        "a saved session is one request behind",
        ENTRY,
        "            saved.lastSeq = open.last.seq\n",
        "            saved.lastSeq = max(1, open.last.seq - 1)\n",
    ),
    Defect(
        "a saved reply loses its payload",
        f"{SERVER}/Loop/ReplyFrames.swift",
        "        if payload != nil { saved.payload = payload!.withUnsafeBytes { Data($0) } }\n",
        "",
    ),
    Defect(
        "a restored session's file stays",
        f"{SERVER}/State/StateDirectory.swift",
        "names.filter { !files.remove($0) }",
        "names.filter(\\.isEmpty)",
    ),
    Defect(
        "removing a file is not settled",
        f"{SERVER}/State/StateDirectory.swift",
        "        files.settle()\n        try failure.get()\n",
        "        try failure.get()\n",
    ),
    Defect(
        "saved sessions are not settled",
        f"{SERVER}/State/StateDirectory.swift",
        "        try files.flush(file)\n        files.settle()\n",
        "",
    ),
    Defect(
        "a damaged file is read",
        f"{SERVER}/State/StateDirectory.swift",
        "                checksum(message) == head.number(at: 12, as: UInt32.self),\n",
        "",
    ),
    Defect(
        "a session in progress at the stop is saved without its request",
        f"{SERVER}/Loop/Requests.swift",
        "        inProgress -= 1\n",
        "        inProgress -= 1\n"
        "        if phase.value > .serving, case .session = job.task { return [] }\n",
    ),
    Defect(
        "a repeat in progress drops the resume that waits",
        ENTRY,
        "                self.route = route\n                return .parked\n",
        "                (self.route, self.resume) = (route, nil)\n"
        "                return .parked\n",
    ),
    Defect(
        "a resume that waits for a request that is refused gets no answer",
        ENTRY,
        "                state = .idle(open)\n                return pending.delivery",
        "                state = .idle(open)\n"
        "                return Delivery(route: pending.route, resume: nil)",
    ),
    Defect(
        "a late copy of the third last holder's resume takes the session back",
        ENTRY,
        "private static var maxFormerHolders: Int { 64 }",
        "private static var maxFormerHolders: Int { 2 }",
    ),
    Defect(
        "a resume that a newer copy replaces is counted nowhere",
        f"{SERVER}/Loop/Requests.swift",
        "        case .waits(let inPlaceOfAnother):\n"
        "            if inPlaceOfAnother { statistics.parked += 1 }\n"
        "            return []\n",
        "        case .waits:\n            return []\n",
    ),
    Defect(
        "a partial reset with seeds restarts every policy stream",
        "Sources/TwofoldService/Rollouts.swift",
        "for lane in 0..<environment.lanes where input.resets(lane) {",
        "for lane in 0..<environment.lanes {",
    ),
)

IN_PYTHON = (
    Defect(
        "the client counts a refused request",
        f"{SESSION}/states.py",
        "return Idle(self.seq - 1)",
        "return Idle(self.seq)",
    ),
    Defect(
        "an unreturned step is stepped again",
        f"{SESSION}/states.py",
        "is_same = operation == self.operation\n",
        "is_same = False\n",
    ),
    Defect(
        "a result that was not returned is forgotten",
        f"{SESSION}/states.py",
        "    def left(self) -> State:\n        return Unseen(self.seq, self.operation)",
        "    def left(self) -> State:\n        return Idle(self.seq)",
    ),
    Defect(
        "the same call does not collect a pending reply",
        f"{SESSION}/states.py",
        "        if operation == self.operation:\n            return self.again()\n",
        "",
    ),
    Defect(
        "a request without an answer is forgotten",
        f"{SESSION}/states.py",
        "    def left(self) -> State:\n        return Unanswered(self.seq, self.operation)",
        "    def left(self) -> State:\n        return Idle(self.seq - 1)",
    ),
    Defect(
        "an interrupted step_wait can't be called again",
        f"{SESSION}/states.py",
        "    def again(self) -> Unanswered:\n        return self\n",
        "    def again(self) -> Unanswered:\n        return Sent(self.seq, self.operation)\n",
    ),
    Defect(
        "the journal leaves rollouts out",
        f"{SESSION}/journal.py",
        '_CHANGES = ("reset", "step", "restore", "rollout")',
        '_CHANGES = ("reset", "step", "restore")',
    ),
    Defect(
        "boards made again lack their network",
        f"{SESSION}/recovery.py",
        "[*map(Done, journal.policy), *journal.done]",
        "[*journal.done]",
    ),
    Defect(
        "boards made again are numbered from the wrong request",
        f"{SESSION}/session.py",
        "self.state = lost.recovered(last_seq + is_new)",
        "self.state = lost.recovered(last_seq)",
    ),
    Defect(
        "a retry uses the socket that still waits",
        "python_client/src/twofold/client/zeromq.py",
        "        if self._is_under_way:\n            self.drop()\n",
        "",
    ),
    Defect(
        "a wait does not end at the call's deadline",
        "python_client/src/twofold/client/zeromq.py",
        "until = min(self._surroundings.now() + wait, deadline)",
        "until = self._surroundings.now() + wait",
    ),
    Defect(
        "a call gives up after half of its time",
        f"{SESSION}/session.py",
        "deadline = self.surroundings.now() + self._timeout\n",
        "deadline = self.surroundings.now() + self._timeout / 2\n",
    ),
    Defect(
        "repeats do not wait longer each time",
        "python_client/src/twofold/client/zeromq.py",
        "return min(first * 2.0 ** min(tries, 10), 1.0)",
        "return min(first, 1.0)",
    ),
    Defect(
        "a client does not wait for a server that stops",
        f"{SESSION}/link.py",
        "            self._surroundings.sleep(wait)\n",
        "",
    ),
    Defect(
        "a close ends the session in the client alone",
        f"{SESSION}/session.py",
        "                self._say_goodbye(deadline)\n",
        "                pass\n",
    ),
    Defect(
        "a client that takes over counts from the wrong request",
        f"{SESSION}/session.py",
        "self.state = states.Idle(resumed.last_seq)",
        "self.state = states.Idle(resumed.last_seq - 1)",
    ),
    Defect(
        "two equal steps in a row are one in the journal",
        f"{SESSION}/journal.py",
        "return bool(self.done) and self.done[-1].operation is operation",
        "return bool(self.done) and self.done[-1].operation == operation",
    ),
    Defect(
        "a close does not finish the request before it",
        f"{SESSION}/session.py",
        "        if isinstance(self.state, Unanswered):\n            self._finish(deadline)\n",
        "        if isinstance(self.state, Unanswered) and "
        'self.state.operation.slot == "create":\n'
        "            self._finish(deadline)\n",
    ),
)

# Once in the sources, and found by the simulation.
PAST = (
    Defect(
        "a long reply takes the memory that is reserved for steps",
        "Sources/TwofoldSessions/PayloadPool.swift",
        "if size <= longest, let mine",
        "if let mine",
    ),
    Defect(
        "a session is idle right after a resume that waited",
        f"{SERVER}/Loop/Requests.swift",
        "resume(waiting.header, from: waiting.route, at: now)",
        "resume(waiting.header, from: waiting.route, at: waiting.route.arrived)",
    ),
    Defect(
        "a lost session that a late create begins again is not lost to its client",
        f"{LEDGER}/LedgerRefusals.swift",
        '.notFound, field: "session",\n                "this session has come',
        '.invalidArgument, field: "epoch",\n                "this session has come',
    ),
    Defect(
        "a recovery begins anew in each call",
        f"{SESSION}/session.py",
        "        if self._recovery is None:\n            self._recovery = Recovery(",
        "        if self._recovery is not self:\n            self._recovery = Recovery(",
    ),
    Defect(
        "an upload of a network begins anew in each call",
        "python_client/src/twofold/policies/served_policies.py",
        "        session.network = network\n    end = 0\n",
        "    end = 0\n",
    ),
    Defect(
        "a discard leaves the step open",
        "python_client/src/twofold/envs/vector.py",
        "                if self._session.unreturned_step is not None:\n"
        "                    raise\n",
        "                pass\n",
    ),
)

DEFECTS = IN_SWIFT + IN_PYTHON + PAST

"""Defects that the simulation must find. Each defect is a small change to the source code.

    make defects                                # all; rebuilds the library for each Swift defect
    make defects DEFECTS_ARGS='--only epoch'    # the defects whose names contain this

A defect replaces a passage that occurs exactly once in a file. tests/test_simulation.py checks that
each passage still occurs in its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SESSIONS = "Sources/TwofoldSessions"
LEDGER = f"{SESSIONS}/Ledger"
ENTRY = f"{LEDGER}/LedgerEntry.swift"
MACHINE = f"{SESSIONS}/SessionMachine.swift"
WORK = f"{SESSIONS}/Work.swift"
SERVER = "Sources/TwofoldServer"
SESSION = "python_client/src/twofold/client/session"


@dataclass(frozen=True)
class Defect:
    """A change to the source code that makes the system misbehave.

    Args:
        name: The wrong behaviour.
        path: The file.
        text: The text to replace, which occurs once in the file.
        instead: The replacement.
    """

    name: str
    path: str
    text: str
    instead: str

    @property
    def is_swift(self) -> bool:
        """Whether the defect is in Swift code, which needs a build and runs with model clients."""
        return self.path.endswith(".swift")


IN_SWIFT = (
    Defect(
        "a repeat is executed again",
        ENTRY,
        "if let last, seq == last.seq { return try last.repeated(header, payload) }\n",
        "if isIdle, seq == lastSeq, seq > 1 { return .execute(self) }\n",
    ),
    Defect(
        "a repeat is not compared with the request",
        ENTRY,
        "guard self.header == header, self.payload == payload else { throw .conflict(seq) }\n",
        "",
    ),
    Defect(
        "a repeat gets the reply to the previous request",
        ENTRY,
        "case .busy(let environment, let work):\n                last = work.done(reply)\n",
        "case .busy(let environment, let work):\n                last = work.done(last!.reply)\n",
    ),
    Defect(
        "a repeat in progress keeps the first route",
        ENTRY,
        "            work.reroute(to: route)\n",
        "",
    ),
    Defect(
        "a parked repeat is refused, and answered later",
        MACHINE,
        "        case .parked: statistics.counters.parked += 1\n",
        "        case .parked:\n"
        "            statistics.counters.parked += 1\n"
        "            refuse(.stopping, seq: seq, to: route, into: &effects)\n",
    ),
    Defect(
        "a parked repeat is answered twice",
        MACHINE,
        "        for waiting in work.resumes {\n",
        "        if statistics.counters.parked > 0, case .success(let reply) = result {\n"
        "            effects.append(.send(reply, to: work.route))\n"
        "        }\n"
        "        for waiting in work.resumes {\n",
    ),
    Defect(
        "a resume that waits is forgotten when the server stops",
        MACHINE,
        "        for waiting in work.resumes {\n",
        "        for waiting in work.resumes where phase == .serving {\n",
    ),
    Defect(
        "a request may skip numbers",
        ENTRY,
        "guard seq == lastSeq + 1 else {",
        "guard seq > lastSeq else {",
    ),
    Defect(
        "a refused request uses up its number",
        ENTRY,
        "            case .busy(let environment, _): state = .idle(environment)\n",
        "            case .busy(let environment, let work):\n"
        "                last = work.done(last!.reply)\n"
        "                state = .idle(environment)\n",
    ),
    Defect(
        "an old epoch is accepted",
        ENTRY,
        "guard epoch == self.epoch else {",
        "guard epoch <= self.epoch else {",
    ),
    Defect("a resume does not change the epoch", ENTRY, "                epoch += 1\n", ""),
    Defect(
        "the same holder gets another epoch",
        ENTRY,
        "            if holders.last != holder {\n",
        "            if holders.last == holder { holders.removeLast() }\n            do {\n",
    ),
    Defect(
        "a delayed copy of a resume reclaims the session",
        ENTRY,
        "guard !holders.contains(holder) else { throw .shutOut }",
        "",
    ),
    Defect(
        "a resume reports one request too few",
        ENTRY,
        "reply.lastSeq = last.seq\n",
        "reply.lastSeq = max(1, last.seq - 1)\n",
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
        "reply.wasReset = environment.wasReset",
        "reply.wasReset = last.seq == 2 && environment.wasReset",
    ),
    Defect(
        "a resume does not wait for the request in progress",
        ENTRY,
        "            case .creating(let work), .busy(_, let work):\n                return work",
        "            case .busy(let environment, let work):\n"
        "                _ = work.wait(request, from: route)\n"
        "                return .resumed(try transfer(request, environment))\n"
        "            case .creating(let work):\n"
        "                return work",
    ),
    Defect(
        "a refused create does not remove its session",
        f"{LEDGER}/SessionLedger.swift",
        "        if entry.lastSeq == 0 { remove(entry) }\n",
        "",
    ),
    Defect(
        "a closed session still counts",
        f"{LEDGER}/SessionLedger.swift",
        "        count(entry, by: -1)\n        guard closed",
        "        guard closed",
    ),
    Defect(
        "a closed session is forgotten at once",
        f"{LEDGER}/SessionLedger.swift",
        "guard closed.count == Self.maxClosed else { return closed.append(entry.id) }",
        "guard false else { return entries[entry.id] = nil }",
    ),
    Defect(
        "sessions end regardless of their idle time",
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
        "a close does not remove its session",
        ENTRY,
        "where work.kind == .close:",
        "where work.kind == .close && work.seq == 0:",
    ),
    Defect(
        "the library's repeats lack their payload",
        f"{SESSIONS}/SessionMachine.swift",
        "            settle(verdict, op, seq: seq, Frame()",
        "            if case .resend(let reply) = verdict, reply.isPlainStep {\n"
        "                effects.append(.send(StoredReply(.step(.init()), seq: seq), to: route))\n"
        "                return\n"
        "            }\n"
        "            settle(verdict, op, seq: seq, Frame()",
    ),
    Defect(
        "the library does not compare a repeat's actions",
        "Sources/TwofoldService/Frame.swift",
        "let theirs = right[lane] { mine == theirs } else { false }",
        "let theirs = right[lane] { mine <= theirs || mine > theirs } else { false }",
    ),
    Defect(
        "a step that the library refuses stays in progress",
        MACHINE,
        "return answer(work, .failure(error), at: work.arrived, into: &effects)",
        "return refuse(error, work.kind, seq: work.seq, to: work.route, into: &effects)",
    ),
    Defect(
        "the library's replies have no number",
        "Sources/TwofoldEmbedded/Interface.swift",
        "        let frame = isLean ? [] : answer.header\n",
        "        var frame = isLean ? [] : answer.header\n"
        "        for index in frame.indices.prefix(9).dropFirst() { frame[index] = 0 }\n",
    ),
    Defect(
        "the library leaves out the header of a step's finals",
        "Sources/TwofoldEmbedded/Interface.swift",
        "let isLean = isStep && answer.isPlainStep",
        "let isLean = isStep",
    ),
    Defect(
        "the library cuts a reply that does not fit",
        "Sources/TwofoldEmbedded/Interface.swift",
        "        let size = answer.payload?.count ?? 0\n",
        "        let size = min(answer.payload?.count ?? 0, payload.count)\n",
    ),
    Defect(
        "the library reads each wide action from the wrong place",
        "Sources/TwofoldService/Frame.swift",
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
        "another client's requests keep a session open",
        ENTRY,
        "            guard owner == route.client else { throw .unknown(id) }\n"
        "            idleSince = route.arrived\n",
        "            idleSince = route.arrived\n"
        "            guard owner == route.client else { throw .unknown(id) }\n",
    ),
    Defect(
        "another client may use a session",
        ENTRY,
        "            guard owner == route.client else { throw .unknown(id) }\n",
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
        "        return try admit(id, epoch: request.epoch, seq",
        "        if case .create = op, let entry = entries[id], entry.owner != route.client {\n"
        "            throw .idIsTaken\n"
        "        }\n"
        "        return try admit(id, epoch: request.epoch, seq",
    ),
    Defect(
        "a saved session loses its owner's key",
        ENTRY,
        "            if let owner { saved.clientKey = owner }\n",
        "",
    ),
    Defect(
        "a client may have one session too many",
        f"{LEDGER}/SessionLedger.swift",
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
        "one session too many is allowed",
        f"{LEDGER}/SessionLedger.swift",
        "guard openCount < limits.maxSessions else {",
        "guard openCount <= limits.maxSessions else {",
    ),
    Defect(
        "each session may have all boards",
        f"{LEDGER}/SessionLedger.swift",
        "boards > limits.maxBoards - openBoards",
        "boards > limits.maxBoards",
    ),
    Defect(
        "the budget is exceeded",
        "Sources/TwofoldService/MemoryBudget.swift",
        "guard !overflow, sum <= limit else {",
        "guard !overflow, sum <= limit + limit / 8 else {",
    ),
    Defect(
        "memory is not released",
        "Sources/TwofoldService/MemoryBudget.swift",
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
        "            saved.lastSeq = last.seq\n",
        "            saved.lastSeq = max(1, last.seq - 1)\n",
    ),
    Defect(
        "a saved request or reply loses its payload",
        f"{SESSIONS}/StoredReply.swift",
        "        if let payload { self.payload = payload.withBytes { Data($0) } }\n",
        "",
    ),
    Defect(
        "a restored session's file stays",
        f"{SERVER}/State/StateDirectory.swift",
        "guard files.remove(file) else {",
        "guard true else {",
    ),
    Defect(
        "the removal of a file is not synced",
        f"{SERVER}/State/StateDirectory.swift",
        "            return files.settle()\n",
        "            return\n",
    ),
    Defect(
        "restored sessions are not marked beside a damaged one",
        f"{SERVER}/State/StateDirectory.swift",
        "for record in sessions {",
        "for record in sessions.prefix(0) {",
    ),
    Defect(
        "the marks of restored sessions are not synced",
        f"{SERVER}/State/StateDirectory.swift",
        "        try files.flush(file)\n    }\n}\n",
        "    }\n}\n",
    ),
    Defect(
        "saved sessions are not synced",
        f"{SERVER}/State/StateDirectory.swift",
        "        try files.flush(file)\n        files.settle()\n",
        "",
    ),
    Defect(
        "a damaged file is read",
        f"{SERVER}/State/StateDirectory.swift",
        "guard checksum(message) == record.checksum, let session",
        "guard let session",
    ),
    Defect(
        "a session with a request in progress at the stop is saved without this request",
        MACHINE,
        "        inProgress -= 1\n",
        "        inProgress -= 1\n        if phase > .serving, work.entry != nil { return }\n",
    ),
    Defect(
        "a repeat in progress drops the resume that waits",
        WORK,
        "func reroute(to route: Route) { self.route = route }",
        "func reroute(to route: Route) { (self.route, resumes) = (route, []) }",
    ),
    Defect(
        "a resume that waits for a request that is refused gets no answer",
        MACHINE,
        "            refuse(error, work.kind, seq: work.seq, to: work.route, into: &effects)\n"
        "        }\n",
        "            refuse(error, work.kind, seq: work.seq, to: work.route, into: &effects)\n"
        "            return\n"
        "        }\n",
    ),
    Defect(
        "a late copy of the third last holder's resume takes the session back",
        ENTRY,
        "private static let maxFormerHolders = 64",
        "private static let maxFormerHolders = 2",
    ),
    Defect(
        "a resume that a newer copy replaces is counted nowhere",
        ENTRY,
        "return work.wait(request, from: route) ? .parked : .waits",
        "return work.wait(request, from: route) ? .waits : .waits",
    ),
    Defect(
        "a partial reset with seeds restarts every policy stream",
        "Sources/TwofoldService/Rollouts.swift",
        "for lane in 0..<batch.lanes where input.resets(lane) {",
        "for lane in 0..<batch.lanes {",
    ),
    Defect(
        "a restart begins the idle time again",
        f"{LEDGER}/LedgerEntry.swift",
        "idleSince = Moment(nanoseconds: now.nanoseconds - Int(saved.idleNanoseconds))",
        "idleSince = now",
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
        "a step whose result was not returned is executed again",
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
        '_CHANGES = ("reset", "step", "restore", "rollout", "policy")',
        '_CHANGES = ("reset", "step", "restore", "policy")',
    ),
    Defect(
        "boards made again lack their network",
        f"{SESSION}/journal.py",
        '_CHANGES = ("reset", "step", "restore", "rollout", "policy")',
        '_CHANGES = ("reset", "step", "restore", "rollout")',
    ),
    Defect(
        "boards made again are numbered from the wrong request",
        f"{SESSION}/session.py",
        "self.state = lost.recovered(last_seq + is_new)",
        "self.state = lost.recovered(last_seq)",
    ),
    Defect(
        "a retry reuses a socket that still waits for a reply",
        "python_client/src/twofold/client/zeromq.py",
        "        if self._is_under_way:\n            self.close()\n",
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
        "first * 2.0 ** min(tries, 10)",
        "first",
    ),
    Defect(
        "a client does not wait for a server that stops",
        "python_client/src/twofold/client/carrier.py",
        "    within.sleep(wait)\n",
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

# Each of these defects was in the sources once, and the simulation found it.
PAST = (
    Defect(
        "a long reply takes the memory that is reserved for steps",
        "Sources/TwofoldService/MemoryBudget.swift",
        "if bytes <= longest, claim(bytes)",
        "if claim(bytes)",
    ),
    Defect(
        "a session is idle right after a resume that waited",
        MACHINE,
        "try resume(waiting.request, from: waiting.route, at: now, into",
        "try resume(waiting.request, from: waiting.route, at: waiting.route.arrived, into",
    ),
    Defect(
        "a lost session that a late create begins again is not lost to its client",
        f"{LEDGER}/LedgerRefusals.swift",
        '.notFound, field: "session",\n                "this session is at epoch',
        '.invalidArgument, field: "epoch",\n                "this session is at epoch',
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
        "suppress(*REFUSED)",
        "suppress(*REFUSED, ConnectionError)",
    ),
    Defect(
        "a discard hides that another server does not know the boards",
        "python_client/src/twofold/envs/vector.py",
        "suppress(*REFUSED)",
        "suppress(*REFUSED, LookupError)",
    ),
)

DEFECTS = IN_SWIFT + IN_PYTHON + PAST

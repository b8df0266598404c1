"""Defects by an author who had not read the simulation. They measure how much it finds.

    make defects DEFECTS_ARGS='--unseen --seconds 120'

The tests of `make test`, without the simulation, find none of these defects.
"""

from defects import ENTRY, LEDGER, MACHINE, SERVER, SESSION, SESSIONS, WORK, Defect

_ROLLOUTS = "Sources/TwofoldService/Rollouts.swift"
_SERVED = "Sources/TwofoldService/ServedEnvironment.swift"
_LINK = f"{SESSION}/link.py"
_JOURNAL = f"{SESSION}/journal.py"
_SESSION = f"{SESSION}/session.py"

UNSEEN: dict[str, tuple[Defect, ...]] = {
    "ledger": (
        Defect(
            "a request of an older epoch does not keep its session",
            ENTRY,
            "idleSince = route.arrived\n"
            "            guard epoch == self.epoch else { "
            "throw .wrongEpoch(epoch, of: self.epoch) }\n",
            "guard epoch == self.epoch else { throw .wrongEpoch(epoch, of: self.epoch) }\n"
            "            idleSince = route.arrived\n",
        ),
        Defect(
            "a resume does not keep its session",
            ENTRY,
            "            guard holder.count == 16 else { throw .badHolder(holder.count) }\n"
            "            idleSince = now\n",
            "            guard holder.count == 16 else { throw .badHolder(holder.count) }\n",
        ),
        Defect(
            "repeats are compared in whole words only",
            "Sources/TwofoldService/Frame.swift",
            "memcmp(left.start!, right.start!, left.count) == 0",
            "memcmp(left.start!, right.start!, left.count < 8 ? left.count : left.count & ~7) == 0",
        ),
    ),
    "state files": (
        Defect(
            "holders are not saved",
            ENTRY,
            "            saved.epoch = epoch\n            saved.holders = holders\n",
            "            saved.epoch = epoch\n",
        ),
        Defect(
            "restored sessions count towards no limit",
            f"{LEDGER}/SessionLedger.swift",
            "        add(entry)\n        return entry\n",
            "        entries[entry.id] = entry\n        return entry\n",
        ),
        Defect(
            "a network given before the first reset is lost in a restart",
            _SERVED,
            "        rollouts.save(into: &saved)\n"
            "        // Before the first reset the lanes have no state.\n"
            "        guard wasReset else { return }\n",
            "        // Before the first reset there is nothing to save.\n"
            "        guard wasReset else { return }\n"
            "        rollouts.save(into: &saved)\n",
        ),
        Defect(
            "a restored session's network is not counted in the budget",
            _ROLLOUTS,
            "        _ = try take(request, nil)\n",
            "        let shape = batch.observationSpace.shape\n"
            "        network = try NTupleNetwork(\n"
            "            .init(request.network), rows: shape[0], columns: shape[1],\n"
            "            maxBytes: service.limits.maxPolicyBytes)\n",
        ),
        Defect(
            "a network without symmetry is restored with symmetry",
            _ROLLOUTS,
            "saved.network.symmetric = network.form.isSymmetric",
            "saved.network.symmetric = true",
        ),
        Defect(
            "weights that came only in part are lost in a restart",
            _ROLLOUTS,
            "        saved.weights = network.withReceived { Data($0) }\n",
            "        if network.isComplete { saved.weights = network.withReceived { Data($0) } }\n",
        ),
        Defect(
            "the file of saved sessions is not flushed",
            f"{SERVER}/State/StateDirectory.swift",
            "        try files.flush(file)\n        files.settle()\n",
            "        files.settle()\n",
        ),
    ),
    "clients": (
        Defect(
            "a partial reset with seeds begins the journal anew",
            _JOURNAL,
            'return operation.slot == "reset" and request.reset.seeds and not request.reset.mask',
            'return operation.slot == "reset" and request.reset.seeds',
        ),
        Defect(
            "a partial restore begins the journal anew",
            _JOURNAL,
            "        return not request.restore.lanes\n",
            "        return True\n",
        ),
        Defect(
            "copies of a request refused for lack of resources are not shut out",
            _LINK,
            "isinstance(error, REFUSED)",
            "isinstance(error, (InvalidArgument, FailedPrecondition))",
        ),
        Defect(
            "shutting out copies takes the session back from another holder",
            _LINK,
            "request = envelope.Request(session=self.id, epoch=self._steps.epoch, resume=resume)",
            "request = envelope.Request(session=self.id, resume=resume)",
        ),
        Defect(
            "an unanswered shutting out of copies is not made again",
            _LINK,
            "            if self._holder is not None:\n"
            "                answer = self._shut_copies_out(slot, seq, deadline, into)\n",
            "            if self._holder is not None and are_copies_out:\n"
            "                answer = self._shut_copies_out(slot, seq, deadline, into)\n",
        ),
    ),
    "budget": (
        Defect(
            "a session that ended idle still counts for its client",
            f"{LEDGER}/SessionLedger.swift",
            "        entries[entry.id] = nil\n        count(entry, by: -1)\n",
            "        entries[entry.id] = nil\n"
            "        count(entry, by: -1)\n"
            "        if let owner = entry.owner { openCounts[owner, default: 0] += 1 }\n",
        ),
        Defect(
            "a smaller policy keeps the memory of a larger one",
            _ROLLOUTS,
            "(source, policy, reservation))\n",
            "(source, policy, (last?.reservation, reservation)))\n",
        ),
        Defect(
            "a SAME_STEP session does not reserve its longest replies",
            _SERVED,
            "replyBytes = 3 * longestStep",
            "replyBytes = 2 * stepLayout.size",
        ),
        Defect(
            "a search and a network may exceed the policy budget together",
            _ROLLOUTS,
            "service.limits.maxPolicyBytes - (network?.bytes ?? 0)",
            "service.limits.maxPolicyBytes",
        ),
        Defect(
            "a session's second policy is not counted",
            _ROLLOUTS,
            "try reservePolicy(tableBytes(source))",
            "try reservePolicy(last == nil ? tableBytes(source) : 0)",
        ),
        Defect(
            "a kept request's payload is not counted in the budget",
            f"{SESSIONS}/Work.swift",
            "let bytes = header.count + (payload?.count ?? 0)",
            "let bytes = header.count",
        ),
        Defect(
            "a rollout is not cut to the largest message",
            "python_client/src/twofold/envs/rollouts.py",
            "largest = session.link.largest_payload(wanted)",
            "largest = wanted",
        ),
    ),
    "time": (
        Defect(
            "the time before a start counts as idle time",
            f"{SERVER}/Loop/IdleCheck.swift",
            "case .pause(let pause): excuse(pause, until: now)",
            "case .pause: break",
        ),
        Defect(
            "a pause of up to four intervals counts as idle time",
            f"{SERVER}/Loop/IdleCheck.swift",
            "guard elapsed <= interval * 2 else {",
            "guard elapsed <= interval * 4 else {",
        ),
        Defect(
            "idle time begins with the request, not with its reply",
            MACHINE,
            "ledger.complete(entry, reply, at: now)",
            "ledger.complete(entry, reply, at: work.arrived)",
        ),
        Defect(
            "a server that refuses new requests executes those of sessions",
            MACHINE,
            "            guard phase < .refusing else { throw .stopping }\n"
            "            try checkActions",
            "            guard phase < .late else { throw .stopping }\n"
            "            try checkActions",
        ),
        Defect(
            "jobs begin in the last seconds of a stop",
            WORK,
            "return phase >= (isSearch ? .refusing : .late)",
            "return phase >= (isSearch ? .refusing : .ended)",
        ),
        Defect(
            "each loss of the boards gives a call its whole timeout again",
            _SESSION,
            "            while True:\n                try:\n",
            "            while True:\n"
            "                deadline = self.surroundings.now() + self._timeout\n"
            "                try:\n",
        ),
    ),
    "rules": (
        Defect(
            "a second network has no effect",
            _ROLLOUTS,
            "            }\n            last = nil\n",
            "            }\n",
        ),
        Defect(
            "a refused reset restarts the policy streams",
            _SERVED,
            "            try batch.reset(input, into: resetLayout.arrays(in: "
            "replyMemory(resetLayout.size)))\n"
            "            rollouts.reset(input)\n",
            "            rollouts.reset(input)\n"
            "            try batch.reset(input, into: resetLayout.arrays(in: "
            "replyMemory(resetLayout.size)))\n",
        ),
        Defect(
            "a partial snapshot has the first boards' policy streams",
            "Sources/TwofoldCore/Environment/SnapshotFormat.swift",
            "        for lane in lanes {\n"
            "            memory.storeStreamWords(streams[lane], at: end)\n",
            "        for lane in lanes.indices {\n"
            "            memory.storeStreamWords(streams[lane], at: end)\n",
        ),
        Defect(
            "a snapshot of Concentration fits other rules for illegal actions",
            "Sources/TwofoldCore/Concentration/Concentration+Snapshot.swift",
            '            Rule("peeks", config.peeks.map { "\\($0)" } ?? "unlimited"),\n'
            '            Rule("illegal_action", config.illegalAction.rawValue),\n',
            '            Rule("peeks", config.peeks.map { "\\($0)" } ?? "unlimited"),\n',
        ),
        Defect(
            "the term cleared pays when an illegal action ends the episode",
            "Sources/TwofoldCore/Concentration/Concentration+Rewards.swift",
            "case .cleared: move.after.isCleared ? 1 : 0",
            "case .cleared: move.transition.isTerminated ? 1 : 0",
        ),
    ),
}

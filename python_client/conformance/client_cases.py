"""Plays cases against a client: a server follows a script and checks every message."""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import zmq
from cases import CASES, Failed, Frames, envelope, frames_of, parsed
from google.protobuf import json_format


class MisbehavingServer:
    """A misbehaving server, which knows all replies to one client program beforehand."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:*") -> None:
        program = json.loads((CASES / "program.json").read_text())
        self._hello, self._program = program["hello"], program["requests"]
        self._over: set[bytes] = set()
        self._bind(endpoint)
        self.endpoint = self._socket.get_string(zmq.LAST_ENDPOINT)

    def _bind(self, endpoint: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        deadline = time.monotonic() + 5
        while True:
            try:
                self._socket.bind(endpoint)
                return
            except zmq.ZMQError as error:
                # libzmq ends the previous socket in its own thread.
                if error.errno != zmq.EADDRINUSE or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close(linger=0)

    def play(self, case: dict[str, Any], has_ended: Callable[[], bool]) -> None:
        """Plays a case until the client ends. Raises Failed if the client violates the contract."""
        self._case, self._session, self._done = case, b"", 0
        self._epoch, self._holder = 1, b""
        self._is_closed, self._quiet_since = False, float("inf")
        # The request in progress, and the answered requests, each with its reply.
        self._pending: Frames | None = None
        self._answered: dict[Frames, dict[str, Any]] = {}
        # The refused request, its reply, the earliest time of a repeat, and the number of repeats.
        self._refused: Frames = ()
        self._refusal: dict[str, Any] = {}
        self._not_before, self._needless = 0.0, 0
        self._is_lost = False
        self._held: list[tuple[list[bytes], int, dict[str, Any]]] = []
        self._tries: Counter[int] = Counter()
        try:
            is_over = False
            while self._socket.poll(20) or not is_over:
                # Polls once more after the end, because a message from the client may still be in
                # transit.
                is_over = has_ended()
                while self._socket.poll(0):
                    self._quiet_since = time.monotonic()
                    self._take(*frames_of(self._socket.recv_multipart()))
        finally:
            self._over.add(self._session)
        ends, is_all = case["ends"], self._done == len(self._program)
        if (ends == "complete" and not is_all) or (ends == "closed" and not self._is_closed):
            raise Failed(f"the client ended after request {self._done}, before the last one")

    def is_left(self, patience: float) -> bool:
        """Returns True if the client has closed its session or been silent for `patience` s."""
        return self._is_closed or time.monotonic() - self._quiet_since > patience

    def _take(self, route: list[bytes], frames: Frames) -> None:
        """Handles a message as the script specifies."""
        request = parsed(envelope.Request, frames)
        slot, seq = request.WhichOneof("op") or "no request", request.seq
        what = f"request {seq} ({slot})"
        if slot == "hello":
            return self._send(route, seq, {"reply": self._hello})
        if request.session in self._over:
            return None
        if frames in self._answered:
            # A delayed duplicate. Like a real server, this one keeps only the last reply.
            return self._send(route, seq, self._answered[frames]) if seq == self._done else None
        if frames == self._refused and time.monotonic() < self._not_before:
            # A few copies may already have been in transit when the first one was refused.
            self._needless += 1
            if self._needless > 3:
                raise Failed(f"{what} was repeated too early, or after {self._refusal['reply']}")
            return self._send(route, seq, self._refusal)
        if slot == "resume" and self._refusal and not self._is_shut_out:
            return self._resume(route, request)
        if request.epoch < self._epoch:
            # A copy of a request that the client's resume has invalidated.
            return self._send(route, seq, {"reply": {"error": {"code": "ERROR_CODE_STALE_EPOCH"}}})
        if self._is_lost:
            if slot not in ("close", "create"):
                raise Failed(f"{what} came after {self._refusal['reply']}")
            self._is_closed = slot == "close"
            return self._send(route, seq, self._refusal)
        self._session = self._session or request.session
        if len(request.session) != 16 or request.session != self._session:
            raise Failed(f"{what} does not belong to the created session")
        if request.epoch != self._epoch:
            raise Failed(f"{what} has epoch {request.epoch} instead of {self._epoch}")
        if seq != self._done + 1 or self._is_closed:
            raise Failed(f"{what} came after {self._done} requests were answered")
        self._look(what, slot, request, frames)
        return self._act(route, seq, slot)

    def _resume(self, route: list[bytes], request: Any) -> None:
        """Answers a resume. A new holder gets a new epoch, so older requests become invalid."""
        holder = request.resume.holder
        if len(holder) != 16 or request.session != self._session or request.seq != 0:
            raise Failed("a resume must have the created session, a 16-byte holder and no seq")
        if holder != self._holder:
            if request.epoch not in (0, self._epoch):
                raise Failed(f"a resume has epoch {request.epoch} instead of {self._epoch}")
            self._holder, self._epoch = holder, self._epoch + 1
        self._pending, self._refused, self._is_lost = None, (), False
        self._answered.clear()
        own = self._program[self._done - 1]
        last = json_format.ParseDict(own["reply"], envelope.Reply(seq=self._done))
        resume = envelope.Reply()
        resume.resume.epoch, resume.resume.last_seq = self._epoch, self._done
        resume.resume.last_reply = last.SerializeToString()
        self._send(route, 0, own | {"reply": json_format.MessageToDict(resume)})

    @property
    def _is_shut_out(self) -> bool:
        lost = ("ERROR_CODE_STALE_EPOCH", "ERROR_CODE_NOT_FOUND", "ERROR_CODE_INTERNAL")
        return self._refusal["reply"]["error"]["code"] in lost

    def _look(self, what: str, slot: str, request: Any, frames: Frames) -> None:
        """Raises Failed unless the request is the next one, or exactly repeats the current one."""
        if frames != (self._pending or frames):
            raise Failed(f"{what} differs in its bytes from the request that is still unanswered")
        step = self._program[request.seq - 1]
        payload = () if step["payload"] is None else (bytes.fromhex(step["payload"]),)
        # After an error, a client may close its session and end.
        if slot not in step["request"] and (slot != "close" or self._case["ends"] == "complete"):
            raise Failed(f"{what} is not the program's request, {step['request']}")
        if slot in step["request"] and frames[1:] != payload:
            raise Failed(f"{what} does not have the program's payload, {step['payload']}")
        self._pending = frames

    def _act(self, route: list[bytes], seq: int, slot: str) -> None:
        """Follows the script for this attempt of a request. By default, answers it."""
        script = self._case["faults"].get(str(seq), [])[self._tries[seq] :]
        self._tries[seq] += 1
        own = self._program[-1 if slot == "close" else seq - 1]
        for action in (script or [["answer"]])[0]:
            if action == "answer":
                if self._pending is not None:
                    self._answered[self._pending], self._pending = own, None
                self._done, self._is_closed = seq, slot == "close"
                self._send(route, seq, own)
            elif action == "hold":
                self._held.append((route, seq, own))
            elif action == "release":
                while self._held:
                    self._send(*self._held.pop())
            elif action in ("older", "newer"):
                other = seq + (1 if action == "newer" else -1)
                self._send(route, other, self._program[other - 1])
            elif action == "wrong slot":
                self._send(route, seq, own | {"reply": {"keepalive": {}}})
            elif action == "short payload":
                self._send(route, seq, own | {"reply_payload": own["reply_payload"][:2]})
            elif action == "garbage":
                self._socket.send_multipart([*route, b"\xff" * 8])
            elif action == "disconnect":
                self.close()
                self._bind(self.endpoint)
            elif "error" in action:
                self._refused, self._refusal = self._pending or (), {"reply": action}
                self._send(route, seq, self._refusal)
                if delay := action["error"].get("retry_after_ms"):
                    self._not_before = time.monotonic() + delay / 1000
                else:
                    self._not_before, self._pending = float("inf"), None
                    self._is_lost = self._case["ends"] == "ended"
            elif action != "nothing":
                raise ValueError(f"unknown action: {action!r}")

    def _send(self, route: list[bytes], seq: int, answer: dict[str, Any]) -> None:
        reply = json_format.ParseDict(answer["reply"], envelope.Reply(seq=seq))
        payload = answer.get("reply_payload")
        frames = [] if payload is None else [bytes.fromhex(payload)]
        self._socket.send_multipart([*route, reply.SerializeToString(), *frames])

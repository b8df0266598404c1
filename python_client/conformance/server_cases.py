"""Plays cases against a server: requests over several connections, and the expected replies."""

import base64
import json
import os
from typing import Any

import zmq
from cases import Failed, Frames, Undecided, envelope, frames_of, parsed
from google.protobuf import json_format

# The number of attempts at a case that needs a request to be in progress for a while.
ATTEMPTS = 10
# If the reply to this request arrives first, no other reply was sent, because replies over a
# connection keep their order.
MARKER = envelope.Request(seq=2**64 - 2, hello={"protocol_version": 1}).SerializeToString()
BOARDS = {"environment_id": "twofold/Game2048-v0", "num_envs": 2}
BEGIN: tuple[tuple[str, dict[str, Any], str | None], ...] = (
    ("create", {"seq": 1, "create": BOARDS}, None),
    ("reset", {"seq": 2, "reset": {"seeds": True}}, f"{0:016x}01{0:014x}"),
)


class ServerPlayer:
    """A player of cases against a server. It waits up to `patience` seconds for each reply."""

    def __init__(self, endpoint: str, patience: float = 10) -> None:
        self._endpoint, self._patience = endpoint, patience
        self._connections: dict[str, zmq.Socket[bytes]] = {}

    def play(self, case: dict[str, Any]) -> None:
        """Plays a case. Raises Failed or Undecided."""
        for attempt in range(ATTEMPTS):
            self._drawn: dict[str, bytes] = {}
            self._sent: dict[str, Frames] = {}
            self._replies: dict[str, Frames] = {}
            try:
                for session in case.get("begin", []):
                    for slot, request, payload in BEGIN:
                        request = {"session": session, "epoch": 1, **request}
                        send = {"request": request, "payload": payload}
                        self._play({"send": send, "expect": {"result": slot}})
                for step in case["steps"]:
                    self._play(step)
                return self._end_sessions()
            except Undecided:
                if attempt == ATTEMPTS - 1:
                    raise
                self._disconnect()  # Replies may be waiting on the connections.
                self._end_sessions()
            finally:
                self._disconnect()
        return None

    def _disconnect(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            connection.close(linger=0)
        self._connections.clear()

    def _end_sessions(self) -> None:
        """Closes the sessions that the case left open. Resumes each first, to get its next seq."""
        for session in self._drawn.values():
            resume = envelope.Request(session=session, resume={"holder": os.urandom(16)})
            resumed = self._exchange(resume).resume
            if resumed.epoch:
                seq = resumed.last_seq + 1
                self._exchange(
                    envelope.Request(session=session, epoch=resumed.epoch, seq=seq, close={})
                )

    def _exchange(self, request: Any) -> Any:
        self._socket("a").send_multipart([b"", request.SerializeToString()])
        return parsed(envelope.Reply, self._receive("a", []))

    def _play(self, step: dict[str, Any]) -> None:
        on, name, seq = step.get("on", "a"), step.get("name", ""), None
        if "send" in step:
            frames = self._frames(step["send"])
            if "frames" not in step["send"]:
                self._sent[name] = frames[1:]
                seq = envelope.Request.FromString(frames[1]).seq
            self._socket(on).send_multipart(frames)
        if step.get("silent"):
            self._socket(on).send_multipart([b"", MARKER])
            if parsed(envelope.Reply, self._receive(on, [])).seq != 2**64 - 2:
                raise Failed(f"{json.dumps(step)}: the server must not reply")
        if "expect" in step:
            frames = self._receive(on, step.get("route", []))
            try:
                self._check(frames, {"seq": seq} | step["expect"])
            except Failed as failure:
                if step.get("still"):
                    raise Undecided("the request in progress ended too early") from None
                shown = str(parsed(envelope.Reply, frames)).replace("\n", " ")[:300]
                text = f"{json.dumps(step)}: {failure}. The reply is {shown}"
                raise Failed(text) from None
            self._replies[name] = frames

    def _frames(self, send: dict[str, Any]) -> Frames:
        """Returns a step's message."""
        if "frames" in send:
            return tuple(bytes.fromhex(frame) for frame in send["frames"])
        if "repeat" in send:
            return (b"", *self._sent[send["repeat"]])
        request = json_format.ParseDict(self._filled(send["request"]), envelope.Request())
        header = request.SerializeToString() + bytes.fromhex(send.get("append", ""))
        payload = send.get("payload")
        return (b"", header) if payload is None else (b"", header, bytes.fromhex(payload))

    def _filled(self, value: Any) -> Any:
        """Replaces each "$name" in a request with 16 random bytes. Equal names get equal bytes."""
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, str) and value.startswith("$"):
            return base64.b64encode(self._drawn.setdefault(value, os.urandom(16))).decode()
        return value

    def _check(self, frames: Frames, wanted: dict[str, Any]) -> None:
        """Raises Failed unless the reply is as expected."""
        of = {
            key: self._replies[name] for key, name in wanted.items() if key.endswith(("_of", "_as"))
        }
        if "same_bytes_as" in of:
            if frames != of["same_bytes_as"]:
                raise Failed(f"it must repeat {wanted['same_bytes_as']!r} byte for byte")
            return
        reply = parsed(envelope.Reply, frames)
        slot, error = reply.WhichOneof("result"), reply.error
        seen: dict[str, Any] = {"seq": reply.seq, "result": slot}
        if slot == "error":
            names = {number: name for name, number in envelope.ErrorCode.items()}
            code = str(names.get(error.code, error.code)).removeprefix("ERROR_CODE_")
            seen |= {"error": code, "field": error.field}
            if error.HasField("expected_seq"):
                seen["expected_seq"] = error.expected_seq
        for key in ("seq", "result", "error", "field", "expected_seq"):
            if wanted.get(key, seen.get(key)) not in (seen.get(key), None):
                raise Failed(f"{key} must be {wanted[key]!r}, not {seen.get(key)!r}")
        if slot == "error" and len(frames) > 1:
            raise Failed("an error must not have a payload")
        merged = parsed(envelope.Reply, frames)
        merged.MergeFrom(json_format.ParseDict(wanted.get("has", {}), envelope.Reply()))
        if merged != reply:
            raise Failed(f"it must have {wanted['has']}")
        if "payload_of" in of and frames[1:] != of["payload_of"][1:]:
            raise Failed(f"its payload must be the payload of {wanted['payload_of']!r}")
        if "last_reply_of" in of and reply.resume.last_reply != of["last_reply_of"][0]:
            raise Failed(f"its last_reply must be the header of {wanted['last_reply_of']!r}")

    def _socket(self, on: str) -> zmq.Socket[bytes]:
        """Returns connection `on`, a DEALER socket, which can send without waiting for replies."""
        if on not in self._connections:
            self._connections[on] = zmq.Context.instance().socket(zmq.DEALER)
            self._connections[on].connect(self._endpoint)
        return self._connections[on]

    def _receive(self, on: str, route: list[str]) -> Frames:
        socket = self._socket(on)
        if not socket.poll(int(self._patience * 1000)):
            raise Failed(f"no reply arrived over connection {on} within {self._patience:g} s")
        found, frames = frames_of(socket.recv_multipart())
        if found != [*map(bytes.fromhex, route), b""]:
            raise Failed("the frames before the delimiter differ from the request's")
        return frames

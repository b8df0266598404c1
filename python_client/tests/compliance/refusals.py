"""Requests that a service must refuse, each with the expected error.

The test cases send these requests in a session of three boards, after create and reset.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from compliance.sessions import Session, numbers
from twofold.v1 import envelope_pb2 as envelope

INVALID_ARGUMENT = envelope.ERROR_CODE_INVALID_ARGUMENT
NOT_FOUND = envelope.ERROR_CODE_NOT_FOUND
FAILED_PRECONDITION = envelope.ERROR_CODE_FAILED_PRECONDITION
OUT_OF_SEQUENCE = envelope.ERROR_CODE_OUT_OF_SEQUENCE
CONFLICT = envelope.ERROR_CODE_CONFLICT
STALE_EPOCH = envelope.ERROR_CODE_STALE_EPOCH
RESOURCE_EXHAUSTED = envelope.ERROR_CODE_RESOURCE_EXHAUSTED
UNSUPPORTED_VERSION = envelope.ERROR_CODE_UNSUPPORTED_VERSION

Message = tuple[bytes, bytes | None]


class Refusal(NamedTuple):
    """A request that a service must refuse, and the expected error."""

    name: str
    field: str
    make: Callable[[Session], Message]
    code: int = INVALID_ARGUMENT
    lane: int | None = None
    is_readable: bool = True
    """Whether the request's seq can be read; otherwise the reply's seq is 0."""


def bad(
    name: str,
    field: str,
    payload: bytes | None = None,
    *,
    code: int = INVALID_ARGUMENT,
    lane: int | None = None,
    **fields: Any,
) -> Refusal:
    """Returns a `Refusal` for a request with these fields in the test case's session."""
    return Refusal(name, field, lambda s: (s.request(**fields), payload), code, lane)


def bad_create(name: str, field: str, code: int = INVALID_ARGUMENT, **fields: Any) -> Refusal:
    """Returns a `Refusal` for a create request that has a new session id and these fields."""

    def make(session: Session) -> Message:
        create = {"environment_id": "twofold/Game2048-v0", "num_envs": 3} | fields
        return session.request(session=other_id(session), seq=1, epoch=1, create=create), None

    return Refusal(name, field, make, code)


def bad_seq(name: str, seq: Callable[[int], int]) -> Refusal:
    """Returns a `Refusal` for a step with a wrong seq, which `seq` computes from the last seq."""

    def make(session: Session) -> Message:
        return session.request(seq=seq(session.seq) % 2**64, step={}), bytes(3)

    return Refusal(name, "seq", make, OUT_OF_SEQUENCE)


def bad_header(name: str, field: str, damage: Callable[[bytes], bytes]) -> Refusal:
    """Returns a `Refusal` for a step whose encoded header has been changed by `damage`."""
    return Refusal(name, field, lambda s: (damage(s.request(step={})), bytes(3)), is_readable=False)


def other_id(session: Session) -> bytes:
    """Returns the id of a session that does not exist."""
    return bytes(byte ^ 0xFF for byte in session.id)


def _used_seq(session: Session) -> Message:
    return session.request(seq=session.seq, step={}), bytes([3, 3, 3])


def _step_of_an_unknown_session(session: Session) -> Message:
    return session.request(session=other_id(session), step={}), bytes(3)


def _invalid_text(session: Session) -> Message:
    request = session.request(create={"environment_id": "no text"}).replace(b"no text", b"\xff" * 7)
    return request, None


_SEEDS = {"seeds": True}
_EVERYTHING = {"seeds": True, "mask": True, "boards": True}
# Lane 1's board is empty, so nothing can move.
_STUCK = bytes([*range(16), *bytes(32)])
# Field 103, empty.
_LATER_OP = b"\xba\x06\x00"

REFUSALS = [
    # Requests that cannot be read.
    bad_header("random bytes", "request", lambda _: b"\xff\x00\x80\x13\x37"),
    bad_header("a header that is cut short", "request", lambda header: header[:-1]),
    bad_header("an empty header", "op", lambda _: b""),
    bad_header("a header of 256 KiB", "request", lambda header: header + bytes(1 << 18)),
    Refusal("invalid UTF-8", "request", _invalid_text, is_readable=False),
    bad("no op", "op"),
    Refusal("an op of a later version", "op", lambda s: (s.request() + _LATER_OP, None)),
    # Sessions, epochs and seqs.
    bad("no session id", "session", bytes(3), session=b"", step={}),
    bad("a session id of 15 bytes", "session", bytes(3), session=bytes(15), step={}),
    bad("a create with an id of 17 bytes", "session", session=bytes(17), create={}),
    Refusal("an unknown session", "session", _step_of_an_unknown_session, NOT_FOUND),
    bad("an older epoch", "epoch", bytes(3), code=STALE_EPOCH, epoch=0, step={}),
    bad("an epoch to come", "session", bytes(3), code=NOT_FOUND, epoch=2, step={}),
    bad_seq("the seq after the next", lambda last: last + 2),
    bad_seq("the seq before the last", lambda last: last - 1),
    bad_seq("seq 0", lambda _: 0),
    bad_seq("the largest seq", lambda _: -1),
    Refusal("a used seq for another request", "seq", _used_seq, CONFLICT),
    bad("a create of a session that is there", "session", code=CONFLICT, create={}),
    # Invalid creates.
    bad_create("an unknown environment", "environment_id", NOT_FOUND, environment_id="twofold/Go"),
    bad_create("a config of another game", "config", concentration={}),
    bad_create("no boards", "num_envs", num_envs=0),
    bad_create("too many boards", "num_envs", RESOURCE_EXHAUSTED, num_envs=2**64 - 1),
    bad_create("9 rows", "size", game2048={"rows": 9}),
    bad_create("1 column", "size", game2048={"columns": 1}),
    bad_create("a goal of 1000", "goal", game2048={"goal": 1000}),
    bad_create("a goal of 2", "goal", game2048={"goal": 2}),
    bad_create("a chance above 1", "four_probability", game2048={"four_probability": 1.5}),
    bad_create("a chance of NaN", "four_probability", game2048={"four_probability": math.nan}),
    bad_create("a tile on each cell", "start_tiles", game2048={"start_tiles": 16}),
    bad_create("no start tiles", "start_tiles", game2048={"start_tiles": 0}),
    bad_create("a mode of a later version", "illegal_action", game2048={"illegal_action": 99}),
    bad_create("episodes of no steps", "max_episode_steps", max_episode_steps=0),
    bad_create("another mode of a later version", "autoreset_mode", autoreset_mode=99),
    bad_create("an unknown reward term", "reward.luck", reward={"terms": [{"name": "luck"}]}),
    bad_create("an unknown info", "extra_infos", extra_infos=["luck"]),
    # Invalid steps and resets.
    bad("a step without actions", "actions", step={}),
    bad("too few actions", "actions", bytes(2), step={}),
    bad("too many actions", "actions", bytes(4), step={}),
    bad("actions of 8 bytes each", "actions", bytes(24), step={}),
    bad("action 7", "actions", bytes([0, 3, 7]), lane=2, step={}),
    bad("a reset without its seeds", "payload", reset=_SEEDS),
    bad("a seed too few", "payload", numbers(0, 1), reset=_SEEDS),
    bad("a reset that is cut short", "payload", bytes(3 * 25 - 1), reset=_EVERYTHING),
    bad("a reset that is too long", "payload", bytes(3 * 25 + 1), reset=_EVERYTHING),
    bad("a mask of 3", "reset_mask", bytes([0, 2, 3]), lane=2, reset={"mask": True}),
    bad("a board without a move", "boards", _STUCK, lane=1, reset={"boards": True}),
    bad("an observe with a payload", "payload", b"x", observe={}),
    bad("a close with a payload", "payload", b"x", close={}),
    # Snapshots and rollouts.
    bad("a snapshot of no lane", "lanes", b"", snapshot={}),
    bad("a snapshot of lane 3 of 3", "lanes", numbers(0, 3), snapshot={}),
    bad("a snapshot of one lane twice", "lanes", numbers(1, 1), lane=1, snapshot={}),
    bad("a restore without a snapshot", "blob", restore={"count": 3}),
    bad("a restore of anything", "blob", bytes(100), restore={"count": 3}),
    bad("a restore of four lanes", "lanes", bytes(100), restore={"count": 4}),
    bad("a rollout of no steps", "steps", rollout={"steps": 0, "random": {}}),
    bad("a rollout without a policy", "policy", rollout={"steps": 1}),
    bad("weights before their network", "policy", bytes(4), code=FAILED_PRECONDITION,
        policy={"weights": {}}),
    # Requests without a session.
    bad("a later protocol", "protocol_version", code=UNSUPPORTED_VERSION,
        hello={"protocol_version": 2}),
    bad("a hello with a payload", "payload", b"x", hello={"protocol_version": 1}),
    bad("rules of an unknown game", "environment_id", bytes(16), code=NOT_FOUND,
        expand={"environment_id": "twofold/Go", "count": 1, "operation": 3}),
    bad("rules of no boards", "count", b"", expand={"environment_id": "twofold/Game2048-v0"}),
]  # fmt: skip

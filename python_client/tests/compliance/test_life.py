"""A session's life cycle: create, reset, step and observe, snapshot and restore, close."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compliance.carriers import Ability, Carrier
from compliance.refusals import CONFLICT, INVALID_ARGUMENT, NOT_FOUND
from compliance.sessions import Session, arrays, numbers
from twofold.v1 import environment_pb2 as environment


def test_create_describes_all_spaces_and_arrays(new_session: Callable[[], Session]) -> None:
    answer = new_session().create()
    created = answer.reply.create
    assert answer.reply.seq == 1
    assert answer.payload is None
    assert created.epoch == 1
    assert list(created.observation_space.box.shape) == [4, 4]
    assert created.action_space.discrete.n == 4
    assert list(created.reward_terms) == ["merge_score"]
    for layout in (created.reset, created.step, created.afterstates):
        ends = [0]
        for array in layout.arrays:
            assert array.shape[0] == 3
            assert array.offset % 64 == 0
            assert array.offset >= ends[-1]
            ends.append(array.offset)
        assert layout.size > ends[-1]
    names = {array.name for array in created.step.arrays}
    assert {"observation", "reward", "terminated", "truncated", "action_mask"} <= names


def test_each_reply_has_its_requests_seq_and_slot_and_the_payload_that_was_announced(
    new_session: Callable[[], Session],
) -> None:
    session = new_session()
    created = session.create().reply.create
    for seq, (slot, payload, size) in enumerate(
        [
            ("reset", numbers(4, 5, 6), created.reset.size),
            ("step", bytes([0, 1, 2]), created.step.size),
            ("observe", None, created.reset.size),
            ("afterstates", None, created.afterstates.size),
            ("keepalive", None, 0),
            ("step", bytes([3, 3, 3]), created.step.size),
        ],
        start=2,
    ):
        answer = session.ask(payload, **{slot: {"seeds": True} if slot == "reset" else {}})
        assert (answer.slot, answer.reply.seq) == (slot, seq)
        assert len(answer.payload or b"") == size


def test_read_only_requests_change_nothing(session: Session, twin: Session) -> None:
    for turn in range(8):
        stepped = session.step(turn % 4, 1, 2)
        assert stepped[1] == twin.step(turn % 4, 1, 2)[1]
        seen = session.ask(observe={})
        for slot in ("afterstates", "keepalive", "snapshot"):
            session.ask(None, **{slot: {}})
        assert session.ask(observe={})[1] == seen[1]
    assert session.seq == twin.seq + 8 * 5


def test_observe_returns_the_last_steps_observation(new_session: Callable[[], Session]) -> None:
    session = new_session()
    created = session.create().reply.create
    session.reset()
    stepped = arrays(created.step, session.step(0, 1, 2).payload)
    for name, array in arrays(created.reset, session.ask(observe={}).payload).items():
        np.testing.assert_array_equal(array, stepped[name])
    assert stepped["episode_length"].tolist() == [1, 1, 1]


def test_a_trajectory_follows_from_its_seeds_and_actions(session: Session, twin: Session) -> None:
    resets = [each.reset(7, 2**64 - 1, 0) for each in (session, twin)]
    assert resets[0] == resets[1]
    for turn in range(30):
        actions = [(turn + lane) % 4 for lane in range(3)]
        assert session.step(*actions) == twin.step(*actions)
    assert twin.reset(8, 2**64 - 1, 0)[1] != resets[0][1]


def test_a_reset_without_seeds_continues_the_streams(session: Session, twin: Session) -> None:
    first = session.ask(observe={})
    resets = [each.ask(reset={}) for each in (session, twin)]
    assert resets[0][1] == resets[1][1]
    assert resets[0][1] != first[1]


def test_sessions_over_one_connection_have_separate_sequences(carrier: Carrier) -> None:
    connection = carrier.connect()
    sessions = [Session(connection) for _ in range(3)]
    assert [each.create().reply.seq for each in sessions] == [1, 1, 1]
    assert len({each.reset()[1] for each in sessions}) == 1
    sessions[0].step(0, 0, 0)
    assert [each.ask(close={}).reply.seq for each in sessions] == [4, 3, 3]
    connection.close()


# ---- snapshots -----------------------------------------------------------------------------------


def test_restored_boards_continue_as_the_originals(session: Session, twin: Session) -> None:
    for each in (session, twin):
        each.step(0, 1, 2)
    blob = session.ask(snapshot={}).payload
    assert blob is not None
    for _ in range(5):
        session.step(1, 2, 3)
    session.ask(blob, restore={"count": 3})
    for turn in range(20):
        actions = [turn % 4, 1, 2]
        assert session.step(*actions)[1] == twin.step(*actions)[1]


def test_a_restore_may_replace_the_first_reset(
    session: Session, new_session: Callable[[], Session]
) -> None:
    blob = session.ask(snapshot={}).payload
    assert blob is not None
    another = new_session()
    another.create()
    assert another.ask(blob, restore={"count": 3})[1] == session.ask(observe={})[1]
    assert another.step(0, 1, 2)[1] == session.step(0, 1, 2)[1]


@pytest.mark.parametrize("brings_seeds", [False, True])
def test_copies_of_a_board_differ_only_if_they_get_different_seeds(
    session: Session, new_session: Callable[[], Session], brings_seeds: bool
) -> None:
    blob = session.ask(numbers(2, 0), snapshot={}).payload
    assert blob is not None
    fork = new_session()
    created = fork.create(num_envs=4).reply.create
    rows, seeds = numbers(0, 0, 0, 1), numbers(*range(10, 14)) if brings_seeds else b""
    restore = {"count": 4, "rows": True, "seeds": brings_seeds}
    copies = arrays(created.reset, fork.ask(rows + seeds + blob, restore=restore).payload)
    boards = copies["observation"]
    assert (boards[:3] == boards[0]).all()
    assert (boards[0] != boards[3]).any()
    for turn in range(10):
        payload = fork.step(*[turn % 4] * 4).payload
    played = arrays(created.step, payload)["observation"]
    assert (played[:3] == played[0]).all() == (not brings_seeds)


# ---- close ---------------------------------------------------------------------------------------


def test_a_closed_session_leaves_a_tombstone_that_answers_its_close_and_nothing_else(
    session: Session, carrier: Carrier
) -> None:
    last = session.request(close={})
    closed = session.call(last)
    assert (closed.slot, closed.reply.seq, closed.payload) == ("close", 3, None)
    for connection in (carrier.connect(), session.connection):
        for _ in range(2):
            assert connection.exchange(last) == closed
    assert session.ask(bytes(3), seq=3, step={}).error.code == CONFLICT
    for seq in (0, 1, 2, 4, 5):
        for slot in ("step", "reset", "observe", "snapshot", "keepalive", "close"):
            error = session.ask(None, seq=seq, **{slot: {}}).error
            assert (error.code, error.field) == (NOT_FOUND, "session")
    assert session.ask(seq=1, create={"num_envs": 3}).error.code == NOT_FOUND
    if Ability.RESUME in carrier.abilities:
        resume = session.request(epoch=0, seq=0, resume={"holder": bytes(16)})
        assert session.call(resume).error.code == NOT_FOUND


def test_with_same_step_autoreset_a_payload_has_the_finals_that_its_header_announces(
    new_session: Callable[[], Session],
) -> None:
    session = new_session()
    same_step = environment.AUTORESET_MODE_SAME_STEP
    created = session.create(autoreset_mode=same_step, max_episode_steps=2).reply.create
    session.reset()
    quiet, loud = session.step(0, 1, 2), session.step(0, 1, 2)
    assert not quiet.reply.step.HasField("finals")
    assert len(quiet.payload or b"") == created.step.size
    finals = loud.reply.step.finals
    assert len(loud.payload or b"") == finals.size == created.finals.size
    assert arrays(finals, loud.payload)["lanes"].tolist() == [0, 1, 2]


def test_the_return_of_an_episode_is_the_sum_of_its_rewards_and_is_in_snapshots(
    new_session: Callable[[], Session],
) -> None:
    fields: dict[str, Any] = {"extra_infos": ["episode_return"], "max_episode_steps": 6}
    session, copy, plain = new_session(), new_session(), new_session()
    layout = session.create(**fields).reply.create.step
    copy.create(**fields)
    session.reset()
    sums = np.zeros(3)
    for step in range(20):
        if step == 10:
            blob = session.ask(snapshot={}).payload
            assert blob is not None
            assert copy.ask(blob, restore={"count": 3}).slot == "restore"
        answer = session.step(0, 1, 2)
        stepped = arrays(layout, answer.payload)
        sums = np.where(stepped["episode_length"] == 0, 0, sums + stepped["reward"])
        assert stepped["episode_return"].tolist() == sums.tolist()
        if step >= 10:
            assert copy.step(0, 1, 2).payload == answer.payload
    # A session with returns refuses a snapshot without them.
    plain.create()
    plain.reset()
    old = plain.ask(snapshot={}).payload
    refused = session.ask(old, restore={"count": 3})
    assert refused.error.code == INVALID_ARGUMENT
    assert refused.error.field == "extra_infos"

"""Tests that the rules for arrays of boards agree with the reference in every request."""

import itertools
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from reference import Game, Xoshiro128PlusPlus
from servers import PATIENCE, Server

import twofold
from twofold import errors, rules
from twofold.client import stateless
from twofold.client.carrier import NO_PAYLOAD
from twofold.client.surroundings import SYSTEM, Surroundings, surroundings
from twofold.v1 import envelope_pb2 as envelope

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("fixed")

SIDES = st.integers(2, 8)
PAIR = np.array([[[1, 2], [0, 3]], [[0, 0], [1, 1]]])


@st.composite
def boards(draw: st.DrawFn, lead: Any = None, low: int = 0) -> Any:
    """Draws boards of any shape and content. On some, tiles are of few kinds and merge often."""
    shape = draw(npst.array_shapes(min_dims=0, max_dims=2, max_side=3)) if lead is None else lead
    shape = (*shape, draw(SIDES), draw(SIDES)) if draw(st.booleans()) else (*shape, 4, 4)
    dtype: Any = draw(st.sampled_from([np.uint8, np.int8, np.int64, np.dtype(">u2")]))
    high = draw(st.sampled_from([1, 2, 3, 26]))
    return draw(npst.arrays(dtype, shape, elements=st.integers(low, high)))


def reference(board: Any) -> Game:
    """Returns a game of the plain Python reference, set to this position."""
    game = Game(0, *board.shape)
    game.board = tuple(int(exponent) for exponent in board.ravel())
    return game


def every(array: Any) -> list[tuple[int, ...]]:
    """Returns the indices of all boards in an array."""
    return list(np.ndindex(array.shape[:-2]))


@given(boards())
def test_afterstates_match_the_reference(given_boards: Any) -> None:
    told = rules.afterstates(given_boards)
    lead, board_shape = given_boards.shape[:-2], given_boards.shape[-2:]
    assert told.boards.shape == (*lead, 4, *board_shape)
    assert told.boards.dtype == np.uint8
    assert told.rewards.shape == told.mask.shape == (*lead, 4)
    assert told.rewards.dtype == np.float32
    assert told.mask.dtype == np.int8
    for at in every(given_boards):
        game = reference(given_boards[at])
        for action in range(4):
            expected, reward = game.afterstate(action)
            assert tuple(told.boards[at][action].ravel()) == expected
            assert told.rewards[at][action] == np.float32(reward)
            assert told.mask[at][action] == (expected != game.board)


@pytest.mark.parametrize(("shape", "reward"), [((4, 4), 2**30), ((4, 8), 2**31), ((8, 8), 2**32)])
def test_full_boards_of_the_largest_tiles_earn_the_sum_of_their_merges(
    shape: tuple[int, int], reward: int
) -> None:
    told = rules.afterstates(np.full(shape, rules.MAX_EXPONENT))
    assert told.rewards.tolist() == [reward] * 4


@pytest.mark.parametrize("rows", [2, 4])
def test_rewards_are_rounded_once_to_float32(rows: int) -> None:
    board = np.zeros((rows, 4), np.uint8)
    board[:2] = [[24, 24, 1, 1], [1, 1, 1, 1]]
    assert rules.move(board, 3).rewards == np.float32(2**25 + 12)
    board[0] = [26, 26, 1, 1]
    assert rules.move(board, 3).rewards == np.float32(2**27 + 12) == 2**27 + 16


@given(st.data())
def test_a_move_is_the_afterstate_of_its_action(data: st.DataObject) -> None:
    given_boards = data.draw(boards())
    actions = data.draw(npst.arrays(np.int64, given_boards.shape[:-2], elements=st.integers(0, 3)))
    moved = rules.move(given_boards, actions)
    everything = rules.afterstates(given_boards)
    for at in every(given_boards):
        np.testing.assert_array_equal(moved.boards[at], everything.boards[at][actions[at]])
        assert moved.rewards[at] == everything.rewards[at][actions[at]]
        assert moved.legal[at] == everything.mask[at][actions[at]]
    assert moved.legal.dtype == np.bool_
    np.testing.assert_array_equal(rules.legal(given_boards), everything.mask)


@given(boards(), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_chances_are_uniform_over_the_empty_cells_and_sum_to_one(
    given_boards: Any, four_probability: float
) -> None:
    chances = rules.chance(given_boards, four_probability=four_probability)
    cells = given_boards[..., 0, 0].size and np.prod(given_boards.shape[-2:])
    assert chances.shape == (*given_boards.shape[:-2], 2 * cells)
    for at in every(given_boards):
        empty = (given_boards[at] == 0).ravel()
        total = 1.0 if empty.any() else 0.0
        assert chances[at].sum() == pytest.approx(total, abs=1e-12)
        assert (chances[at][:cells][~empty] == 0).all()
        assert chances[at][cells:].sum() == pytest.approx(total * four_probability, abs=1e-9)
        assert len(set(chances[at][:cells][empty])) <= 1


@given(boards(lead=()))
def test_placing_an_outcome_adds_one_tile(board: Any) -> None:
    (outcomes,) = np.nonzero(rules.chance(board, four_probability=0.5))
    repeated = np.broadcast_to(board, (len(outcomes), *board.shape))
    placed = rules.place(repeated, outcomes)
    cells = board.size
    for outcome, after in zip(outcomes, placed, strict=True):
        expected = board.astype(np.uint8).ravel()
        expected[outcome % cells] = 2 if outcome >= cells else 1
        np.testing.assert_array_equal(after.ravel(), expected)
    np.testing.assert_array_equal(rules.place(board, -1), board)


@given(boards(), st.integers(0, 2**70), st.sampled_from([0.0, 0.1, 1.0]))
def test_a_spawn_follows_the_documented_recipe(
    given_boards: Any, seed: int, four_probability: float
) -> None:
    lead = given_boards.shape[:-2]
    seeds = (seed + np.arange(np.prod(lead, dtype=int)).astype(object)).reshape(lead)
    if lead:
        told = rules.spawn(given_boards, seed, four_probability=four_probability)
    else:
        told = rules.spawn(given_boards, seed % 2**64, four_probability=four_probability)
    for at in every(given_boards):
        board = given_boards[at].ravel().astype(np.uint8)
        empty = np.flatnonzero(board == 0)
        if len(empty) == 0:
            assert told.outcomes[at] == -1
        else:
            stream = Xoshiro128PlusPlus.seeded(int(seeds[at]) % 2**64)
            cell = empty[(stream.next_word() * len(empty)) >> 32]
            is_four = stream.next_word() < round(four_probability * 2**32)
            board[cell] = 2 if is_four else 1
            assert told.outcomes[at] == cell + is_four * board.size
        np.testing.assert_array_equal(told.boards[at].ravel(), board)
    np.testing.assert_array_equal(rules.place(given_boards, told.outcomes), told.boards)


def test_a_list_may_have_seeds_below_and_above_2_63() -> None:
    seeds = [1, 2**63, 2**64 - 1]
    empty = np.zeros((3, 4, 4), int)
    for one, other in zip(
        rules.spawn(empty, seeds), rules.spawn(empty, np.array(seeds, np.uint64)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_spawns_are_as_frequent_as_their_chances() -> None:
    board = np.zeros((3, 3), np.uint8)
    board[0] = board[1, 1] = 5
    count = 40_000
    told = rules.spawn(np.broadcast_to(board, (count, 3, 3)), 7, four_probability=0.25)
    expected = rules.chance(board, four_probability=0.25) * count
    seen = np.bincount(told.outcomes, minlength=18)
    assert (seen[expected == 0] == 0).all()
    possible = expected > 0
    chi_square = ((seen - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi_square < 26  # 9 degrees of freedom, exceeded by one seed in 500


@given(boards())
def test_symmetries_map_boards_actions_and_rewards_alike(given_boards: Any) -> None:
    told = rules.symmetries(given_boards)
    rows, columns = given_boards.shape[-2:]
    images = 8 if rows == columns else 4
    assert told.boards.shape == (*given_boards.shape[:-2], images, rows, columns)
    assert told.actions.shape == (images, 4)
    np.testing.assert_array_equal(told.boards[..., 0, :, :], given_boards)
    np.testing.assert_array_equal(told.actions[0], range(4))
    original, slid = rules.afterstates(given_boards), rules.afterstates(told.boards)
    slid_images = rules.symmetries(original.boards).boards
    for image, action in itertools.product(range(images), range(4)):
        of_image = told.actions[image, action]
        np.testing.assert_array_equal(
            slid.boards[..., image, of_image, :, :], slid_images[..., action, image, :, :]
        )
        np.testing.assert_array_equal(
            slid.rewards[..., image, of_image], original.rewards[..., action]
        )


@given(boards())
def test_all_images_have_one_canonical_board_and_it_is_one_of_them(given_boards: Any) -> None:
    images = rules.symmetries(given_boards).boards
    told = rules.canonical(given_boards)
    of_images = rules.canonical(images).boards
    for at in every(given_boards):
        np.testing.assert_array_equal(images[at][told.images[at]], told.boards[at])
        for image in of_images[at]:
            np.testing.assert_array_equal(image, told.boards[at])
        assert tuple(told.boards[at].ravel()) == min(tuple(i.ravel()) for i in images[at])


def test_the_images_of_a_board_are_all_different() -> None:
    for shape, images in (((4, 4), 8), ((2, 5), 4)):
        board = np.arange(np.prod(shape)).reshape(shape)
        told = rules.symmetries(board).boards
        assert len({image.tobytes() for image in told}) == images


@given(st.data())
def test_an_explanation_leads_to_the_next_board(data: st.DataObject) -> None:
    board = data.draw(boards(lead=()))
    action = data.draw(st.integers(0, 3))
    moved = rules.move(board, action)
    after = moved.boards
    if moved.legal:
        after = rules.spawn(after, data.draw(st.integers(0, 2**64 - 1))).boards
    told = rules.explain(board, action, after)
    assert bool(told) == bool(moved.legal)
    # The places and values of tiles, by number.
    cells = [cell for cell in range(board.size) if board.flat[cell]]
    where = dict(enumerate(cells, 1))
    value = {tile: 2 ** int(board.flat[cell]) for tile, cell in where.items()}
    earned = 0
    for happened in told:
        if isinstance(happened, rules.Slide):
            assert where[happened.tile] == happened.source != happened.target
            assert value[happened.tile] == happened.value
            where[happened.tile] = happened.target
        elif isinstance(happened, rules.Merge):
            for tile in (happened.tile, happened.other):
                assert where.pop(tile) == happened.target
                assert value.pop(tile) * 2 == happened.value
            where[happened.made], value[happened.made] = happened.target, happened.value
            earned += happened.value
        else:
            assert happened is told[-1]
            where[happened.tile], value[happened.tile] = happened.target, happened.value
    assert earned == moved.rewards
    final = np.zeros(board.size, np.int64)
    for tile, cell in where.items():
        assert final[cell] == 0, "two tiles in one cell"
        final[cell] = int(np.log2(value[tile]))
    np.testing.assert_array_equal(final, after.ravel())


def test_one_move_is_explained_tile_by_tile() -> None:
    board = [[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0]]
    after = [[2, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0], [0, 0, 0, 1]]
    expected = [
        rules.Slide(tile=2, source=2, target=0, value=2),
        rules.Merge(tile=1, other=2, made=4, target=0, value=4),
        rules.Slide(tile=3, source=10, target=8, value=8),
        rules.Spawn(tile=5, target=15, value=2),
    ]
    assert rules.explain(board, 3, after) == expected
    assert rules.explain([[board]], [[3]], [[after]]) == [[expected]]
    with pytest.raises(errors.InvalidArgument) as caught:
        rules.explain([board, board], [3, 3], [after, board])
    assert (caught.value.field, caught.value.lane) == ("next_board", 1)
    assert "follow" in str(caught.value)


def test_the_environments_games_are_explained_step_by_step(server: Server) -> None:
    envs = twofold.Game2048VectorEnv(8, endpoint=server.ipc)
    before, infos = envs.reset(seed=5)
    for _ in range(30):
        afterstates = envs.afterstates()
        for mine, theirs in zip(rules.afterstates(before), afterstates, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        actions = infos["action_mask"].argmax(axis=1)
        after, rewards, *_, infos = envs.step(actions)
        told = rules.explain(before, actions, after)
        merged = [sum(h.value for h in one if isinstance(h, rules.Merge)) for one in told]
        assert merged == rewards.tolist()
        before = after
    envs.close()


def test_large_arrays_are_split_into_several_requests() -> None:
    rng = np.random.default_rng(0)
    with Server("--max-boards-per-session", "1000", "--max-message-bytes", "8192") as small:
        many = rng.integers(0, 4, (7, 500, 4, 4))
        for limited, whole in zip(
            rules.afterstates(many, endpoint=small.tcp), rules.afterstates(many), strict=True
        ):
            np.testing.assert_array_equal(limited, whole)
        seeds = rng.integers(0, 2**63, (7, 500))
        np.testing.assert_array_equal(
            rules.spawn(many, seeds, endpoint=small.ipc).boards, rules.spawn(many, seeds).boards
        )
        after = rules.spawn(rules.move(many, np.ones((7, 500), int)).boards, 3).boards
        after = np.where(rules.legal(many)[..., 1, None, None] == 1, after, many)
        told = rules.explain(many, np.ones((7, 500), int), after, endpoint=small.tcp)
        assert told == rules.explain(many, np.ones((7, 500), int), after)
        after[6, 499, 0, 0] ^= 1
        after[6, 499, 3, 3] ^= 1
        with pytest.raises(errors.InvalidArgument) as caught:
            rules.explain(many, np.ones((7, 500), int), after, endpoint=small.tcp)
        assert (caught.value.field, caught.value.lane) == ("next_board", 3499)
        assert str(caught.value).startswith("board 3499: next_board does not follow")


@pytest.mark.parametrize("shape", [(0, 4, 4), (3, 0, 2, 5)])
def test_empty_arrays_of_boards_are_accepted(shape: tuple[int, ...]) -> None:
    empty = np.empty(shape, np.uint8)
    lead, board = shape[:-2], shape[-2:]
    assert rules.afterstates(empty).boards.shape == (*lead, 4, *board)
    assert rules.move(empty, np.empty(lead, int)).rewards.shape == lead
    assert rules.legal(empty).shape == (*lead, 4)
    assert rules.spawn(empty, 0).outcomes.shape == lead
    assert rules.canonical(empty).boards.shape == shape
    assert rules.chance(empty).shape == (*lead, 2 * board[0] * board[1])
    np.testing.assert_array_equal(rules.place(empty, np.empty(lead, int)), empty)
    assert np.shape(rules.explain(empty, np.empty(lead, int), empty)) in (lead, (0,))


BOARD = np.zeros((2, 4, 4), np.uint8)
RAGGED: Any = [[1, 2], [3]]


@pytest.mark.parametrize(
    ("call", "field", "lane"),
    [
        (lambda: rules.afterstates(BOARD.astype(float)), "boards", None),
        (lambda: rules.afterstates(BOARD.astype(bool)), "boards", None),
        (lambda: rules.afterstates([]), "boards", None),
        (lambda: rules.legal(3), "boards", None),
        (lambda: rules.legal([1, 2]), "boards", None),
        (lambda: rules.legal(RAGGED), "boards", None),
        (lambda: rules.legal(np.zeros((1, 4))), "boards", None),
        (lambda: rules.legal(np.zeros((4, 9), int)), "boards", None),
        (lambda: rules.legal(BOARD + np.array([[[0]], [[27]]])), "boards", 1),
        (lambda: rules.legal(BOARD - np.array([[[0]], [[1]]])), "boards", 1),
        (lambda: rules.legal(BOARD + np.array([[[0]], [[256]]])), "boards", 1),
        (lambda: rules.canonical(BOARD + 32), "boards", 0),
        (lambda: rules.symmetries("board"), "boards", None),
        (lambda: rules.move(BOARD, [0]), "actions", None),
        (lambda: rules.move(BOARD, [0, 4]), "actions", 1),
        (lambda: rules.move(BOARD, [-1, 0]), "actions", 0),
        (lambda: rules.move(BOARD, [0.0, 1.0]), "actions", None),
        (lambda: rules.move(BOARD, RAGGED), "actions", None),
        (lambda: rules.spawn(BOARD, [1]), "seeds", None),
        (lambda: rules.spawn(BOARD, [1, -1]), "seeds", 1),
        (lambda: rules.spawn(BOARD, -1), "seeds", None),
        (lambda: rules.spawn(BOARD, 0.5), "seeds", None),
        (lambda: rules.spawn(BOARD, RAGGED), "seeds", 0),
        (lambda: rules.spawn(BOARD, [[1, 2]]), "seeds", None),
        (lambda: rules.spawn(BOARD, np.array([1, 2], object)), "seeds", None),
        (lambda: rules.spawn(BOARD[0], 0.5), "seeds", None),
        (lambda: rules.spawn(BOARD + 32, 1), "afterstates", 0),
        (lambda: rules.spawn(BOARD, 1, four_probability=1.5), "four_probability", None),
        (lambda: rules.chance(BOARD, four_probability=float("nan")), "four_probability", None),
        (lambda: rules.chance(BOARD + 99), "afterstates", 0),
        (lambda: rules.place(BOARD, [0, 32]), "outcomes", 1),
        (lambda: rules.place(BOARD, [-2, 0]), "outcomes", 0),
        (lambda: rules.place(BOARD + 1, [-1, 16]), "outcomes", 1),
        (lambda: rules.place(BOARD, [0]), "outcomes", None),
        (lambda: rules.explain(BOARD[0], 0, BOARD), "next_board", None),
        (lambda: rules.explain(BOARD, [0, 9], BOARD), "action", 1),
        (lambda: rules.explain(BOARD, [0, 0], BOARD + 32), "next_board", 0),
        (lambda: rules.legal(BOARD, endpoint="nowhere"), "endpoint", None),
        (lambda: rules.legal(BOARD, endpoint=5), "endpoint", None),  # type: ignore[arg-type]
        (lambda: rules.legal(BOARD, timeout=0), "timeout", None),
    ],
)
def test_wrong_arguments_are_refused_by_field_and_row(
    call: Any, field: str, lane: int | None
) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        call()
    assert (caught.value.field, caught.value.lane) == (field, lane)


def test_the_arrays_are_fresh_and_writable() -> None:
    board = np.zeros((1, 4, 4), np.uint8)
    for array in (
        *rules.afterstates(board),
        *rules.spawn(board, 0),
        rules.place(board, [-1]),
        rules.canonical(board).boards,
        *rules.symmetries(board),
    ):
        assert array.flags.writeable
        assert not np.shares_memory(array, board)
        array[...] = 1
    assert rules.symmetries(board).actions[0].tolist() == [0, 1, 2, 3]


def test_every_carrier_returns_the_same(endpoint: str) -> None:
    rng = np.random.default_rng(1)
    some = rng.integers(0, 12, (300, 4, 4))
    actions, seeds = rng.integers(0, 4, 300), np.arange(300, dtype=np.uint64)

    def told(where: str) -> list[Any]:
        moved = rules.move(some, actions, endpoint=where)
        return [
            *rules.afterstates(some, endpoint=where),
            *moved,
            rules.legal(some, endpoint=where),
            *rules.spawn(moved.boards, seeds, endpoint=where),
        ]

    for here, there in zip(told("embedded"), told(endpoint), strict=True):
        np.testing.assert_array_equal(here, there)
    with pytest.raises(errors.InvalidArgument) as caught:
        rules.legal(np.full((4, 4), 27), endpoint=endpoint)
    assert caught.value.lane == 0


@pytest.mark.parametrize("endpoint", ["embedded", "private"])
def test_the_service_in_this_process_also_answers_in_a_forked_child(endpoint: str) -> None:
    code = f"""
import os, sys, numpy as np, twofold
os.environ["TWOFOLD_ENDPOINT"] = "{endpoint}"
board = np.eye(4, dtype=np.uint8)
first = twofold.rules.legal(board)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(twofold.rules.legal(board), first) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(twofold.rules.legal(board), first)
((carrier,),) = twofold.client.stateless._idle.values()
server = getattr(carrier, "server", None)
if server is not None:
    os.kill(server.pid, 9)
    try:
        twofold.rules.legal(board)
    except twofold.errors.ServerDied:
        pass
assert np.array_equal(twofold.rules.legal(board), first)
print(first.tolist())
"""
    environ = {k: v for k, v in os.environ.items() if k != "TWOFOLD_ENDPOINT"}
    # Python 3.12 and newer warn of a fork beside other threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=PATIENCE)
    assert ran.stderr == ""
    assert ran.stdout == "[1, 1, 1, 1]\n"


def test_an_address_without_a_server_ends_in_a_deadline() -> None:
    with pytest.raises(errors.DeadlineExceeded):
        rules.legal(np.zeros((4, 4), int), endpoint="ipc:///tmp/twofold-nobody", timeout=0.3)


class SlowToExpand:
    """A proxy that delays the reply to an expand request, and sets the client's clock meanwhile.

    Args:
        server: The server's address.
        seconds: The time on the clock while the reply is delayed.

    Attributes:
        endpoint: The address for clients.
        requests: The number of expand requests received.
        surroundings: The client's clock.
    """

    def __init__(self, server: str, seconds: float) -> None:
        self.requests = 0
        self.surroundings = Surroundings(now=self._now)
        self._seconds, self._readings = seconds, 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._front, self._back = (self._context.socket(kind) for kind in (zmq.ROUTER, zmq.DEALER))
        self.endpoint = f"tcp://127.0.0.1:{self._front.bind_to_random_port('tcp://127.0.0.1')}"
        self._back.connect(server)
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> "SlowToExpand":
        self._before = surroundings.set(self.surroundings)
        return self

    def __exit__(self, *_: object) -> None:
        surroundings.reset(self._before)
        self._is_over = True
        self._thread.join()
        self._context.destroy(linger=0)

    def _now(self) -> float:
        self._readings += self.requests > 0
        # The client has computed the time of its next try.
        return self._seconds if self._readings > 4 else 0.0

    def _run(self) -> None:
        replies = 0
        while not self._is_over:
            if self._front.poll(10):
                frames = self._front.recv_multipart()
                request = next(part for at, part in enumerate(frames) if at and not frames[at - 1])
                self.requests += envelope.Request.FromString(request).HasField("expand")
                self._back.send_multipart(frames)
                replies += 1
            # The client reads its clock twice each tenth of a second, until it sends a request.
            while replies and (not self.requests or self._readings > 12):
                self._front.send_multipart(self._back.recv_multipart())
                replies -= 1


@pytest.mark.parametrize(("seconds", "requests"), [(0.9, 1), (1.1, 2)])
def test_a_request_is_executed_again_only_after_a_second_without_an_answer(
    server: Server, seconds: float, requests: int
) -> None:
    with SlowToExpand(server.ipc, seconds) as slow:
        legal = rules.legal(np.eye(4, dtype=int), endpoint=slow.endpoint)
    assert legal.tolist() == [1, 1, 1, 1]
    assert slow.requests == requests


def test_a_request_that_a_stopping_server_refuses_is_repeated_until_the_deadline(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = np.eye(4, dtype=int)
    expected = rules.legal(board, endpoint=server.ipc)
    (carrier,) = stateless._idle[server.ipc, None, SYSTEM]
    exchange, refusals = carrier.exchange, itertools.count(1)
    refusal = {"code": envelope.ERROR_CODE_SHUTTING_DOWN, "retry_after_ms": 1}

    def refuse_twice(*arguments: Any) -> Any:
        if next(refusals) > 2:
            return exchange(*arguments)
        return envelope.Reply(error=refusal), NO_PAYLOAD

    monkeypatch.setattr(carrier, "exchange", refuse_twice)
    np.testing.assert_array_equal(rules.legal(board, endpoint=server.ipc), expected)
    refusal["retry_after_ms"] = 2**31
    refusals = itertools.count(1)
    with pytest.raises(errors.ShuttingDown):
        rules.legal(board, endpoint=server.ipc)


def test_a_request_has_at_most_as_many_boards_as_the_server_allows() -> None:
    boards = np.ones((25, 4, 4), np.uint8)
    with Server("--max-boards-per-session", "10") as server:
        legal = rules.legal(boards, endpoint=server.ipc)
    np.testing.assert_array_equal(legal, rules.legal(boards, endpoint="embedded"))


def test_a_restarted_server_with_lower_limits_refuses_only_one_request() -> None:
    boards = np.ones((25, 4, 4), np.uint8)
    with Server() as server:
        expected = rules.legal(boards, endpoint=server.ipc)
        server._arguments += ("--max-boards-per-session", "10")
        server.replace()
        with pytest.raises(errors.ResourceExhausted, match="max_boards_per_session = 10"):
            rules.legal(boards, endpoint=server.ipc)
        np.testing.assert_array_equal(rules.legal(boards, endpoint=server.ipc), expected)


def test_answers_in_parts_are_joined() -> None:
    rng = np.random.default_rng(5)
    boards = rng.integers(0, 5, (7000, 4, 4))
    actions = rng.integers(0, 4, 7000)
    moved = rules.move(boards, actions)
    seeds = np.arange(7000, dtype=np.uint64)
    next_boards = np.where(
        moved.legal[:, None, None], rules.spawn(moved.boards, seeds).boards, boards
    )
    explained = rules.explain(boards, actions, next_boards)
    for row in (0, 1, 4999, 5000, 5001, 6999):
        assert explained[row] == rules.explain(boards[row], actions[row], next_boards[row])
    assert all(bool(steps) == legal for steps, legal in zip(explained, moved.legal, strict=True))


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda wrong: rules.afterstates(PAIR + wrong), "boards"),
        (lambda wrong: rules.canonical(PAIR + wrong), "boards"),
        (lambda wrong: rules.move(PAIR, wrong[:, 0, 0]), "actions"),
    ],
)
def test_a_negative_number_is_refused_even_if_its_last_byte_is_in_range(
    call: Any, field: str
) -> None:
    wrong = np.zeros((2, 2, 2), np.int64)
    wrong[1, 0, 0] = -254
    with pytest.raises(errors.InvalidArgument) as caught:
        call(wrong)
    assert (caught.value.field, caught.value.lane) == (field, 1)


@pytest.mark.parametrize("seeds", [[1, None], np.array([1, -1])], ids=str)
def test_a_missing_or_negative_seed_is_refused(seeds: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        rules.spawn(PAIR, seeds)
    assert (caught.value.field, caught.value.lane) == ("seeds", 1)


def test_nested_seeds_belong_to_the_boards_at_their_places() -> None:
    boards = np.stack([PAIR, PAIR, PAIR])
    seeds = [[1, 2**63], [3, 4], [2**64 - 1, 6]]
    nested, array = rules.spawn(boards, seeds), rules.spawn(boards, np.array(seeds, np.uint64))
    np.testing.assert_array_equal(nested.boards, array.boards)
    np.testing.assert_array_equal(nested.outcomes, array.outcomes)


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.7, 2**-34])
def test_the_chance_of_a_4_is_rounded_as_in_the_engine(probability: float) -> None:
    chances = rules.chance([[1, 2], [0, 3]], four_probability=probability)
    four = round(probability * 2**32) / 2**32
    assert chances.tolist() == [0, 0, 1 - four, 0, 0, 0, four, 0]


def test_the_first_taken_cell_is_named() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"outcomes\[2\] is 2, whose cell") as caught:
        rules.place(PAIR[[0, 0, 1, 1]], [-1, 2, 2, 2])
    assert caught.value.lane == 2

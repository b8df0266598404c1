"""Every argument is checked, in the client and in the server, and the error names it."""

import contextlib
import math
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from loops import make
from servers import Server

import twofold
from twofold import errors
from twofold.client.embedded import EmbeddedCarrier
from twofold.client.endpoints import check_address
from twofold.integrations import make_batch

BAD: list[tuple[str, Any]] = [
    ("num_envs", 0),
    ("num_envs", -1),
    ("num_envs", 2.0),
    ("num_envs", True),
    ("num_envs", "4"),
    ("num_envs", 2**64),
    ("size", 9),
    ("size", 1),
    ("size", (4, 9)),
    ("size", (4, 4, 4)),
    ("size", ()),
    ("size", 4.0),
    ("size", None),
    ("goal", 2),
    ("goal", 1000),
    ("goal", 2048.0),
    ("goal", True),
    ("goal", 2**40),
    ("stop_at_goal", 1),
    ("stop_at_goal", None),
    ("four_probability", -0.1),
    ("four_probability", 1.1),
    ("four_probability", math.nan),
    ("four_probability", "0.1"),
    ("four_probability", True),
    ("start_tiles", 0),
    ("start_tiles", 16),
    ("start_tiles", 2.0),
    ("illegal_action", "no-op"),
    ("dialect", "Jumanji"),
    ("dialect", 1),
    ("dialect", ["jumanji"]),
    ("obs", "list"),
    ("obs", None),
    ("observation_key", "board"),  # without a dict
    ("max_episode_steps", 0),
    ("max_episode_steps", -1),
    ("max_episode_steps", 10.0),
    ("autoreset_mode", "next"),
    ("autoreset_mode", None),
    ("autoreset_mode", 1),
    ("recover", 0),
    ("endpoint", 5555),
    ("endpoint", ""),
    ("endpoint", "localhost:5555"),
    ("endpoint", "tcp://localhost"),
    ("endpoint", "tcp://localhost:0"),
    ("endpoint", "tcp://localhost:65536"),
    ("endpoint", "tcp://*:5555"),
    ("endpoint", "tcp://$HOST:5555"),
    ("endpoint", "tcp://user@host:5555"),
    ("endpoint", "tcp://'127.0.0.1':5555"),
    ("endpoint", "tcp://host,other:5555"),
    ("endpoint", "tcp://10.0.0.1;10.0.0.7:5555"),
    ("endpoint", "tcp://-host:5555"),
    ("endpoint", "tcp://_host:5555"),
    ("endpoint", "tcp://münchen.example:5555"),
    ("endpoint", "tcp://[fe80::1%é]:5555"),
    ("endpoint", "tcp://localhost:\uff15"),  # a full-width digit
    ("endpoint", "TCP://localhost:5555"),
    ("endpoint", "http://localhost:80"),
    ("endpoint", "inproc://here"),
    ("endpoint", "ipc://"),
    ("endpoint", "ipc:///" + 107 * "x"),
    ("endpoint", "ipc:///" + 54 * "é"),  # each has two bytes
    ("timeout", 0),
    ("timeout", -1),
    ("timeout", math.inf),
    ("timeout", None),
    ("reward", 1.0),
    ("reward", {}),
    ("reward", []),
    ("reward", np.array(1.0)),
    ("reward", "no/such/file.json"),
    ("reward", {"terms": {"merge_score": 1.0}, "goal": 1.0}),
    ("reward", [("merge_score", 1.0, 2.0)]),
    ("reward", {3: 1.0}),
    ("reward", ["merge_score"] * 33),
    ("extra_infos", "chance"),
    ("extra_infos", [1]),
    ("extra_infos", np.array("chance")),
    ("extra_infos", ["\ud800"]),
    ("endpoint", "ipc:///\ud800"),
    ("extra_infos", ("chances",)),
    ("render_mode", "human"),
    ("render_size", 31),
    ("extra_infos", ("chance", "chance")),
    ("extra_infos", ("episode", "episode")),
    ("extra_infos", None),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=str)
def test_a_wrong_argument_is_refused_by_name(server: Server, name: str, value: Any) -> None:
    arguments = {"num_envs": 2, "endpoint": server.ipc, name: value}
    with pytest.raises(errors.InvalidArgument, match=name) as caught:
        twofold.Game2048VectorEnv(**arguments)
    assert caught.value.field == name


def test_the_range_of_start_tiles_depends_on_the_size() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"start_tiles is 0; expected 1 \.\.\. 8$"):
        twofold.Game2048VectorEnv(2, size=3, start_tiles=0, endpoint="embedded")
    wrong: Any = np.array([2, 2])
    with pytest.raises(errors.InvalidArgument, match=r"expected an integer, 1 \.\.\. 15$"):
        twofold.Game2048VectorEnv(2, start_tiles=wrong, dialect="pgx", endpoint="embedded")


def test_the_single_environment_checks_the_same_arguments() -> None:
    with pytest.raises(errors.InvalidArgument, match="size is 9"):
        gym.make("twofold/Game2048-v0", size=9)


@pytest.mark.parametrize("game", ["Game2048", "Concentration"])
@pytest.mark.parametrize("name", ["num_envs", "autoreset_mode", "copy"])
def test_the_single_environment_refuses_arguments_of_batches(game: str, name: str) -> None:
    arguments: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=f"{game}Env got '{name}', which only vector"):
        gym.make(f"twofold/{game}-v0", **arguments)


def test_a_timeout_that_is_too_long_is_refused_with_the_range() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"expected seconds, 0\.001 \.\.\. 1,000,000$"):
        twofold.Game2048VectorEnv(timeout=1e9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 2),
        ("size", np.int64(8)),
        ("size", (2, 8)),
        ("size", [5, 3]),
        ("goal", 4),
        ("goal", 2**31),
        ("stop_at_goal", np.True_),
        ("four_probability", 0),
        ("four_probability", 1.0),
        ("four_probability", np.float32(0.5)),
        ("start_tiles", 1),
        ("start_tiles", 15),
        ("start_tiles", None),
        ("illegal_action", "terminate"),
        ("illegal_action", None),
        ("dialect", "jumanji"),
        ("obs", "dict"),
        ("max_episode_steps", 1),
        ("max_episode_steps", np.uint8(9)),
        ("autoreset_mode", AutoresetMode.DISABLED),
        ("autoreset_mode", "Disabled"),
        ("autoreset_mode", "DISABLED"),
        ("autoreset_mode", "next_step"),
        ("autoreset_mode", AutoresetMode.SAME_STEP),
        ("autoreset_mode", "SameStep"),
        ("reward", "score"),
        ("reward", {"merge_score": 1.0}),
        ("reward", {"merge_score": 2.0}),
        ("reward", ["merge_score", ("goal", 5), {"term": "survival", "weight": 0.5}]),
        ("extra_infos", ["chance", "reward_terms"]),
        ("render_mode", "ansi"),
        ("render_mode", "rgb_array"),
        ("timeout", 5),
    ],
    ids=str,
)
def test_a_valid_argument_is_accepted(server: Server, name: str, value: Any) -> None:
    envs = twofold.Game2048VectorEnv(**{"num_envs": 2, "endpoint": server.ipc, name: value})
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    envs.close()


@pytest.mark.parametrize(
    ("game", "arguments", "limit"),
    [
        ("Game2048", {}, 65_536),
        ("Game2048", {"max_episode_steps": 12}, 12),
        ("Game2048", {"max_episode_steps": None}, None),
        ("Concentration", {}, 65_536),
        ("Concentration", {"preset": "playground"}, 65_536),
        ("Concentration", {"preset": "popgym-easy"}, 104),
        ("Concentration", {"preset": "popgym-easy", "max_episode_steps": 12}, 12),
    ],
)
def test_the_boards_of_an_adapter_have_a_limit_by_default(
    game: str, arguments: dict[str, Any], limit: int | None
) -> None:
    with contextlib.closing(make_batch(f"twofold/{game}-v0", 2, {}, **arguments)) as envs:
        create = envs.unwrapped._session.create
        assert (create.max_episode_steps or None) == limit


def test_an_adapter_names_its_own_argument_for_the_number_of_boards() -> None:
    with pytest.raises(TypeError, match="'num_envs'; did you mean 'n_envs'"):
        make_batch("twofold/Game2048-v0", 1, {}, num_envs=3)


def test_an_agent_that_only_plays_an_illegal_action_ends_its_episodes() -> None:
    with contextlib.closing(
        make_batch("twofold/Game2048-v0", 4, {"autoreset_mode": "SameStep"}, size=2)
    ) as envs:
        envs.reset(seed=0)
        actions = np.zeros((65_600, 4), int)
        rollout = envs.unwrapped.rollout(65_600, actions=actions)
    ended = rollout.terminations | rollout.truncations
    assert ended.any(axis=0).all()
    assert ended.argmax(axis=0).max() == 65_535


def test_more_boards_than_the_server_allows_are_refused_with_the_limit(server: Server) -> None:
    with pytest.raises(errors.ResourceExhausted, match=r"max_boards_per_session = \d+") as caught:
        twofold.Game2048VectorEnv(2**40, endpoint=server.ipc)
    assert caught.value.field == "num_envs"


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://localhost:1",
        "tcp://10.0.0.7:5555",
        "tcp://[::1]:65535",
        "tcp://[fe80::1%br-0]:5555",
        "tcp://My_host.:5555",
        "tcp://10.0.0.1:0;10.0.0.7:5555",
        "tcp://eth0:0;[::1]:5555",
        "tcp://a-b.example:80",
        "ipc:///run/twofold.sock",
        "ipc://relative",
        "ipc:///" + 106 * "x",
    ],
)
def test_an_address_is_used_unchanged(endpoint: str) -> None:
    assert check_address(endpoint) == endpoint


def test_the_endpoint_comes_from_the_environment_variable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_ENDPOINT", server.tcp)
    envs = twofold.Game2048VectorEnv(1)
    assert envs._session.link.carrier.endpoint == server.tcp
    envs.close()
    for wrong in ("nonsense", "ipc://not-utf-8-\udcff", "ipc:///run/a,tcp://10.0.0.7:5555"):
        monkeypatch.setenv("TWOFOLD_ENDPOINT", wrong)
        with pytest.raises(errors.InvalidArgument, match=re.escape(repr(wrong))) as caught:
            twofold.Game2048VectorEnv(1)
        assert caught.value.field == "endpoint"
    for kind in ("private", "embedded"):
        envs = twofold.Game2048VectorEnv(1, endpoint=kind)
        assert isinstance(envs._session.link.carrier, EmbeddedCarrier) == (kind == "embedded")
        envs.close()


@pytest.mark.parametrize("wrong", [-1, -250, 2**40])
def test_a_given_board_with_a_number_out_of_range_is_refused(wrong: int) -> None:
    envs = make("embedded")
    boards = np.ones((16, 4, 4), np.int64)
    boards[3, 1, 2] = wrong
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.reset(seed=0, options={"boards": boards})
    assert (caught.value.field, caught.value.lane) == ("boards", 3)
    envs.close()

"""The tables on the environments' pages agree with the environments."""

import ast
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold
from twofold.envs.concentration import ConcentrationEnvArguments, ConcentrationVectorEnvArguments
from twofold.envs.game2048 import Game2048EnvArguments, Game2048VectorEnvArguments
from twofold.games.encoding import FORMS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "environments"
SHARED = ("game2048", "Arguments of every environment")
# Lanes, and sides that no default has.
SIZES = {"N": 5, "rows": 2, "columns": 3}


def table(page: str, heading: str, number: int = 0) -> dict[str, list[str]]:
    """Returns a table below a heading: its rows, keyed by their first cell, without backticks."""
    text = (PAGES / f"{page}.md").read_text()
    (section,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    block = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[number]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in block.splitlines()[2:]]
    return {row[0].strip("`"): [cell.strip("`") for cell in row[1:]] for row in rows}


def arrays(rows: dict[str, list[str]], sizes: dict[str, int]) -> dict[str, tuple[str, Any]]:
    """Returns the dtype and the shape in the first cell of each row, such as `uint8 (N, rows)`."""
    found = {}
    for name, (cell, *_) in rows.items():
        dtype, _, shape = cell.partition(" ")
        numbers = re.sub("[A-Za-z]+", lambda side: str(sizes[side[0]]), shape)
        found[name] = dtype, ast.literal_eval(numbers)
    return found


def kinds(named: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Returns the dtype and the shape of each array, without masks."""
    return {
        name: (array.dtype.name, array.shape)
        for name, array in named.items()
        if not name.startswith("_")
    }


def defaults(*tables: tuple[str, str]) -> dict[str, Any]:
    """Returns the arguments in some tables, each with its default."""
    rows = {name: row for place in tables for name, row in table(*place).items()}
    return {name: ast.literal_eval(row[1]) for name, row in rows.items()}


@pytest.mark.parametrize("page", ["game2048", "concentration"])
def test_the_first_table_has_the_spaces_of_the_environment_that_it_makes(page: str) -> None:
    (name,) = re.findall(r"^# (.*)\n", (PAGES / f"{page}.md").read_text())
    rows = table(page, name)
    (environment_id,) = re.findall(r'^gymnasium.make\("(.*)"\)$', rows["Import"][0])
    env = gym.make(environment_id, endpoint="embedded")
    assert rows["Action space"] == [repr(env.action_space)]
    assert rows["Observation space"] == [repr(env.observation_space)]
    env.close()
    envs = gym.make_vec(environment_id, num_envs=2, endpoint="embedded")
    assert repr(envs.single_observation_space) == rows["Observation space"][0]
    envs.close()


@pytest.mark.parametrize("page", ["game2048", "concentration"])
def test_the_page_has_all_forms_of_observations_with_their_spaces(page: str) -> None:
    rows = table(page, "Observation space")
    assert rows.keys() == {f'"{form}"' for form in (*FORMS, "dict")}
    (environment_id,) = re.findall(r'"twofold:(.*)"', (PAGES / f"{page}.md").read_text())
    for form, (space, _) in rows.items():
        env = gym.make(environment_id, obs=ast.literal_eval(form), endpoint="embedded")
        assert repr(env.observation_space) == space
        env.close()


@pytest.mark.parametrize(
    ("page", "make", "single", "vector"),
    [
        (
            "game2048",
            twofold.Game2048VectorEnv,
            Game2048EnvArguments,
            Game2048VectorEnvArguments,
        ),
        (
            "concentration",
            twofold.ConcentrationVectorEnv,
            ConcentrationEnvArguments,
            ConcentrationVectorEnvArguments,
        ),
    ],
)
def test_the_page_has_all_arguments_with_their_defaults(
    page: str, make: Any, single: Any, vector: Any
) -> None:
    stated = defaults((page, "Arguments"), SHARED)
    assert stated.keys() == {*vector.__optional_keys__, "num_envs", "obs"}
    of_batches = {name for name, row in table(*SHARED).items() if "`gym.make_vec` only" in row[-1]}
    assert stated.keys() - {"obs"} - of_batches == single.__optional_keys__
    bare, explicit = make(), make(**stated)
    for envs in (bare, explicit):
        # The arguments as the user gave them.
        envs._session.create.client_arguments = ""
    assert explicit._session.create == bare._session.create
    assert explicit.metadata == bare.metadata
    assert explicit.render_mode == bare.render_mode
    assert explicit.observation_space == bare.observation_space
    assert explicit._settings.copy == bare._settings.copy
    assert explicit._settings.render_size == bare._settings.render_size
    assert explicit._session._timeout == bare._session._timeout
    assert explicit._session.link.endpoint == bare._session.link.endpoint
    bare.close()
    explicit.close()


@pytest.mark.parametrize(
    ("page", "make", "arguments"),
    [
        ("game2048", twofold.Game2048VectorEnv, {}),
        ("concentration", twofold.ConcentrationVectorEnv, {"deck_info": True}),
    ],
)
def test_results_and_infos_have_the_dtypes_and_shapes_of_the_page(
    page: str, make: Any, arguments: Any
) -> None:
    own = ["flips"] if arguments else ["merges", "chance", "afterstates"]
    extras = ["reward_terms", "episode_return", *own]
    envs = make(5, size=(2, 3), extra_infos=extras, endpoint="embedded", **arguments)
    sizes = SIZES | {"actions": int(envs.single_action_space.n), "terms": len(envs.reward_terms)}
    on_request = table(page, "Infos", 1) if arguments else table("rewards", "Extra infos")
    usual, of_steps = arrays(table(page, "Infos"), sizes), arrays(on_request, sizes)
    of_resets = usual | {name: of_steps.pop(name) for name in ("deck",) if name in of_steps}

    _, infos = envs.reset(seed=0)
    assert kinds(infos) == of_resets
    observations, rewards, terminations, truncations, infos = envs.step(np.zeros(5, int))
    assert kinds(infos) == of_resets | of_steps
    results = {
        "observations": observations,
        "rewards": rewards,
        "terminations": terminations,
        "truncations": truncations,
    }
    assert kinds(results) == arrays(table(page, "Vectorized environment"), sizes)
    for name in of_resets | of_steps:
        assert infos[f"_{name}"].dtype == np.bool_
        assert infos[f"_{name}"].shape == (5,)
    envs.close()


def test_the_actions_of_2048_go_where_the_page_says() -> None:
    places = {"up": (0, 1), "right": (1, 2), "down": (2, 1), "left": (1, 0)}
    board = np.zeros((3, 3), np.uint8)
    board[1, 1] = 1
    moved = twofold.rules.afterstates(board).boards
    rows = table("game2048", "Action space")
    assert sorted(rows) == ["0", "1", "2", "3"]
    for number, (direction,) in rows.items():
        assert moved[int(number)][places[direction]] == 1


@pytest.mark.parametrize("number", range(4))
def test_the_presets_of_concentration_match_the_page(number: int) -> None:
    rows = table("concentration", "Presets")
    preset = ["playground", "popgym-easy", "popgym-medium", "popgym-hard"][number]
    stated = {name: ast.literal_eval(row[number]) for name, row in rows.items()}
    named = twofold.ConcentrationVectorEnv(2, preset=preset, endpoint="embedded")
    explicit = twofold.ConcentrationVectorEnv(2, endpoint="embedded", **stated)
    first, second = named._session.create, explicit._session.create
    assert first.concentration == second.concentration
    assert first.max_episode_steps == second.max_episode_steps
    named.close()
    explicit.close()

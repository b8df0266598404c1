"""Lanes played by the plain Python rules, with an environment's names and values.

The rules are in reference.py, reference_concentration.py and reward_reference.py. This module adds
the features of an environment: declared rewards, optional infos and dialects.
"""

import copy
from typing import Any

import numpy as np
import reference
import reference_concentration
from reward_reference import EVENTS, Transition
from reward_reference import reward as reward_of
from reward_reference import terms as terms_of_2048

Told = dict[str, Any]

PGX_ACTIONS = (3, 0, 1, 2)  # left, up, right, down
TABLE = [0.37 * exponent - 3.3 for exponent in range(32)]


def declaration(game: str, terms: list[tuple[str, float]], cells: int) -> dict[str, Any]:
    """Returns a declared reward in its most explicit form, from the terms' names and weights."""
    spec: list[dict[str, Any]] = []
    for name, weight in terms:
        term: dict[str, Any] = {"term": name, "weight": weight}
        if game == "Game2048" and name not in EVENTS:
            term["gamma"] = 1 - 0.013 * len(spec)
        if name == "merge_table":
            term["table"] = TABLE
        if name == "cell_weights":
            term["table"] = [(7 * cell * cell) % 101 - 50 for cell in range(cells)]
        spec.append(term)
    return {"terms": spec, "scale": 0.3, "clip": [-20.0, 50.0]}


class PlainLane:
    """One lane.

    Args:
        game: "Game2048" or "Concentration".
        arguments: The environment's arguments, with `size` as (rows, columns), and `reward` in its
            longest form.
        seed: The lane's seed.
    """

    def __init__(self, game: str, arguments: dict[str, Any], seed: int) -> None:
        rest = dict(arguments)
        self.spec: dict[str, Any] | None = rest.pop("reward", None)
        rest.pop("extra_infos", None)
        self.has_deck = bool(rest.pop("deck_info", False))
        dialect = rest.pop("dialect", None)
        self.is_pgx = dialect == "pgx"
        if dialect == "pgx":
            rest["illegal_action"] = "terminate"
        elif dialect is not None:
            rest["start_tiles"] = 1
        rest["rows"], rest["columns"] = rest.pop("size", (4, 4))
        self.episode_return = 0.0
        self.game: Any
        if game == "Game2048":
            self.game = reference.Game(seed, **rest)
        else:
            rest.setdefault("symbols", rest["rows"] * rest["columns"] // 2)
            self.game = reference_concentration.Game(seed, **rest)

    def copy(self, seed: int | None = None) -> "PlainLane":
        """Returns a copy that continues this lane's stream, or starts a new stream from `seed`."""
        copied = copy.copy(self)
        copied.game = copy.deepcopy(self.game)
        if seed is not None:
            copied.game.generator = reference.Xoshiro128PlusPlus.seeded(seed)
        return copied

    @property
    def generator(self) -> tuple[int, int]:
        """The state of the stream, as two 64-bit numbers."""
        a, b, c, d = self.game.generator.words
        return a | b << 32, c | d << 32

    @property
    def is_over(self) -> bool:
        return bool(self.game.terminated or self.game.truncated)

    def start(self, seed: int | None = None, board: Any = None) -> None:
        """Resets the lane, optionally with a new seed or on a given board."""
        if seed is not None:
            self.game.generator = reference.Xoshiro128PlusPlus.seeded(seed)
        if board is None:
            self.game.start()
        else:
            self.game.begin(tuple(board))
        self.episode_return = 0.0

    def told(self) -> Told:
        """Returns the lane's current observation and infos."""
        return self._named(self.game.told(), self.game.deck if self.has_deck else None)

    def step(self, action: int) -> tuple[Told, Told | None]:
        """Plays a step. Returns its results and, under SAME_STEP, an ended episode's final ones."""
        deck = self.game.deck if self.has_deck else None
        begins = self.game.autoreset_mode == "next_step" and self.is_over
        if isinstance(self.game, reference.Game):
            reward, of_step = self._play_2048(action, begins)
        else:
            reward, of_step = self._play_concentration(action, begins)
        self.episode_return = 0.0 if begins else self.episode_return + reward
        of_step["episode_return"] = self.episode_return
        told, final = self.told(), None
        if self.game.final is None:
            told |= of_step
        else:
            final = self._named(self.game.final, deck) | of_step
            self.episode_return = 0.0
        told |= {
            "reward": reward,
            "terminated": int(self.game.terminated),
            "truncated": int(self.game.truncated),
        }
        return told, final

    def _named(self, told: Told, deck: list[int] | None) -> Told:
        if self.is_pgx:
            mask = told["action_mask"]
            told = told | {"action_mask": [mask[action] for action in PGX_ACTIONS]}
        return told if deck is None else told | {"deck": deck}

    def _play_2048(self, action: int, begins: bool) -> tuple[float, Told]:
        game: reference.Game = self.game
        action = PGX_ACTIONS[action] if self.is_pgx else action
        before = game.board
        score = float(game.step(action))
        empty = [0] * len(before)
        if begins:
            terms = [0.0] * len(self.spec["terms"] if self.spec else [0])
            return 0.0, {
                "reward_terms": terms,
                "chance": -1,
                "merges": empty,
                "afterstates": empty,
            }
        after = game.board if game.final is None else tuple(game.final["observation"])
        shape = (game.rows, game.columns, game.goal)
        step = Transition(before, action, after, game.terminated, *shape)
        told: Told = {
            "chance": step.chance,
            "merges": list(step.merges),
            "afterstates": list(step.afterstate),
        }
        if self.is_pgx:
            return score if step.is_legal else -1.0, told
        if self.spec is None:
            return float(np.float32(score)), told | {"reward_terms": [score]}
        values = terms_of_2048(self.spec, step)
        told["reward_terms"] = np.array(values, np.float32).tolist()
        return reward_of(self.spec, values), told

    def _play_concentration(self, action: int, begins: bool) -> tuple[float, Told]:
        game: reference_concentration.Game = self.game
        reward = game.step(action)
        weights = list(reference_concentration.WEIGHTS.items())
        if self.spec is not None:
            weights = [(term["term"], term["weight"]) for term in self.spec["terms"]]
        values = [weight * game.terms.get(term, 0.0) for term, weight in weights]
        if self.spec is not None:
            reward = 0.0 if begins else reward_of(self.spec, values)
        return reward, {"reward_terms": np.array(values, np.float32).tolist()}

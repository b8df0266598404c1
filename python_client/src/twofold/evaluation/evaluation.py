"""Judging a policy: whole games from fixed seeds, and what they say about it."""

from __future__ import annotations

import functools
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from twofold import _arguments
from twofold.envs.results import Array
from twofold.errors import InternalError, InvalidArgument
from twofold.evaluation import report
from twofold.evaluation.episodes import ActionLog, FunctionPlayer, Progress, ServerPlayer
from twofold.evaluation.rule_card import environment_card
from twofold.evaluation.statistics import Interval, bootstrap_mean, quantile_interval, wilson
from twofold.games.game2048 import Game2048
from twofold.policies import functions
from twofold.recordings import Recording
from twofold.recordings.file_format import unpack_actions

FIRST_SEED = 2**63
"""Seeds from here up are left to evaluation; training never meets them."""

TILES = tuple(2**exponent for exponent in range(8, 17))
QUANTILES = (0.05, 0.25, 0.75, 0.95)

PROTOCOLS = {
    # The numbers of games that the literature's tables are made of.
    "quick": 1_000,
    "1ply": 1_000_000,
    "search": 10_000,
    "deep": 100,
}
Protocol = Literal["quick", "1ply", "search", "deep"]

_DEFAULT_EPISODES = 1_000
_MOST_LANES = 4096
_FORMAT = "twofold-evaluation"


def evaluate(
    policy: functions.PolicyLike,
    *,
    env: str | VectorEnv[Any, Any, Any] = "twofold/Game2048-v0",
    episodes: int | None = None,
    protocol: Protocol | None = None,
    num_envs: int | None = None,
    first_seed: int = FIRST_SEED,
    name: str | None = None,
    card: Mapping[str, Any] | None = None,
    policy_timeout: float = 60.0,
    progress: Progress | None = None,
    record: bool = False,
    **env_arguments: Any,
) -> Evaluation:
    """Plays whole games with a policy and reports scores, tiles and speed with 95 % intervals.

    Episode k starts from seed `first_seed` + k, whatever the number of boards: a board that has
    finished takes the next episode, and every episode that was begun counts. So long games count
    as often as short ones ("the first thousand that finish" are the short ones).

    Args:
        policy: A function (observations, action_mask) -> actions; one of `twofold.policies`, which
            run in the server; or a name: "random", "greedy", "expectimax", "expectimax:3",
            "ntuple:agent.npz", "perfect-memory" (Concentration). A function is a `PolicyFunction`:
            it gets the boards that are still being played, K of them, which shrinks once there are
            fewer episodes left than boards. One that remembers something of its games is a
            `PolicyWithMemory`: its `reset` is told which boards begin an episode, and it gets all
            boards each time.
        env: An environment's id, or a vector environment with NEXT_STEP autoreset, which is left
            open. It has to take a list of seeds, and options={"reset_mask": …}, as Gymnasium's
            SyncVectorEnv and AsyncVectorEnv do. Its infos `score`, `moves`, `max_exponent` and
            `action_mask` are used where it has them.
        episodes: How many games; 1,000 by default.
        protocol: In place of `episodes`: "quick" for 1,000, "1ply" for 1,000,000, "search" for
            10,000, "deep" for 100.
        num_envs: Boards at once; by default as many as episodes, at most 4096.
        first_seed: The first episode's seed, 2^63 or more.
        name: What to call the policy; by default its own name.
        card: Entries of the rule card: search_max_layers, symmetry_averaging, weights_mb, threads.
        policy_timeout: Seconds that one call of the policy may take.
        progress: Called now and then.
        record: Whether to keep every game's actions, two bits each, for `Evaluation.recording`.
        **env_arguments: Arguments for making `env`, such as size=3 or endpoint="tcp://…".

    Raises:
        PolicyError: The policy raised, took too long, or returned what is no array of legal
            actions; it tells the call, the episode and its seed.
        InvalidArgument: An argument is wrong; `field` tells which.
        TransportError: No server, or no answer.
    """
    number = _number_of_episodes(episodes, protocol)
    first_seed = _arguments.integer("first_seed", first_seed, FIRST_SEED, 2**64 - number)
    policy_timeout = _arguments.real("policy_timeout", policy_timeout, 1e-3, 1e9, "seconds > 0")
    chosen = functions.resolve(policy, name)
    is_own = isinstance(env, str)
    if isinstance(env, str):
        lanes = min(number, _MOST_LANES) if num_envs is None else num_envs
        lanes = _arguments.integer("num_envs", lanes, 1)
        if env != Game2048.environment_id and chosen.function is not None:
            chosen = replace(chosen, in_server=None)
        if chosen.in_server is not None:
            env_arguments = {**env_arguments, "autoreset_mode": AutoresetMode.DISABLED}
        envs: VectorEnv[Any, Any, Any] = gym.make_vec(env, num_envs=lanes, **env_arguments)
    else:
        chosen = replace(chosen, in_server=None)
        if chosen.function is None and chosen.make is None:
            raise InvalidArgument(
                f"the policy {chosen.name} runs in the server; give the environment's id as env",
                field="env",
            )
        envs = _check_env(env, num_envs, env_arguments)
    try:
        if chosen.in_server is None:
            _check_autoreset(envs)
        chosen = chosen.for_env(envs)
        log = ActionLog(envs) if record else None
        player: FunctionPlayer | ServerPlayer
        if chosen.in_server is None:
            player = FunctionPlayer(envs, chosen, policy_timeout, progress, log)
        else:
            player = ServerPlayer(envs, chosen.in_server, progress, log)
        seeds = np.arange(number, dtype=np.uint64) + np.uint64(first_seed)
        results = player.play(seeds)
        card = {
            **environment_card(envs),
            **functions.card(chosen, card),
            "boards at once": envs.num_envs,
            "twofold": version("twofold"),
            "python": platform.python_version(),
        }
    finally:
        if is_own:
            envs.close()
    return Evaluation(chosen.name, card, seeds, **results, log=log)


def _number_of_episodes(episodes: int | None, protocol: str | None) -> int:
    if protocol is None:
        return _arguments.integer(
            "episodes", _DEFAULT_EPISODES if episodes is None else episodes, 1, 2**31
        )
    if protocol not in PROTOCOLS:
        known = ", ".join(map(repr, PROTOCOLS))
        raise InvalidArgument(
            f"protocol is {protocol!r}; expected one of {known}", field="protocol"
        )
    if episodes is not None:
        raise InvalidArgument(
            f"episodes={episodes} beside protocol={protocol!r}, which means "
            f"{PROTOCOLS[protocol]:,}; give one of them",
            field="episodes",
        )
    return PROTOCOLS[protocol]


def _check_env(
    env: object, num_envs: int | None, env_arguments: Mapping[str, Any]
) -> VectorEnv[Any, Any, Any]:
    if not isinstance(env, VectorEnv):
        raise InvalidArgument(
            f"env is {env!r}; expected an environment's id or a gymnasium VectorEnv", field="env"
        )
    if num_envs is not None or env_arguments:
        extra = sorted({*env_arguments, *([] if num_envs is None else ["num_envs"])})
        raise InvalidArgument(
            f"{', '.join(extra)} beside an environment that is made already", field=extra[0]
        )
    return env


def _check_autoreset(env: VectorEnv[Any, Any, Any]) -> None:
    mode = env.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.NEXT_STEP:
        raise InvalidArgument(
            f"env has autoreset_mode {mode}; evaluation needs NEXT_STEP", field="env"
        )
    if getattr(env.unwrapped, "shared_memory", True) is False:
        raise InvalidArgument(
            "gymnasium's AsyncVectorEnv without shared memory resets a board twice after a masked "
            "reset, so its episodes can't be told apart; leave shared_memory as it is",
            field="env",
        )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of a policy's games.

    `print` shows them as a table, a notebook as HTML.

    Attributes:
        policy: The policy's name.
        card: The rule card: under what rules and with what means the games were played.
        seeds: uint64 (E,), each episode's.
        scores: int64 (E,), final scores; float64 sums of rewards where the environment has none.
        moves: int64 (E,), legal moves.
        lengths: int64 (E,), steps.
        max_exponents: uint8 (E,), of the highest tile on the final board; None without tiles.
        seconds: How long all of it took.
        policy_seconds: How much of that the policy took; nan where it runs in the server.
        log: The games' actions, for `recording`; None without.
    """

    policy: str
    card: dict[str, Any]
    seeds: NDArray[np.uint64] = field(repr=False)
    scores: Array = field(repr=False)
    moves: NDArray[np.int64] = field(repr=False)
    lengths: NDArray[np.int64] = field(repr=False)
    max_exponents: NDArray[np.uint8] | None = field(repr=False)
    seconds: float
    policy_seconds: float
    log: ActionLog | None = field(default=None, repr=False)

    @property
    def episodes(self) -> int:
        """How many games."""
        return len(self.scores)

    @property
    def moves_per_second(self) -> float:
        """Legal moves in each second, of everything together."""
        return float(self.moves.sum() / self.seconds)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """Everything that is reported, as plain numbers; each interval is a 95 % one.

        `score` and `moves` hold mean, mean_interval (bootstrap), standard_deviation, median and
        median_interval, quantiles, min and max. `reached` holds for each tile the games that have
        it or a higher one on their final board: games, share and its interval (Wilson).
        `highest_tile` is the highest of all; `tiles` counts games by their highest tile.
        """
        result: dict[str, Any] = {
            "policy": self.policy,
            "episodes": self.episodes,
            "first_seed": int(self.seeds[0]),
            "score": _describe(self.scores),
            "moves": _describe(self.moves),
        }
        if self.max_exponents is not None:
            tiles = 2 ** self.max_exponents.astype(np.int64)
            values, counts = np.unique(tiles, return_counts=True)
            result["highest_tile"] = int(values[-1])
            result["tiles"] = {int(v): int(c) for v, c in zip(values, counts, strict=True)}
            # On small boards the usual tiles are out of reach.
            highest = int(values[-1])
            wanted = [t for t in (4, 8, 16, 32, 64, 128) if highest < TILES[0] and 8 * t >= highest]
            result["reached"] = {tile: self._reached(tiles, tile) for tile in [*wanted, *TILES]}
        result |= {
            "seconds": self.seconds,
            "policy_seconds": self.policy_seconds,
            "moves_per_second": self.moves_per_second,
            "rule_card": self.card,
        }
        return result

    def _reached(self, tiles: Array, tile: int) -> dict[str, Any]:
        games = int((tiles >= tile).sum())
        return {
            "games": games,
            "share": games / self.episodes,
            "interval": list(wilson(games, self.episodes)),
        }

    def compare(self, other: Evaluation) -> Comparison:
        """This policy against another, game by game on the same seeds.

        Raises:
            InvalidArgument: The seeds or the environments differ.
        """
        return _compare(self, other)

    def recording(self, which: str | int) -> Recording:
        """One of the games, to replay and to show; needs evaluate(record=True).

        Args:
            which: "best", "worst" or "median" by score, or an episode's number.

        Raises:
            InvalidArgument: There is no such game, or nothing was recorded.
        """
        if self.log is None:
            raise InvalidArgument(
                "the games were not recorded; evaluate with record=True", field="record"
            )
        episode = _pick(self.scores, which)
        actions = unpack_actions(self.log.games[episode], int(self.lengths[episode]))
        about = {"policy": self.policy, "episode": episode}
        recording = Recording.of_seed(self.log.rules, int(self.seeds[episode]), actions, about)
        if recording.score != self.scores[episode]:
            raise InternalError(
                f"episode {episode} scored {self.scores[episode]}, its replay {recording.score}"
            )
        return recording

    def __str__(self) -> str:
        return report.text(self.summary)

    def _repr_html_(self) -> str:
        return report.html(self.summary)

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        return report.markdown(self.summary)

    def to_tdl(self) -> str:
        """The summary block that TDL2048 prints: games by their highest tile.

        Raises:
            InvalidArgument: The environment has no tiles.
        """
        return report.tdl(self)

    def to_json(self, *, games: bool = False) -> str:
        """The summary as JSON; with `games`, every game's result too, for `from_json`."""
        document: dict[str, Any] = {"format": _FORMAT, "version": 1, **self.summary}
        if games:
            exponents = None if self.max_exponents is None else self.max_exponents.tolist()
            document["games"] = {
                "seeds": self.seeds.tolist(),
                "scores": self.scores.tolist(),
                "moves": self.moves.tolist(),
                "lengths": self.lengths.tolist(),
                "max_exponents": exponents,
            }
        return json.dumps(_without_nan(document))

    @staticmethod
    def from_json(text: str) -> Evaluation:
        """What `to_json(games=True)` wrote.

        Raises:
            InvalidArgument: It is something else.
        """
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT or document["version"] != 1:
                raise KeyError("format")
            games, spent = document["games"], document["policy_seconds"]
            exponents = games["max_exponents"]
            return Evaluation(
                policy=document["policy"],
                card=document["rule_card"],
                seeds=np.array(games["seeds"], np.uint64),
                scores=np.array(games["scores"]),
                moves=np.array(games["moves"], np.int64),
                lengths=np.array(games["lengths"], np.int64),
                max_exponents=None if exponents is None else np.array(exponents, np.uint8),
                seconds=document["seconds"],
                policy_seconds=math.nan if spent is None else float(spent),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgument(
                f"this is no saved evaluation with its games ({type(error).__name__}: {error})"
            ) from None

    def plot(self, path: str | Path | None = None, *others: Evaluation) -> Any:
        """The distribution of scores and the share of games that reach each tile.

        Args:
            path: Where to save it, as the ending says; None for nowhere.
            *others: Evaluations to show beside this one.

        Returns:
            The matplotlib Figure.

        Raises:
            MissingDependency: matplotlib is not installed.
        """
        return report.plot((self, *others), None if path is None else Path(path))


def _pick(scores: NDArray[Any], which: str | int) -> int:
    """The episode that is best, worst or median by score, or has this number."""
    if isinstance(which, str) and not which.isdecimal():
        order = np.argsort(scores, kind="stable")
        places = {"worst": 0, "median": len(order) // 2, "best": -1}
        if which in places:
            return int(order[places[which]])
        raise InvalidArgument(
            f"which is {which!r}; expected 'best', 'worst', 'median' or an episode's number",
            field="which",
        )
    return _arguments.integer("which", int(which), 0, len(scores) - 1)


def _describe(values: Array) -> dict[str, Any]:
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return {
        "mean": float(values.mean()),
        "mean_interval": list(bootstrap_mean(values)),
        "standard_deviation": spread,
        "standard_error": spread / len(values) ** 0.5,
        "median": float(np.median(values)),
        "median_interval": list(quantile_interval(values, 0.5)),
        "quantiles": {str(q): float(np.quantile(values, q)) for q in QUANTILES},
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _without_nan(value: Any) -> Any:
    """The same for JSON, which has no nan: null in its place."""
    if isinstance(value, dict):
        return {str(key): _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


# ---- two policies --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Two policies on the same seeds, game by game.

    Attributes:
        first: The first policy's name.
        second: The second's.
        episodes: How many pairs of games.
        means: Both mean scores.
        difference: The mean of (first's score - second's).
        difference_interval: Its 95 % interval (bootstrap over pairs).
        wins: Pairs in which the first's score is higher.
        ties: Pairs in which both are the same.
        win_interval: The 95 % interval of the share of wins among the pairs that are no ties.
        correlation: Of the scores over the pairs; how much the pairing helps.
    """

    first: str
    second: str
    episodes: int
    means: tuple[float, float]
    difference: float
    difference_interval: Interval
    wins: int
    ties: int
    win_interval: Interval
    correlation: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return self.difference_interval[0] > 0 or self.difference_interval[1] < 0

    def __str__(self) -> str:
        return report.comparison_text(self)

    def _repr_html_(self) -> str:
        return report.preformatted(str(self))

    def to_json(self) -> str:
        """All attributes as JSON."""
        return json.dumps(_without_nan({**vars(self), "is_significant": self.is_significant}))


def _compare(first: Evaluation, second: Evaluation) -> Comparison:
    if not isinstance(second, Evaluation):
        raise InvalidArgument(f"other is {type(second).__name__}; expected an Evaluation")
    if not np.array_equal(first.seeds, second.seeds):
        raise InvalidArgument(
            "the two evaluations have different seeds; play both with the same episodes and "
            "first_seed"
        )
    for key in ("environment", *_RULES):
        a, b = first.card.get(key), second.card.get(key)
        if a != b:
            raise InvalidArgument(f"the two evaluations differ in {key}: {a!r} and {b!r}")
    a, b = first.scores.astype(np.float64), second.scores.astype(np.float64)
    wins, ties = int((a > b).sum()), int((a == b).sum())
    is_varied = a.std() > 0 and b.std() > 0
    return Comparison(
        first=first.policy,
        second=second.policy,
        episodes=len(a),
        means=(float(a.mean()), float(b.mean())),
        difference=float((a - b).mean()),
        difference_interval=bootstrap_mean(a - b),
        wins=wins,
        ties=ties,
        win_interval=wilson(wins, len(a) - ties),
        correlation=float(np.corrcoef(a, b)[0, 1]) if is_varied else math.nan,
    )


_RULES = (
    "size",
    "spawn law",
    "start tiles",
    "goal",
    "symbols",
    "peeks",
    "found pairs",
    "illegal action",
    "score",
    "step limit",
)

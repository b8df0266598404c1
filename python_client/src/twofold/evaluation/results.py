"""The results of a policy's games, with their summary, and the comparison of two policies."""

from __future__ import annotations

import functools
import html
import json
import math
import re
from array import array as packed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold._tables import table
from twofold._text import markdown, printable
from twofold.envs.results import Array
from twofold.errors import GameFailed, InvalidArgument
from twofold.evaluation import report
from twofold.evaluation.action_log import ActionLog
from twofold.evaluation.regret import Regret
from twofold.evaluation.rule_card import RULES
from twofold.evaluation.statistics import UNKNOWN, Interval, bootstrap_mean, median_interval, wilson
from twofold.recordings import Recording

TILES = tuple(2**exponent for exponent in range(8, 17))
QUANTILES = (0.05, 0.25, 0.75, 0.95)
ARRAYS = ("seeds", "scores", "moves", "lengths", "max_exponents")
"""The attributes of an evaluation that have a number for each game."""
_FORMAT = "twofold-evaluation"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of a policy's games.

    `print` shows them as text tables; notebooks show them as HTML.

    Attributes:
        policy: The policy's name.
        card: The rule card, which describes the games' rules and the policy's search and resources.
        seeds: uint64 (E,), each episode's seed.
        scores: int64 (E,), the final scores. If the game has no score, float64 sums of rewards.
        moves: int64 (E,), the number of legal moves in each game.
        lengths: int64 (E,), the number of steps in each game.
        max_exponents: uint8 (E,), the highest exponent on each final board; None without tiles.
        seconds: The duration of the evaluation's games.
        policy_seconds: The part of `seconds` spent in the policy; nan for policies in the server.
        log: The games' actions for `recording`, or None if they were not recorded.
        failures: The games in which a `Strategy` or a `ChatModel` failed, sorted by episode.
            Such a game ends with the score reached so far. None for other policies, because
            `evaluate` raises their errors.
        player: Statistics of a `ChatModel`: its requests, replies and tokens. Otherwise empty.
        regret: The loss compared with optimal play; None without evaluate(regret=True).
        secret: The secret that determines the seeds; None if the seeds are consecutive. Pass it to
            evaluate(secret=…) to play the same games again.
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
    failures: tuple[GameFailed, ...] | None = field(default=None, repr=False)
    player: dict[str, Any] = field(default_factory=dict, repr=False)
    regret: Regret | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)

    @property
    def episodes(self) -> int:
        """The number of games."""
        return len(self.scores)

    @property
    def moves_per_second(self) -> float:
        """The number of legal moves in all games, divided by `seconds`."""
        return float(self.moves.sum() / self.seconds)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """All reported statistics as plain numbers, with 95 % intervals.

        The entries `score` and `moves` contain mean, mean_interval (bootstrap), standard_deviation,
        standard_error, median, median_interval (order statistics; nan for fewer than six
        games), quantiles, min and max.

        For each tile, `reached` contains the number of games that end with this or a higher tile,
        their share, and the share's interval (Wilson). `highest_tile` is the highest tile in any
        game. `tiles` counts the games by their highest tile.

        `failures` counts the failed games by reason, and its entry `finished` describes the scores
        of the other games. `model` is the attribute `player`.

        `regret` contains the mean regret, per_game and per_move. Its entry `unplayed` contains the
        number of charges for early ends, their mean, and their share of all regret. For each kind
        of board, its entries `by_tile_sum` and `by_empty_cells` contain the number of steps, the
        mean regret and the share of all regret. If the objective is "score" or "moves", the entry
        `optimum` is the mean of result plus regret.
        """
        result: dict[str, Any] = {
            "policy": self.policy,
            "episodes": self.episodes,
            **self._origin(),
            "score": _describe(self.scores),
            "moves": _describe(self.moves),
        }
        if self.max_exponents is not None:
            tiles = 2 ** self.max_exponents.astype(np.int64)
            values, counts = np.unique(tiles, return_counts=True)
            highest = int(values[-1])
            result["highest_tile"] = highest
            result["tiles"] = {int(v): int(c) for v, c in zip(values, counts, strict=True)}
            # Small boards can't reach TILES, so lower tiles are reported.
            wanted = [t for t in (4, 8, 16, 32, 64, 128) if highest < TILES[0] and 8 * t >= highest]
            result["reached"] = {
                tile: self._reached(tiles, tile)
                for tile in [*wanted, *TILES]
                if tile <= self._possible_tile()
            }
        if self.failures is not None:
            result["failures"] = self._failures(self.failures)
        if self.player:
            result["model"] = self.player
        if self.regret is not None:
            got = {"score": self.scores, "moves": self.moves}.get(self.regret.objective)
            result["regret"] = self.regret.summary(self.lengths, got)
        result |= {
            "seconds": self.seconds,
            "policy_seconds": self.policy_seconds,
            "moves_per_second": self.moves_per_second,
            "rule_card": self.card,
        }
        return result

    def _origin(self) -> dict[str, Any]:
        """Returns the summary entry that determines the seeds: `first_seed` or `secret`."""
        if self.secret is None:
            return {"first_seed": int(self.seeds[0])}
        return {"secret": self.secret}

    def _possible_tile(self) -> float:
        """Returns the highest possible tile for the rule card's board size: 2^(cells + 1)."""
        size = re.fullmatch(r"(\d+) x (\d+)", str(self.card.get("size", "")))
        return math.inf if size is None else 2.0 ** (int(size[1]) * int(size[2]) + 1)

    def _reached(self, tiles: Array, tile: int) -> dict[str, Any]:
        games = int((tiles >= tile).sum())
        return {
            "games": games,
            "share": games / self.episodes,
            "interval": list(wilson(games, self.episodes)),
        }

    def _failures(self, failures: tuple[GameFailed, ...]) -> dict[str, Any]:
        """Returns the number of failed games by reason, and statistics of the finished games."""
        failed = np.array([failure.seed for failure in failures], np.uint64)
        finished = self.scores[~np.isin(self.seeds, failed)]
        reasons: dict[str, dict[str, Any]] = {}
        for failure in failures:
            named = ("episode", "seed", "step", "detail")
            first = {name: getattr(failure, name) for name in named}
            reasons.setdefault(failure.reason, {"games": 0, "first": first})["games"] += 1
        return {
            "games": len(failures),
            "share": len(failures) / self.episodes,
            "interval": list(wilson(len(failures), self.episodes)),
            "finished": _describe(finished) if len(finished) else None,
            "reasons": dict(sorted(reasons.items(), key=lambda item: -item[1]["games"])),
        }

    def compare(self, other: Evaluation) -> Comparison:
        """Compares this policy with the policy of `other`, game by game on the same seeds.

        Raises:
            InvalidArgument: The evaluations have different seeds, environments or rules.
        """
        if not isinstance(other, Evaluation):
            raise InvalidArgument(
                f"other is {type(other).__name__}; expected an Evaluation", field="other"
            )
        if not np.array_equal(self.seeds, other.seeds):
            raise InvalidArgument(
                "the two evaluations have different seeds; play both with the same episodes and "
                "first_seed or secret",
                field="other",
            )
        for key in ("environment", *RULES):
            a, b = self.card.get(key), other.card.get(key)
            if a != b:
                raise InvalidArgument(
                    f"the two evaluations differ in {key}: {a!r} and {b!r}; play both under the "
                    "same rules",
                    field="other",
                )
        return Comparison.of_scores(self.policy, self.scores, other.policy, other.scores)

    def recording(self, which: str | int) -> Recording:
        """Returns the recording of one game. Requires evaluate(record=True).

        Args:
            which: "best", "worst" or "median" by score, or an episode's number.

        Raises:
            InvalidArgument: The game does not exist, nothing was recorded, or a wrapper of the
                environment changed the recorded actions.
        """
        if self.log is None:
            raise InvalidArgument(
                "the games were not recorded; evaluate with record=True", field="record"
            )
        episode = self._pick(which)
        seed = int(self.seeds[episode])
        actions = self.log.actions(seed, int(self.lengths[episode]))
        about = {"policy": self.policy, "episode": episode}
        recording = Recording.of_seed(self.log.rules, seed, actions, about)
        if recording.score != self.scores[episode]:
            raise InvalidArgument(
                f"episode {episode} scored {self.scores[episode]}, but its replay scored "
                f"{recording.score}, because a wrapper of env changed the actions or the boards",
                field="env",
            )
        return recording

    def _pick(self, which: str | int) -> int:
        place = _arguments.game(which, self.episodes)
        if isinstance(place, int):
            return place
        order = np.argsort(self.scores, kind="stable")
        return int(order[{"worst": 0, "median": len(order) // 2, "best": -1}[place]])

    def __str__(self) -> str:
        return report.text(self.summary)

    def _repr_html_(self) -> str:
        return report.html(self.summary)

    def to_markdown(self) -> str:
        """Returns the report as Markdown."""
        return report.markdown(self.summary)

    def to_json(self, *, games: bool = False) -> str:
        """Returns the summary as JSON. `games=True` adds each game's result, for `from_json`."""
        document: dict[str, Any] = {"format": _FORMAT, "version": 1, **self.summary}
        if games:
            arrays = {name: getattr(self, name) for name in ARRAYS}
            document["games"] = {
                name: None if array is None else array.tolist() for name, array in arrays.items()
            }
            if self.failures is not None:
                each = [{"message": str(failure), **vars(failure)} for failure in self.failures]
                document["games"]["failures"] = each
            if self.regret is not None:
                document["games"]["regret"] = self.regret.document()
        return json.dumps(finite_only(document))

    @staticmethod
    def from_json(text: str) -> Evaluation:
        """Returns the evaluation that was saved with `to_json(games=True)`.

        Raises:
            InvalidArgument: The text was not made by `to_json(games=True)`.
        """
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT:
                raise KeyError("format")
            if document["version"] != 1:
                raise ValueError(f"version {document['version']}; this program reads version 1")
            games, policy_seconds = document["games"], document["policy_seconds"]
            exponents, failures = games["max_exponents"], games.get("failures")
            regret = games.get("regret")
            # Packed arrays refuse what is not an integer or does not fit; numpy converts it.
            found = Evaluation(
                policy=document["policy"],
                card=document["rule_card"],
                seeds=np.array(packed("Q", games["seeds"])),
                scores=np.array([math.nan if one is None else one for one in games["scores"]]),
                moves=np.array(packed("q", games["moves"])),
                lengths=np.array(packed("q", games["lengths"])),
                max_exponents=None if exponents is None else np.array(packed("B", exponents)),
                seconds=document["seconds"],
                policy_seconds=math.nan if policy_seconds is None else float(policy_seconds),
                failures=None if failures is None else tuple(GameFailed(**f) for f in failures),
                player=document.get("model", {}),
                regret=None if regret is None else Regret.of_document(regret),
                secret=document.get("secret"),
            )
            found._check_arrays()
            # Each fails if an entry of the report has a wrong type or value.
            str(found)
            found.to_markdown()
        except MemoryError:  # the text is not to blame
            raise
        except Exception as error:  # of json, numpy or the report
            raise InvalidArgument(
                f"not an evaluation saved with its games ({type(error).__name__}: {error})",
                field="text",
            ) from None
        return found

    def _check_arrays(self) -> None:
        """Raises ValueError unless all arrays have a number for each game."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.max_exponents is None:
            del arrays["max_exponents"]
        if self.regret is not None:
            arrays["regret"] = self.regret.games
        for name, array in arrays.items():
            if array.dtype.kind not in "iuf" or array.shape != (len(self.seeds),) or not array.size:
                raise ValueError(f"{name} does not have a number for each game")

    def plot(self, path: str | Path | None = None, *others: Evaluation) -> Any:
        """Plots the distribution of scores and the share of games that reach each tile.

        If all evaluations have `regret`, the plot also shows the mean regret by tile sum and by
        number of empty cells.

        Args:
            path: The file to save the plot to, if any. Its suffix selects the format.
            *others: More evaluations to show in the same plot.

        Returns:
            The matplotlib Figure.

        Raises:
            MissingDependency: matplotlib is not installed.
            InvalidArgument: matplotlib does not support the file's suffix.
        """
        shown = (self, *others)
        return report.plot([each.scores for each in shown], [each.summary for each in shown], path)


def _describe(values: Array) -> dict[str, Any]:
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return {
        "mean": float(values.mean()),
        "mean_interval": list(bootstrap_mean(values)),
        "standard_deviation": spread,
        "standard_error": spread / len(values) ** 0.5,
        "median": float(np.median(values)),
        "median_interval": list(median_interval(values)),
        "quantiles": {str(q): float(np.quantile(values, q)) for q in QUANTILES},
        "min": float(values.min()),
        "max": float(values.max()),
    }


@dataclass(frozen=True)
class Comparison:
    """A comparison of two policies, game by game on the same seeds.

    Attributes:
        first: The first policy's name.
        second: The second policy's name.
        episodes: The number of game pairs.
        means: The mean scores of both policies.
        difference: The first policy's mean score minus the second policy's.
        difference_interval: The 95 % interval of `difference` (bootstrap over pairs).
        wins: The number of pairs in which the first policy scores higher.
        ties: The number of pairs in which neither policy scores higher.
        win_interval: The 95 % interval of the share of wins among pairs other than ties.
        correlation: The correlation of the paired scores. The higher the correlation, the narrower
            `difference_interval`. nan if the scores of a policy are all equal.
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

    @staticmethod
    def of_scores(first: str, a: Array, second: str, b: Array) -> Comparison:
        """Compares two policies by their scores `a` and `b`, (E,) each, in the same games."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        difference = a - b
        # Rounding errors of added rewards do not count as differences.
        difference[np.isclose(a, b, rtol=1e-12, atol=1e-12)] = 0
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        ties = len(a) - wins - losses
        is_varied = all(0 < np.ptp(scores) < math.inf for scores in (a, b))
        return Comparison(
            first=first,
            second=second,
            episodes=len(a),
            means=(float(a.mean()), float(b.mean())),
            difference=float(difference.mean()),
            difference_interval=bootstrap_mean(difference),
            wins=wins,
            ties=ties,
            win_interval=wilson(wins, len(a) - ties),
            correlation=float(np.corrcoef(a, b)[0, 1]) if is_varied else math.nan,
        )

    @property
    def is_significant(self) -> bool:
        """Whether `difference_interval` excludes 0."""
        return self.difference_interval[0] > 0 or self.difference_interval[1] < 0

    def _title(self) -> str:
        games = "1 seed" if self.episodes == 1 else f"{self.episodes:,} seeds"
        return f"{self.first} against {self.second}, the same {games} each"

    def _figures(self) -> list[list[str]]:
        """Returns the report's rows. Each row has a name and a value."""
        verdict = "yes, the interval excludes 0" if self.is_significant else "no, it includes 0"
        if math.isnan(self.difference_interval.low):
            verdict = "unknown, because there is no interval"
        correlation = "-" if math.isnan(self.correlation) else f"{self.correlation:.3f}"
        places = report.decimals(self.difference, self.difference_interval)
        # A whole difference has no decimals, but its means may need some.
        means = [
            report.fixed(mean, places) if places else report.estimate(mean, UNKNOWN)[0]
            for mean in self.means
        ]
        difference, ends = report.estimate(self.difference, self.difference_interval)
        return [
            ["mean scores", f"{means[0]} and {means[1]}"],
            ["difference", f"{difference}, 95 % interval {ends}"],
            ["significant", f"at the 5 % level: {verdict}"],
            ["pairs", self._pairs()],
            ["correlation", correlation],
        ]

    def _pairs(self) -> str:
        decided = self.episodes - self.ties
        if not decided:
            return "all games tied"
        share, ends = report.share(self.wins / decided), self.win_interval
        return (
            f"{self.wins:,} won by {self.first}, {decided - self.wins:,} by {self.second}, "
            f"{self.ties:,} ties; {share}, 95 % interval {report.interval(ends, report.share)}"
        )

    def __str__(self) -> str:
        lines = [self._title(), *(f"{name:14}{value}" for name, value in self._figures())]
        return "\n".join(map(printable, lines))

    def to_markdown(self) -> str:
        """Returns the comparison as a Markdown table."""
        figures = table(["comparison", ""], self._figures(), "ll", "pipe")
        return report.printed([f"### {markdown(self._title())}", figures])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> str:
        """Returns all attributes as JSON."""
        return json.dumps(finite_only({**vars(self), "is_significant": self.is_significant}))


def finite_only(value: Any) -> Any:
    """Replaces nan and infinities with None, because JSON has neither."""
    if isinstance(value, dict):
        return {str(key): finite_only(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_only(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

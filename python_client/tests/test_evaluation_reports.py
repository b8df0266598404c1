"""Reports, plots and comparisons of evaluations show the right figures, and can be saved."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from evaluations import CONCENTRATION, by_hand, first_legal

import twofold
from twofold import errors
from twofold.evaluation import report as reports
from twofold.evaluation.results import Comparison
from twofold.evaluation.statistics import wilson

# ---- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "highest"), [((2, 3), 128), ((2, 2), 32), ((3, 3), 1024)])
def test_a_report_lists_only_tiles_that_the_board_can_have(
    size: tuple[int, int], highest: int
) -> None:
    result = twofold.evaluate("random", size=size, episodes=50, endpoint="embedded")
    assert max(result.summary["reached"]) == highest


def test_the_summary_has_the_figures() -> None:
    summary = by_hand().summary
    assert summary["score"]["mean"] == 6175
    assert summary["score"]["median"] == 2000
    assert summary["moves"]["max"] == 1000
    assert summary["highest_tile"] == 2048
    assert summary["tiles"] == {64: 2, 256: 1, 2048: 1}
    reached = {tile: entry["games"] for tile, entry in summary["reached"].items()}
    assert list(reached) == [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
    assert reached == {256: 2, 512: 1, 1024: 1, 2048: 1} | dict.fromkeys(
        (4096, 8192, 16384, 32768, 65536), 0
    )
    assert summary["moves_per_second"] == 705


def test_the_summary_has_the_spread_of_the_scores() -> None:
    score = by_hand().summary["score"]
    spread = math.sqrt(sum((x - 6175) ** 2 for x in (700, 1000, 3000, 20000)) / 3)
    assert score["standard_deviation"] == pytest.approx(spread)
    assert score["standard_error"] == pytest.approx(spread / 2)
    assert (score["min"], score["max"]) == (700, 20000)
    assert score["quantiles"] == pytest.approx(
        {"0.05": 745, "0.25": 925, "0.75": 7250, "0.95": 17450}
    )


@pytest.mark.parametrize(("highest", "first"), [(8, 256), (7, 16), (5, 4), (11, 256)])
def test_lower_tiles_are_reported_only_if_no_game_reaches_256(highest: int, first: int) -> None:
    result = dataclasses.replace(by_hand(), max_exponents=np.full(4, highest, np.uint8))
    assert next(iter(result.summary["reached"])) == first


def test_text_markdown_and_html_contain_figures_and_rule_card() -> None:
    result = by_hand("<b>")
    for report in (str(result), result.to_markdown(), result._repr_html_()):
        for part in ("6,175", "25.00 %", "4 x 4", "705 moves per second", "2^63"):
            assert part in report
    assert "&lt;b&gt;" in result._repr_html_()
    assert re.search(r"^\| score +\| +6,175 \|", result.to_markdown(), re.MULTILINE)


@pytest.mark.parametrize(
    ("value", "ends", "mean", "interval"),
    [
        (7.5690, (7.5595, 7.5785), "7.5690", "7.5595 ... 7.5785"),
        (0.213, (0.181, 0.246), "0.213", "0.181 ... 0.246"),
        (24.6, (24.43, 24.81), "24.60", "24.43 ... 24.81"),
        (1109.66, (1001.2, 1204.0), "1,109.7", "1,001.2 ... 1,204.0"),
        (31714.2, (30000.4, 33000.6), "31,714", "30,000 ... 33,001"),
        (31714.2, (31713.9, 31714.5), "31,714.20", "31,713.90 ... 31,714.50"),
        (0.0, (0.0, 0.0), "0", "0 ... 0"),
        (0.0466, (0.0466, 0.0466), "0.04660", "0.04660 ... 0.04660"),
        (7.55, (math.nan, math.nan), "7.550", "-"),
        (math.inf, (1.0, math.inf), "inf", "1 ... inf"),
        (-math.inf, (-math.inf, -math.inf), "-inf", "-inf ... -inf"),
        (math.nan, (1.5, 2.0), "-", "1.50 ... 2.00"),
        # The differences are rounding errors.
        (7.6, (7.6 - 1e-15, 7.6 + 1e-15), "7.600", "7.600 ... 7.600"),
    ],
)
def test_an_estimate_has_two_digits_of_half_its_interval(
    value: float, ends: tuple[float, float], mean: str, interval: str
) -> None:
    assert reports.estimate(value, ends) == (mean, interval)


def test_a_comparison_of_small_scores_with_the_same_difference_shows_their_means() -> None:
    a = twofold.evaluate("perfect-memory", env=CONCENTRATION, episodes=20, endpoint="embedded")
    small = dataclasses.replace(a, scores=np.full(20, 0.04))
    assert "mean scores   0.04000 and 0.04000" in str(small.compare(small))
    assert "mean scores   0.04000 and 1.040" in str(
        small.compare(dataclasses.replace(a, scores=np.full(20, 1.04)))
    )


def test_the_report_comparison_and_plot_of_small_scores_show_the_same_digits() -> None:
    a, b = (
        twofold.evaluate(policy, env=CONCENTRATION, episodes=200, peeks=0, endpoint="embedded")
        for policy in ("perfect-memory", "last-k-memory:4")
    )
    mean, interval = reports.estimate(a.scores.mean(), a.summary["score"]["mean_interval"])
    assert re.fullmatch(r"7\.\d{3,4}", mean)
    assert re.search(rf"^score +{mean} +{interval} ", str(a), re.MULTILINE)
    assert re.search(rf"\| +{mean} \| +{interval} \|", a.to_markdown())
    comparison = str(a.compare(b))
    assert re.search(r"mean scores +7\.\d{3} and 7\.\d{3}\n", comparison)
    assert re.search(r"difference +0\.\d{3}, 95 % interval 0\.\d{3} \.\.\. 0\.\d{3}\n", comparison)
    pytest.importorskip("matplotlib")
    legend = a.plot().axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [f"perfect-memory: mean {mean}"]


def test_the_table_of_tiles_ends_with_the_first_that_no_game_reaches() -> None:
    text = str(by_hand())
    assert re.search(r"^2048 +1 ", text, re.MULTILINE)
    assert re.search(r"^4096 +0 ", text, re.MULTILINE)
    assert not re.search(r"^8192 ", text, re.MULTILINE)


def test_names_in_a_report_do_not_control_the_terminal() -> None:
    result = by_hand("\x1b[2J\x9b31m\u202eevil\nname")
    comparison = result.compare(by_hand("\x1b]0;other\x07"))
    for report in (
        str(result),
        result.to_markdown(),
        str(comparison),
        comparison.to_markdown(),
    ):
        assert all(line.isprintable() for line in report.split("\n"))
    assert "?[2J?31m?evil?name on" in str(result)
    assert "against ?]0;other?, the same" in str(comparison)


def test_a_saved_evaluation_loads_unchanged() -> None:
    result = by_hand()
    again = twofold.Evaluation.from_json(result.to_json(games=True))
    assert again.summary == result.summary
    np.testing.assert_array_equal(again.seeds, result.seeds)
    for text in ("", "{}", result.to_json(), "[1]", "[" * 100_000):
        with pytest.raises(errors.InvalidArgument, match="not an evaluation saved") as caught:
            twofold.Evaluation.from_json(text)
        assert caught.value.field == "text"


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("seeds", [-1, 1, 2, 3], "OverflowError"),
        ("moves", [2**70, 1, 2, 3], "OverflowError"),
        ("moves", [1.5, 1, 2, 3], "TypeError"),
        ("lengths", ["1", 1, 2, 3], "TypeError"),
        ("max_exponents", [300, 1, 2, 3], "OverflowError"),
        ("scores", ["a", "b", "c", "d"], "scores does not have a number for each game"),
        ("lengths", [1, 2, 3], "lengths does not have a number for each game"),
        ("seeds", [], "seeds does not have a number"),
        (
            "failures",
            [{"message": "", "policy": "", "call": 1, "seed": 1, "reason": 1}],
            "AttributeError",
        ),
        (None, {"version": 2}, "version 2; this program reads version 1"),
        (None, {"rule_card": []}, "AttributeError"),
        (None, {"rule_card": {"size": "9999999 x 9"}}, "OverflowError"),
        (None, {"seconds": 0}, "ZeroDivisionError"),
        (None, {"model": {"model": "a"}}, "KeyError"),
    ],
)
def test_a_damaged_evaluation_is_refused(entry: str | None, value: Any, message: str) -> None:
    document = json.loads(by_hand().to_json(games=True))
    if entry is None:
        document |= value
    else:
        document["games"][entry] = value
    with pytest.raises(errors.InvalidArgument, match=message):
        twofold.Evaluation.from_json(json.dumps(document))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_json_has_null_for_an_infinite_score() -> None:
    document = json.loads(by_hand(scores=(1.0, 2.0, 3.0, np.inf)).to_json())
    assert document["score"]["mean"] is None
    json.dumps(document, allow_nan=False)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    by_hand().plot(path, by_hand("other", (1, 2, 3, 4)))
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(errors.InvalidArgument, match="unknownformat"):
        by_hand().plot(tmp_path / "a.unknownformat")


def test_the_plot_of_a_weak_policy_and_a_strong_one_shows_the_same_tiles_of_both() -> None:
    pytest.importorskip("matplotlib")
    weak, strong = (
        dataclasses.replace(by_hand(name), max_exponents=np.array(exponents, np.uint8))
        for name, exponents in (("weak", (5, 6, 7, 7)), ("strong", (6, 10, 11, 11)))
    )
    panel = weak.plot(None, strong).axes[1]
    tiles = [tick.get_text() for tick in panel.get_xticklabels()]
    assert tiles == ["16", "32", "64", "128", "256", "512", "1024", "2048"]
    shares = [bar.get_height() for bar in panel.patches]
    assert shares == [1, 1, 0.75, 0.5, 0, 0, 0, 0, 1, 1, 1, 0.75, 0.75, 0.75, 0.75, 0.5]


def test_a_plot_that_matplotlib_can_not_draw_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("xelatex not found")  # as for .pgf without TeX

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(errors.InvalidArgument, match="xelatex") as info:
        by_hand().plot(tmp_path / "a.pgf")
    assert info.value.field == "path"
    assert not any(tmp_path.iterdir())


def test_the_plot_shows_names_as_they_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [r"x $\foo$ \$", "_private", "by \udcff"]
    figure = by_hand(names[0]).plot(tmp_path / "a.png", *map(by_hand, names[1:]))
    legend = figure.axes[0].get_legend().get_texts()
    shown = [text.get_text().strip().removesuffix(": mean 6,175") for text in legend]
    assert shown == [*names[:2], "by ?"]


def test_the_rule_card_shows_rules_and_means() -> None:
    class Searching:
        card = {  # noqa: RUF012 - as users write it
            "search_max_layers": 2,
            "symmetry_averaging": True,
            "weights_mb": 1.5,
            "threads": 3,
            "notes": "remembers its last move",
        }

        def __call__(self, observations: Any, action_mask: Any) -> Any:
            return first_legal(observations, action_mask)

    result = twofold.evaluate(
        Searching(),
        episodes=2,
        size=(3, 4),
        four_probability=0.25,
        max_episode_steps=50,
        goal=64,
        endpoint="embedded",
    )
    expected = {
        "environment": "twofold/Game2048-v0",
        "size": "3 x 4",
        "spawn law": "2 with 0.75, 4 with 0.25, all empty cells alike",
        "start tiles": 2,
        "goal": "64, play goes on",
        "illegal action": "nothing happens",
        "step limit": 50,
        "policy": "Searching",
        "search depth": "2 max layers (3 plies with chance)",
        "symmetry averaging": "yes",
        "weights, MB": 1.5,
        "threads": 3,
        "notes": "remembers its last move",
    }
    assert expected.items() <= result.card.items()
    assert result.card["server"] == f"none, twofold {result.card['twofold']}"
    assert (result.lengths <= 50).all()


def test_a_rule_card_has_notes_only_if_the_policy_has_some() -> None:
    assert "notes" not in twofold.evaluate("random", episodes=2, endpoint="embedded").card


def test_the_rule_card_of_concentration_shows_deck_and_reward() -> None:
    def card(**arguments: Any) -> dict[str, Any]:
        made = twofold.evaluate(
            "random", env="twofold/Concentration-v0", episodes=2, endpoint="embedded", **arguments
        )
        return made.card

    assert {
        "size": "4 x 13",
        "symbols": 2,
        "peeks": 0,
        "found pairs": "stay face up",
        "illegal action": "ends the turn",
        "step limit": 104,
    }.items() <= card(preset="popgym-easy").items()
    assert card(peeks="unlimited")["peeks"] == "any number"
    reward = {"match": 2, "mismatch": -0.5}
    score = card(reward={"terms": reward, "scale": 0.1, "clip": (-1, None)})["score"]
    assert score == "sum of the rewards: 2 match + -0.5 mismatch, times 0.1, at least -1"


@pytest.mark.parametrize("other", [{"symbols": 2}, {"peeks": 1}, {"reward": {"match": 2}}])
def test_games_of_other_rules_are_not_compared(other: dict[str, Any]) -> None:
    a, b = (
        twofold.evaluate(
            "random", env="twofold/Concentration-v0", episodes=2, endpoint="embedded", **arguments
        )
        for arguments in ({}, other)
    )
    with pytest.raises(errors.InvalidArgument, match="differ in"):
        a.compare(b)


def test_fewer_than_six_games_show_neither_an_interval_nor_a_verdict() -> None:
    comparison = by_hand("a", (5, 9, 7, 8)).compare(by_hand("b", (3, 3, 1, 2)))
    assert np.isnan(comparison.difference_interval).all()
    assert not comparison.is_significant
    assert "\nsignificant   at the 5 % level: unknown, because there is no interval\n" in str(
        comparison
    )


def test_a_report_of_few_games_shows_no_interval_of_the_median() -> None:
    result = by_hand()
    assert re.search(r"^score +6,175 .* +2,000 +- +745 ", str(result), re.MULTILINE)
    assert json.loads(result.to_json())["score"]["median_interval"] == [None, None]


def test_the_report_of_one_game_names_one_seed() -> None:
    assert "next" not in str(twofold.evaluate("fixed-order", episodes=1))


def test_a_long_evaluation_reports_its_seconds_without_an_exponent() -> None:
    assert "; 3,721 s, " in str(dataclasses.replace(by_hand(), seconds=3721.4))


# ---- comparisons ---------------------------------------------------------------------------------


def test_a_policy_compared_with_itself_differs_by_nothing() -> None:
    a, b = (twofold.evaluate(first_legal, episodes=50, endpoint="embedded") for _ in range(2))
    comparison = a.compare(b)
    assert (comparison.difference, comparison.ties, comparison.wins) == (0, 50, 0)
    assert comparison.correlation == pytest.approx(1)
    assert not comparison.is_significant
    assert "\nsignificant   at the 5 % level: no, it includes 0\n" in str(comparison)
    assert "\npairs         all games tied\n" in str(comparison)


def test_the_better_of_two_policies_is_reported() -> None:
    a = twofold.evaluate(first_legal, episodes=200, endpoint="embedded")
    b = twofold.evaluate("random", episodes=200, endpoint="embedded")
    comparison = a.compare(b)
    assert comparison.is_significant
    assert comparison.difference == pytest.approx(a.scores.mean() - b.scores.mean())
    assert comparison.difference in comparison.difference_interval
    verdict = "\nsignificant   at the 5 % level: yes, the interval excludes 0\n"
    assert verdict in str(comparison)
    assert json.loads(comparison.to_json())["wins"] == (a.scores > b.scores).sum()


def test_a_comparison_in_markdown_is_a_table() -> None:
    comparison = by_hand("a_1").compare(by_hand("b", (700, 1000, 3000, 10000)))
    title, empty, *rows = comparison.to_markdown().split("\n")
    assert title == r"### a\_1 against b, the same 4 seeds each"
    assert not empty
    assert all(row.startswith("|") for row in rows)
    cells = [row.strip("| ").split(" | ") for row in rows]
    figures = {name.strip(): value for name, value in cells[2:]}
    assert figures["mean scores"] == "6,175 and 3,675"
    assert figures["significant"] == "at the 5 % level: unknown, because there is no interval"


def test_different_seeds_or_rules_are_not_compared() -> None:
    a, seeded, smaller = by_hand(), by_hand(), by_hand()
    seeded.seeds[0] += np.uint64(9)
    smaller.card["size"] = "3 x 3"
    cases: list[tuple[Any, str]] = [
        (seeded, "different seeds"),
        (smaller, "differ in size"),
        (a.summary, "other is dict"),
    ]
    for other, message in cases:
        with pytest.raises(errors.InvalidArgument, match=message) as caught:
            a.compare(other)
        assert caught.value.field == "other"


def test_equal_scores_have_no_correlation_even_if_their_mean_is_rounded() -> None:
    scores = np.full(7, 0.1)
    assert scores.mean() != 0.1
    assert math.isnan(Comparison.of_scores("a", scores, "b", np.arange(7.0)).correlation)


def test_rounding_errors_of_added_rewards_are_no_difference() -> None:
    comparison = Comparison.of_scores("a", np.full(6, 0.1 + 0.2), "b", np.full(6, 0.3))
    assert (comparison.wins, comparison.ties, comparison.difference) == (0, 6, 0)
    assert not comparison.is_significant


def test_a_comparison_counts_each_pair_once() -> None:
    scores = np.array([700, 1000, 3000, 20000])
    comparison = by_hand("a", scores).compare(by_hand("b", (700, 999, 3001, 19999)))
    assert (comparison.wins, comparison.ties) == (2, 1)
    assert comparison.win_interval == wilson(2, 3)
    crossed = by_hand("a", scores).compare(by_hand("b", scores[::-1])).correlation
    assert crossed == pytest.approx(np.corrcoef(scores, scores[::-1])[0, 1])


def test_the_worse_of_two_policies_is_significant_too() -> None:
    seeds = np.arange(20, dtype=np.uint64)
    a = dataclasses.replace(by_hand("a"), seeds=seeds, scores=np.arange(20))
    b = dataclasses.replace(by_hand("b"), seeds=seeds, scores=np.arange(20) + 5 + np.arange(20) % 3)
    assert a.compare(b).is_significant
    assert b.compare(a).is_significant


def test_large_scores_that_differ_by_little_are_no_tie() -> None:
    comparison = by_hand("a", (300_001,) * 4).compare(by_hand("b", (300_000,) * 4))
    assert (comparison.wins, comparison.ties, comparison.difference) == (4, 0, 1)

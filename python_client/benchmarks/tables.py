"""The tables for the documents. `figures.py` reads their rows from docs/figures.

Each measuring command also prints its own rows as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from figures import Row

Lines = Iterable[Sequence[str]]


def markdown(head: Sequence[str], rows: Lines, align: str = "") -> str:
    """Returns a table in Markdown.

    Args:
        head: The columns' names.
        rows: The cells of each row.
        align: A letter for each column: l for left, r for right. The last letter also applies to
            all further columns.
    """
    letters = align.ljust(len(head), align[-1:] or "l")
    rule = ["---:" if letter == "r" else "---" for letter in letters]
    escaped = (
        [cell.replace("|", r"\|").replace("\n", " ") for cell in line]
        for line in ([*head], rule, *rows)
    )
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)


def interval(values: Sequence[float], digits: int = 0) -> str:
    """Returns a value as text, with its range if that is known: 60,153 (55,791 ... 64,949)."""
    middle, *ends = (f"{value:,.{digits}f}" for value in values)
    return f"{middle} ({' ... '.join(ends)})" if ends else middle


def significant(value: float) -> str:
    """Returns a number as text: two significant digits, or all digits before the decimal point."""
    return f"{value:.0f}" if value >= 9.95 else f"{float(f'{value:.2g}'):g}"


# ---- make bench ----------------------------------------------------------------------------------

RATES = {
    "Twofold, `copy=False`": ["twofold-held"],
    "Twofold": ["twofold"],
    "numba over bitboards, one core / all cores": ["numba-bitboard", "numba-parallel"],
    "Jumanji, CPU": ["jumanji"],
    "pgx, CPU": ["pgx"],
    "EnvPool, `Game2048-v1` / `Play2048-v1`": ["envpool", "envpool-play"],
    "gymnasium-2048": ["gymnasium-2048"],
}
"""The labels of the rows in the table of rates, and the contestants in each row."""

CALL_SIZES = (1, 4096, 65536)
CALLS = {
    "in the process, `copy=False`": "twofold-held",
    "over ipc": "twofold-ipc",
    "over tcp": "twofold-tcp",
    "ZeroMQ alone, tcp: echoes the same bytes": "limit-tcp",
    "numba, all cores": "numba-parallel",
}

LOOPS = {
    "no environment at all": "nothing",
    "Twofold, in the process": "twofold",
    "Twofold, tcp, one step at a time": "twofold-tcp",
    "numba over bitboards": "numba-bitboard",
    "EnvPool, `Game2048-v1`": "envpool",
}


class Bench:
    """The figures of `make bench`, for the contestants, the parts of a step, and the engines."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._found = {
            (one["contestant"], one["size"], one["condition"]): one
            for one in rows
            if "contestant" in one
        }
        self._split = [one for one in rows if "python" in one]
        self._engines = [one for one in rows if "threads" in one]
        self._sizes = sorted({size for _, size, condition in self._found if condition == "alone"})

    def rates(self, labels: Iterable[str] = RATES) -> str:
        """Returns the table of contestants' rates when run alone, in millions of steps/s."""
        rows = []
        for label in labels:
            cells = []
            for size in self._sizes:
                found = [self._found.get((name, size, "alone"), {}) for name in RATES[label]]
                rates = [one["rate"] / 1e6 for one in found if one.get("rate")]
                cells.append(" / ".join(map(significant, rates)))
            rows.append([label, *cells])
        return markdown(["boards N", *(f"{size:,}" for size in self._sizes)], rows, "lr")

    def calls(self) -> str:
        """Returns the table of call times (mean / p99), alone and next to a busy process."""
        columns = [(size, at) for size in CALL_SIZES for at in ("alone", "beside one")]
        head = [f"N = {size:,}" if at == "alone" else "busy" for size, at in columns]
        rows = []
        for label, name in CALLS.items():
            found = (self._found[name, size, condition] for size, condition in columns)
            rows.append([label, *map(self._call, found)])
        return markdown(["", *head], rows, "lr")

    @staticmethod
    def _call(row: Row) -> str:
        mean = row["microseconds"]
        return f"{mean:,.{0 if mean >= 10 else 1}f} / {row['p99']:,.0f}"

    def loops(self) -> str:
        """Returns the table of a learner's loops per second, relative to a loop without boards."""
        found = {(name, at): row for (name, _, at), row in self._found.items()}
        conditions = sorted(
            {condition for _, _, condition in self._found if condition.startswith("learner")},
            key=lambda condition: float(condition.split()[1]),
        )
        rows = []
        for label, name in LOOPS.items():
            cells = []
            for condition in conditions:
                row, nothing = found[name, condition], found["nothing", condition]
                share = f" ({100 * row['rate'] / nothing['rate']:.0f} %)"
                cells.append(f"{row['rate'] / row['size']:,.0f}{'' if row is nothing else share}")
            rows.append([label, *cells])
        heads = [condition.removeprefix("learner, ") for condition in conditions]
        return markdown(["the policy takes", *heads], rows, "lr")

    def split(self) -> str:
        """Returns the table of the parts of an in-process step, in microseconds."""
        parts = {
            "a step": "step",
            "Python": "python",
            "crossing": "crossing",
            "session": "session",
            "engine": "engine",
        }
        rows = [
            [
                f"{one['size']:,}",
                *("" if one[part] is None else f"{one[part]:.1f}" for part in parts.values()),
            ]
            for one in self._split
        ]
        return markdown(["boards N", *parts], rows, "r")

    def engines(self) -> str:
        """Returns the table of the engines' rates, also relative to the scalar engine."""
        scalar = self._engines[-1]["rate"]
        rows = [
            [one["engine"], f"{one['rate'] / 1e6:.0f}", f"{one['rate'] / scalar:.1f}"]
            for one in self._engines
        ]
        return markdown(["engine", "million steps per second", "times row tables"], rows, "lr")


# ---- agents --------------------------------------------------------------------------------------


def evaluated(found: Row) -> Row:
    """Returns the figures of an evaluation, given the output of `twofold evaluate`."""
    reached = {tile: found["reached"][tile] for tile in TILES}
    return {
        "games": found["episodes"],
        "mean": [found["score"]["mean"], *found["score"]["mean_interval"]],
        "reached": {tile: [one["share"], *one["interval"]] for tile, one in reached.items()},
    }


def demo(rows: Iterable[Row]) -> str:
    """Returns the table of the agent of `make demo` and two baselines."""
    lines = [
        [
            row["agent"],
            f"{row['games']:,}",
            interval(row["mean"]),
            *(_share(row["reached"][tile][:1]) for tile in TILES),
        ]
        for row in rows
    ]
    return markdown(["agent", "games", "mean score", *TILES], lines, "lr")


def agents(rows: Iterable[Row]) -> str:
    """Returns the table of agents: scores, shares of games that reach each tile, and commands."""
    lines = [
        [*_agent(row), f"{row['moves_per_second']:,.0f}", f"`{row['command']}`"] for row in rows
    ]
    return markdown([*AGENT, "moves/s", "command: `twofold evaluate` …"], lines, "llrrrrrrl")


def trainings(rows: Iterable[Row]) -> str:
    """Returns the table of agents from several training runs."""
    return markdown(AGENT, map(_agent, rows), "llr")


TILES = ("2048", "4096", "8192")
AGENT = ("agent", "depth", "games", "mean score", *TILES)


def _agent(row: Row) -> list[str]:
    digits = 1 if row["games"] >= 100_000 else 0
    shares = (_share(row["reached"].get(tile)) for tile in TILES)
    return [
        row["agent"],
        row["depth"],
        f"{row['games']:,}",
        interval(row["mean"], digits),
        *shares,
    ]


def _share(share: Sequence[float] | None) -> str:
    """Returns a share of games as text, with its interval if that is known."""
    match share:
        case None:
            return ""
        case [value]:
            return f"{_percent(value)} %" if value else "0"
        case [value, low, high]:
            return f"{_percent(value)} % ({_percent(low)} ... {_percent(high)})"
    raise AssertionError(share)


def _percent(share: float) -> str:
    """Returns a share as a percentage, rounded to four digits."""
    return f"{100 * share:.4g}"


def learning(rows: Iterable[Row]) -> str:
    """Returns the table of mean scores after equal numbers of games, moves and minutes."""
    units = {"games": 1, "million moves": 1e6, "minutes": 60}
    lines = [
        [
            row["axis"],
            f"{row['after'] / units[row['axis']]:,.0f}",
            f"{row['median']:,.0f}",
            f"{row['lowest']:,.0f} to {row['highest']:,.0f}",
        ]
        for row in rows
    ]
    return markdown(["after", "", "median of the mean scores", "lowest to highest"], lines, "lrrl")


def score_per_second(rows: Sequence[Row]) -> str:
    """Returns the table of learners' scores after the same training time."""
    minutes = sorted({float(each) for row in rows for each in row["scores"]})
    head = ["learner", "policy", "hardware", "moves/s with learning"]
    lines = []
    for row in rows:
        scores = {float(each): interval(score) for each, score in row["scores"].items()}
        cores = f"{row['cores']} {'core' if row['cores'] == 1 else 'cores'}"
        lines.append(
            [
                row["learner"],
                row["policy"],
                f"{row['processor']}, {cores}, {row['cores_used']:.2f} used",
                f"{row['moves_per_second']:,.0f}",
                *(scores.get(each, "") for each in minutes),
            ]
        )
    return markdown([*head, *(f"after {each:g} min" for each in minutes)], lines, "lllr")


def regret(rows: Sequence[Row]) -> str:
    """Returns the table of regret per game on small boards, also as a share of the optimum."""
    boards = list(dict.fromkeys(row["board"] for row in rows))
    optima = {row["board"]: row for row in rows if row["learner"] == "optimum"}
    cells = {(row["learner"], row["board"]): row for row in rows}
    learners = [name for name in dict.fromkeys(row["learner"] for row in rows) if name != "optimum"]
    lines = []
    for learner in learners:
        line = [learner]
        for board in boards:
            optimum = optima[board]["score"]
            found = cells.get((learner, board))
            line.append(_regret(found["regret"], optimum) if found and found["regret"] else "")
        lines.append(line)
    lines.append(["the optimum's score", *(f"{optima[each]['score']:,.3f}" for each in boards)])
    heads = [f"{each}, {optima[each]['moves'] / 1e6:g} M moves" for each in boards]
    return markdown(["regret of a game", *heads], lines)


def _regret(values: Sequence[float], optimum: float) -> str:
    digits = 2 if optimum < 100 else 0
    text = interval(values, digits) if len(values) == 3 else f"{values[0]:,.{digits}f}"
    return f"{text}, {values[0] / optimum:.1%}"


def training(rows: Iterable[Row], agents: Iterable[Row]) -> str:
    """Returns the table of scores with each RL library, also relative to two baselines."""
    baselines = {row["agent"].partition(":")[0]: row["mean"][0] for row in agents}
    lines = [
        [
            row["learner"],
            row["library"],
            str(row["glue"]),
            row["autoreset"],
            f"{row['steps_per_second']:,.0f}",
            f"{row['usual']:,.0f}" if row["usual"] else "",
            f"{row['minutes']:g}",
            f"{row['score'][0]:,.0f}",
            f"{row['score'][1]:,.0f} to {row['score'][2]:,.0f}",
            *(f"{row['score'][0] / baselines[name]:.1f}" for name in ("random", "fixed order")),
        ]
        for row in rows
    ]
    head = [
        "learner",
        "library",
        "lines of glue",
        "autoreset",
        "steps/s",
        "with gymnasium-2048",
        "minutes",
        "mean score, median of the seeds",
        "lowest to highest",
        "times random play",
        "times fixed order",
    ]
    return markdown(head, lines, "llrlrrrrlrr")


def ppo(rows: Iterable[Row]) -> str:
    """Returns the table of scores during and after the training of two PPO programs."""
    minutes = ("1", "2", "5", "10")
    lines = [
        [
            row["learner"],
            row["library"],
            f"{row['cores_used']:.2f}",
            f"{row['steps_per_second']:,.0f}",
            *(f"{row['scores'][at]:,.0f}" if at in row["scores"] else "" for at in minutes),
            interval(row["greedy"]),
        ]
        for row in rows
    ]
    heads = [f"at {at} min" for at in minutes]
    head = ["learner", "library", "core used", "steps/s", *heads, "after training, greedy"]
    return markdown(head, lines, "llr")


def published(rows: Iterable[Row]) -> str:
    """Returns the table of published networks."""
    lines = ([name, *cells] for name, _, *cells in (_agent(row | {"depth": ""}) for row in rows))
    return markdown(["network", *AGENT[2:]], lines, "lr")


def recurrent(rows: Iterable[Row]) -> str:
    """Returns the table of turns per game of `recurrent_ppo.py`, during and after training."""
    lines, steps = [], ["40960", "81920", "122880"]
    for row in rows:
        while_training = [row.get("turns_at", {}).get(each) for each in steps]
        rate = row.get("steps_per_second")
        lines.append(
            [
                row["player"],
                f"{row['turns']:.2f}",
                *("" if turns is None else f"{turns:.2f}" for turns in while_training),
                "" if rate is None else f"{rate:,.0f}",
            ]
        )
    heads = [f"at {int(each):,}{' steps' if each == steps[0] else ''}" for each in steps]
    return markdown(["`python recurrent_ppo.py` …", "turns", *heads, "steps/s"], lines, "lr")


def ceilings(rows: Iterable[Row]) -> str:
    """Returns the table of the highest possible return for each number of remembered cards."""
    head = ["preset", "remembered cards", "return", "steps", "turns", "cleared"]
    return markdown(head, _ceilings(rows), "lr")


def _ceilings(rows: Iterable[Row]) -> Iterator[list[str]]:
    for row in rows:
        yield [
            row["preset"],
            row["memory"],
            f"{row['return']:.4f}",
            f"{row['steps']:.2f}",
            f"{row['turns']:.2f}",
            f"{100 * row['cleared']:.2f} %",
        ]


def memory_of_cards(rows: Sequence[Row]) -> str:
    """Returns the table of mean returns by the number of cards that a player remembers."""
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    found = {(row["memory"], row["preset"]): interval(row["return"], 3) for row in rows}
    lines = [
        ["random play" if memory == "random" else memory]
        + [found.get((memory, preset), "") for preset in presets]
        for memory in dict.fromkeys(row["memory"] for row in rows)
    ]
    return markdown(["remembered cards", *(f"`{one}`" for one in presets)], lines, "lr")


def gru(rows: Sequence[Row], ceilings: Iterable[Row]) -> str:
    """Returns the table of returns: POPGym's GRU, random play and the maximum possible."""
    most = {(row["preset"], row["memory"]): row["return"] for row in ceilings}
    lines: dict[str, list[str]] = {}
    for row in rows:
        low, high = row["interval"]
        cells = {
            "steps of training": f"{row['steps']:,}",
            "MMER": f"{row['mmer']:.4f}",
            "mean return of 1,000 games afterwards": f"{row['return']:.4f}",
            "its 95 % interval": f"{low:.4f} to {high:.4f}",
            "random play of any card": f"{row['random']:.4f}",
            "MMER of random play, same number and size of batches": f"{row['random_mmer']:.4f}",
            "maximum with a memory of 0 cards": f"{most[row['preset'], '0']:.4f}",
            "maximum with a memory of 4 cards": f"{most[row['preset'], '4']:.4f}",
            "maximum with all cards": f"{most[row['preset'], 'all']:.4f}",
        }
        for label, cell in cells.items():
            lines.setdefault(label, [label]).append(cell)
    return markdown(["", *(f"`{row['preset']}`" for row in rows)], lines.values(), "lr")


# ---- the optimum, the simulation, and other measurements -----------------------------------------


def optimum(rows: Sequence[Row]) -> str:
    """Returns the table of the results of `twofold solve` for each board."""

    def tile(row: Row, at: int) -> str:
        value, share = row["tiles"][at]
        return f"{value}, {100 * share:.4f} %"

    def small(value: float | None) -> str:
        return "" if value is None else f"{value:g}"

    lines = {
        "boards up to symmetry": [f"{row['boards']:,}" for row in rows],
        "terminal ones among them": [f"{row['terminal']:,}" for row in rows],
        "expected score": [f"{row['score']:,.6f}" for row in rows],
        "expected moves": [f"{row['moves']:,.4f}" for row in rows],
        "highest tile, and its probability": [tile(row, 0) for row in rows],
        "the tile before it": [tile(row, 1) for row in rows],
        "file, MB": [small(row["megabytes"]) for row in rows],
        "processor time, s": [small(row["processor_seconds"]) for row in rows],
        "peak memory in this run, GB": [small(row["memory_gigabytes"]) for row in rows],
    }
    body = [[label, *cells] for label, cells in lines.items()]
    return markdown(["", *(row["board"].replace("x", " x ") for row in rows)], body, "lr")


def optimal_play(rows: Iterable[Row], optima: Iterable[Row]) -> str:
    """Returns the table of results of optimal play, with their distance from the exact optimum."""
    expected = {row["board"]: row["score"] for row in optima}
    lines = []
    for row in rows:
        deviation = abs(row["mean"] - expected[row["board"]]) / row["standard_error"]
        score = f"{row['mean']:,.2f} ± {row['standard_error']:.2f}"
        shares = (f"{tile} in {100 * share:.4g} %" for tile, share in row["tiles"])
        line = [row["board"].replace("x", " x "), f"{row['games']:,}", score, f"{deviation:.1f}"]
        lines.append([*line, ", ".join(shares)])
    distance = "distance from the optimum, in standard errors"
    head = ["board", "games", "mean score, standard error", distance]
    return markdown([*head, "tiles"], lines, "lrrrl")


def optimum_infos(rows: Sequence[Row]) -> str:
    """Returns the table of speeds on 3 x 3 with the optimum's infos (millions of steps/s)."""
    names = list(dict.fromkeys(row["infos"] for row in rows))
    games = list(dict.fromkeys(row["games"] for row in rows))
    rates = {(row["games"], row["infos"]): row["rate"] / 1e6 for row in rows}
    lines = [[each, *(f"{rates[each, name]:.1f}" for name in names)] for each in games]
    heads = [name if " " in name else f"`{name}`" for name in names]
    return markdown(["games", *heads], lines, "lr")


def scans(rows: Iterable[Row]) -> str:
    """Returns the table of rates inside `jax.lax.scan` (millions of steps/s, ratios)."""
    labels = {"twofold": "Twofold", "pgx": "pgx", "jumanji": "Jumanji"}
    lines: dict[str, list[str]] = {}
    sizes = []
    for row in rows:
        ratio = "" if row["package"] == "twofold" else f" ({significant(row['ratio'])} x)"
        label = f"{labels[row['package']]}, {row['actions']} actions"
        lines.setdefault(label, []).append(f"{significant(row['rate'] / 1e6)}{ratio}")
        sizes.append(row["size"])
    heads = [f"{size:,}" for size in sorted(set(sizes))]
    return markdown(["boards N", *heads], ([label, *cells] for label, cells in lines.items()), "lr")


def campaigns(rows: Iterable[Row]) -> str:
    """Returns the table of simulation campaigns that found no violation."""
    lines = [
        [
            row["clients"],
            f"{row['seeds'][0]:,} ... {row['seeds'][1]:,}",
            f"{row['steps']:,}",
            f"{row['requests']:,}",
            f"{row['requests_per_second']:,.0f}",
            f"{row['simulated_hours']:,.1f} h",
        ]
        for row in rows
    ]
    head = ["clients", "seeds", "runs of", "requests", "a second", "simulated time"]
    return markdown(head, lines, "llr")


MARKS = {
    "idleExpired": "a session expired",
    "restored": "a session outlived a restart",
    "resumeWaited": "a resume waited for a request in progress",
    "parked": "a repeat was parked",
    "killedDuringJob": "a job was lost with its server",
    "lostNames": "a loss of power took a file's name",
    "interrupted": "a call was interrupted",
    "recovered": "a session was made again from the journal",
    "resumed in another process": "a session was taken over by another process",
    "shut out while it resumes": "a resume lost a race",
}
"""The rare events (marks) of the simulation that the documents count, with descriptions."""


def marks(rows: Sequence[Row]) -> str:
    """Returns the table of rare events (marks), with their counts in each campaign."""
    lines = []
    for name, happened in MARKS.items():
        counts = [row["marks"].get(name) for row in rows]
        lines.append([happened, *("" if count is None else f"{count:,}" for count in counts)])
    heads = [f"{row['clients']}, seeds from {row['seeds'][0]:,}" for row in rows]
    return markdown(["what happened", *heads], lines, "lr")


def defects(rows: Iterable[Row]) -> str:
    """Returns the table of planted defects: the time and the requests until each was found."""
    lines = [
        [
            row["defect"],
            row["in"],
            "not found" if row["seconds"] is None else f"{row['seconds']:.1f} s",
            "" if row["requests"] is None else f"{row['requests']:,}",
        ]
        for row in rows
    ]
    return markdown(["defect", "in", "found after", "requests"], lines, "llr")


def unseen(rows: Sequence[Row]) -> str:
    """Returns the table of defects that another author planted: how many were found, by kind."""

    def line(kind: str, chosen: Sequence[Row]) -> list[str]:
        count, missed = sum(row["defects"] for row in chosen), [row["missed"] for row in chosen]
        return [kind, str(count), str(count - sum(map(len, missed)))]

    lines = [[*line(row["kind"], [row]), "; ".join(row["missed"])] for row in rows]
    return markdown(
        ["kind", "defects", "found", "not found"], [*lines, [*line("all", rows), ""]], "lrrl"
    )


def restarts(rows: Iterable[Row]) -> str:
    """Returns the table of how long servers take to save and restore sessions."""
    lines = [
        [
            f"{row['sessions']:,}",
            f"{row['boards']}" if row["sessions"] else "",
            interval(row["stop"], 2),
            interval(row["start"], 2),
            f"{row['lost']}" if row["sessions"] else "",
        ]
        for row in rows
        if "stop" in row
    ]
    head = ["sessions", "boards in each", "stop, s", "start, s", "sessions lost"]
    return markdown(head, lines, "r")


def waiting(rows: Iterable[Row]) -> str:
    """Returns the table of sessions that were lost while their requests waited for the server."""
    lines = [
        [
            row["while"],
            f"{row['waiting_sessions']:,}",
            f"{row['idle_timeout']} s",
            str(row["lost"]),
        ]
        for row in rows
        if "while" in row
    ]
    head = ["while", "sessions with a waiting request", "idle timeout", "sessions lost"]
    return markdown(head, lines, "lr")


def foresight(rows: Iterable[Row]) -> str:
    """Returns the table of scores of a program that searches for its game's seed."""
    lines = [
        [
            row["seeds"],
            row["program"],
            f"{row['games']:,}",
            f"{row['mean']:,.0f}",
            "" if row["difference"] is None else interval(row["difference"]),
        ]
        for row in rows
    ]
    head = ["seeds", "program", "games", "mean score", "more than without looking"]
    return markdown(head, lines, "llr")


def openenv(rows: Iterable[Row]) -> str:
    """Returns the table of move times over a thousand OpenEnv connections to one server."""
    lines = [
        [
            f"{row['server']}, {row['load']}",
            f"{row['moves_per_second']:,.0f}",
            f"{significant(row['p50'])} ms",
            f"{significant(row['p99'])} ms",
            f"{row['server_ms']:.1f} ms",
            f"{row['megabytes']:.0f} MB",
        ]
        for row in rows
    ]
    heads = ["moves/s", "half within", "99 % within", "processor time per move", "memory"]
    return markdown(["1,000 connections", *heads], lines, "lr")


def arm64(rows: Iterable[Row]) -> str:
    """Returns the table of the parts of `make arm64-test`, and of the tests that it leaves out."""
    kinds: dict[str, list[Row]] = {}
    left_out = []
    for row in rows:
        if "left out" in row:
            left_out.append([f"`{row['left out']}`", row["reason"]])
        else:
            kinds.setdefault(row["part"].partition(":")[0], []).append(row)
    parts = []
    for kind, found in kinds.items():
        first = found[0]
        cells = [f"{name} {value}" for name, value in first.get("versions", {}).items()]
        cells += [f"{name}: `{value[:16]}`" for name, value in first.get("hashes", {}).items()]
        if "tests" in first:
            skipped = sum(row["skipped"] for row in found)
            passed = sum(row["tests"] for row in found) - skipped
            cells.append(f"{passed:,} tests passed, {skipped:,} skipped")
        elif "vector instructions" in first:
            cells.append(f"{first['vector instructions']:,} vector instructions")
        elif "name" in first:
            cells.append(f"`{first['name']}`")
        minutes = sum(row["seconds"] for row in found) / 60
        commits = dict.fromkeys(f"`{row['commit'][:12]}`" for row in found)
        parts.append([kind, "; ".join(cells), significant(minutes), ", ".join(commits)])
    done = markdown(["part", "result", "minutes", "commit"], parts, "llrl")
    return f"{done}\n{markdown(['left out', 'reason'], left_out)}"


def times(rows: Iterable[Row]) -> str:
    """Returns the table of how long each step of `make test` takes."""
    lines = [
        [
            row["step"],
            f"{row['seconds']:.0f}",
            "" if row["busy"] is None else f"{row['busy']:.1f}",
        ]
        for row in rows
        if "step" in row
    ]
    return markdown(["step", "s", "processors busy"], lines, "lr")


def slowest(rows: Iterable[Row]) -> str:
    """Returns the table of the slowest tests of `make test`."""
    found = sorted((row for row in rows if "test" in row), key=lambda row: -row["seconds"])
    lines = [[row["test"], f"{row['seconds']:.0f}"] for row in found]
    return markdown(["test", "s"], lines, "lr")


def commands(rows: Iterable[Row]) -> str:
    """Returns the table of the time and memory that `twofold` commands take."""
    lines = [
        [
            f"`{row['command']}`" if row["command"].startswith("twofold ") else row["command"],
            f"{row['seconds']:.1f}",
            "" if row["megabytes"] is None else f"{row['megabytes']:,.0f}",
        ]
        for row in rows
    ]
    return markdown(["", "s", "peak memory, MB"], lines, "lr")

"""The tables for the documents. `figures.py` reads their rows from docs/figures.

Each measuring command also prints its own rows as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from figures import Row

Lines = Iterable[Sequence[str]]
Cell = str | Callable[[Row], str]
"""A row's cell: a format string such as "{games:,}", or a function."""
Columns = Mapping[str, Cell]
"""The cell of each column, by the column's name."""


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


def table(rows: Iterable[Row], columns: Columns, align: str = "") -> str:
    """Returns a table with a line for each row."""
    head, *lines = _lines(rows, columns)
    return markdown(head, lines, align)


def turned(rows: Iterable[Row], columns: Columns) -> str:
    """Returns a table with a column for each row; the first of `columns` names it."""
    head, *lines = zip(*_lines(rows, columns), strict=True)
    return markdown(head, lines, "lr")


def _lines(rows: Iterable[Row], columns: Columns) -> list[list[str]]:
    """Returns the names of the columns, and then the cells of each row."""
    cells = [cell.format_map if isinstance(cell, str) else cell for cell in columns.values()]
    return [[*columns], *([cell(row) for cell in cells] for row in rows)]


def matrix(corner: str, cells: Mapping[tuple[str, str], str], align: str = "lr") -> str:
    """Returns a table, given each cell by the names of its line and its column."""
    lines = dict.fromkeys(line for line, _ in cells)
    columns = dict.fromkeys(column for _, column in cells)
    body = ([line, *(cells.get((line, column), "") for column in columns)] for line in lines)
    return markdown([corner, *columns], body, align)


def figure(render: Callable[[Any], str], *path: str) -> Cell:
    """Returns a cell with the figure at a path in the row; the cell is empty without a figure."""

    def cell(row: Row) -> str:
        found: Any = row
        for name in path:
            found = None if found is None else found.get(name)
        return "" if found is None else render(found)

    return cell


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

    def rates(self, contestants: Mapping[str, Sequence[str]] = RATES) -> str:
        """Returns the table of contestants' rates when run alone, in millions of steps/s."""
        sizes = sorted({size for _, size, condition in self._found if condition == "alone"})
        cells = {}
        for label, names in contestants.items():
            for size in sizes:
                found = [self._found.get((name, size, "alone"), {}) for name in names]
                rates = [significant(one["rate"] / 1e6) for one in found if one.get("rate")]
                cells[label, f"{size:,}"] = " / ".join(rates)
        return matrix("boards N", cells)

    def calls(
        self, contestants: Mapping[str, str] = CALLS, sizes: Iterable[int] = CALL_SIZES
    ) -> str:
        """Returns the table of call times (mean / p99), alone and next to a busy process."""
        columns = [(size, at) for size in sizes for at in ("alone", "beside one")]
        head = [f"N = {size:,}" if at == "alone" else "busy" for size, at in columns]
        rows = []
        for label, name in contestants.items():
            found = (self._found.get((name, *column)) for column in columns)
            rows.append([label, *map(self._call, found)])
        return markdown(["", *head], rows, "lr")

    @staticmethod
    def _call(row: Row | None) -> str:
        if row is None:
            return ""
        mean = row["microseconds"]
        return f"{mean:,.{0 if mean >= 10 else 1}f} / {row['p99']:,.0f}"

    def loops(self, contestants: Mapping[str, str] = LOOPS) -> str:
        """Returns the table of a learner's loops per second, relative to a loop without boards."""
        found = {(name, at): row for (name, _, at), row in self._found.items()}
        conditions = sorted(
            {condition for _, _, condition in self._found if condition.startswith("learner")},
            key=lambda condition: float(condition.split()[1]),
        )
        cells = {}
        for label, name in contestants.items():
            for condition in conditions:
                row, nothing = (found.get((each, condition)) for each in (name, "nothing"))
                if row is not None and nothing is not None:
                    share = f" ({100 * row['rate'] / nothing['rate']:.0f} %)"
                    cells[label, condition.removeprefix("learner, ")] = (
                        f"{row['rate'] / row['size']:,.0f}{'' if row is nothing else share}"
                    )
        return matrix("the policy takes", cells)

    def split(self) -> str:
        """Returns the table of the parts of an in-process step, in microseconds."""
        columns: Columns = {
            "boards N": "{size:,}",
            "a step": "{step:.1f}",
            "Python": figure("{:.1f}".format, "python"),
            "crossing": figure("{:.1f}".format, "crossing"),
            "session": figure("{:.1f}".format, "session"),
            "engine": figure("{:.1f}".format, "engine"),
        }
        return table(self._split, columns, "r")

    def engines(self) -> str:
        """Returns the table of the engines' rates."""
        columns: Columns = {
            "engine": "{engine}",
            "million steps per second": lambda row: f"{row['rate'] / 1e6:.0f}",
        }
        return table(self._engines, columns, "lr")


# ---- agents --------------------------------------------------------------------------------------

TILES = ("2048", "4096", "8192")


def evaluated(found: Row) -> Row:
    """Returns the figures of an evaluation, given the output of `twofold evaluate`."""
    reached = {tile: found["reached"][tile] for tile in TILES}
    return {
        "games": found["episodes"],
        "mean": [found["score"]["mean"], *found["score"]["mean_interval"]],
        "reached": {tile: [one["share"], *one["interval"]] for tile, one in reached.items()},
    }


def _share(share: Sequence[float]) -> str:
    """Returns a share of games as text, with its interval if that is known."""
    middle, *ends = (f"{100 * value:.4g}" for value in share)
    if ends:
        return f"{middle} % ({' ... '.join(ends)})"
    return f"{middle} %" if share[0] else "0"


PLAYED: Columns = {
    "games": "{games:,}",
    "mean score": lambda row: interval(row["mean"], 1 if row["games"] >= 100_000 else 0),
    **{tile: figure(_share, "reached", tile) for tile in TILES},
}
"""The columns with the results of an evaluation."""
AGENT: Columns = {"agent": "{agent}", "depth": "{depth}", **PLAYED}


def demo(rows: Iterable[Row]) -> str:
    """Returns the table of the agent of `make demo` and two baselines."""
    shares = {tile: figure(lambda share: _share(share[:1]), "reached", tile) for tile in TILES}
    return table(rows, {"agent": "{agent}", **PLAYED, **shares}, "lr")


def agents(rows: Iterable[Row]) -> str:
    """Returns the table of agents: scores, shares of games that reach each tile, and commands."""
    others: Columns = {
        "moves/s": "{moves_per_second:,.0f}",
        "command: `twofold evaluate` …": "`{command}`",
    }
    return table(rows, {**AGENT, **others}, "llrrrrrrl")


def trainings(rows: Iterable[Row]) -> str:
    """Returns the table of agents from several training runs."""
    return table(rows, AGENT, "llr")


def learning(rows: Iterable[Row]) -> str:
    """Returns the table of mean scores after equal numbers of games, moves and minutes."""
    units = {"million moves": 1e6, "minutes": 60}

    def after(row: Row) -> str:
        number = row["after"] / units.get(row["axis"], 1)
        return f"{number:,.1f}" if row["axis"] in units else f"{number:,.0f}"

    columns: Columns = {
        "after": "{axis}",
        "": after,
        "median of the mean scores": "{median:,.0f}",
        "lowest to highest": "{lowest:,.0f} to {highest:,.0f}",
    }
    return table(rows, columns, "lrrl")


def score_per_second(rows: Sequence[Row]) -> str:
    """Returns the table of learners' scores after the same training time."""

    def hardware(row: Row) -> str:
        cores = f"{row['cores']} {'core' if row['cores'] == 1 else 'cores'}"
        return f"{row['processor']}, {cores}, {row['cores_used']:.2f} used"

    minutes = sorted({each for row in rows for each in row["scores"]}, key=float)
    columns: Columns = {
        "learner": "{learner}",
        "policy": "{policy}",
        "hardware": hardware,
        "moves/s with learning": "{moves_per_second:,.0f}",
        **{f"after {each} min": figure(interval, "scores", each) for each in minutes},
    }
    return table(rows, columns, "lllr")


def regret(rows: Sequence[Row]) -> str:
    """Returns the table of regret per game on small boards, also as a share of the optimum."""
    optima = {row["board"]: row for row in rows if row["learner"] == "optimum"}
    cells = {}
    for row in sorted(rows, key=lambda row: row["learner"] == "optimum"):  # the optimum comes last
        optimum = optima[row["board"]]
        head = f"{row['board']}, {optimum['moves'] / 1e6:g} M moves"
        if row is optimum:
            cells["the optimum's score", head] = f"{row['score']:,.3f}"
        else:
            cells[row["learner"], head] = _regret(row["regret"], optimum["score"])
    return matrix("regret of a game", cells, "l")


def _regret(values: Sequence[float], optimum: float) -> str:
    if not values:
        return ""
    digits = 2 if optimum < 100 else 0
    text = interval(values, digits) if len(values) == 3 else f"{values[0]:,.{digits}f}"
    return f"{text}, {values[0] / optimum:.1%}"


def training(rows: Iterable[Row], agents: Iterable[Row]) -> str:
    """Returns the table of scores with each RL library, also relative to two baselines."""
    baselines = {row["agent"].partition(":")[0]: row["mean"][0] for row in agents}
    columns: Columns = {
        "learner": "{learner}",
        "library": "{library}",
        "lines of glue": "{glue}",
        "autoreset": "{autoreset}",
        "steps/s": "{steps_per_second:,.0f}",
        "with gymnasium-2048": figure("{:,.0f}".format, "usual"),
        "minutes": "{minutes:g}",
        "mean score, median of the seeds": "{score[0]:,.0f}",
        "lowest to highest": "{score[1]:,.0f} to {score[2]:,.0f}",
        "times random play": lambda row: f"{row['score'][0] / baselines['random']:.1f}",
        "times fixed order": lambda row: f"{row['score'][0] / baselines['fixed order']:.1f}",
    }
    return table(rows, columns, "llrlrrrrlrr")


def ppo(rows: Iterable[Row]) -> str:
    """Returns the table of scores during and after the training of two PPO programs."""
    minutes = ("1", "2", "5", "10")
    columns: Columns = {
        "learner": "{learner}",
        "library": "{library}",
        "core used": "{cores_used:.2f}",
        "steps/s": "{steps_per_second:,.0f}",
        **{f"at {at} min": figure("{:,.0f}".format, "scores", at) for at in minutes},
        "after training, greedy": lambda row: interval(row["greedy"]),
    }
    return table(rows, columns, "llr")


def published(rows: Iterable[Row]) -> str:
    """Returns the table of published networks."""
    return table(rows, {"network": "{agent}", **PLAYED}, "lr")


def recurrent(rows: Iterable[Row]) -> str:
    """Returns the table of turns per game of `recurrent_ppo.py`, during and after training."""
    steps = {"40960": "at 40,960 steps", "81920": "at 81,920", "122880": "at 122,880"}
    columns: Columns = {
        "`python recurrent_ppo.py` …": "{player}",
        "turns": "{turns:.2f}",
        **{head: figure("{:.2f}".format, "turns_at", each) for each, head in steps.items()},
        "steps/s": figure("{:,.0f}".format, "steps_per_second"),
    }
    return table(rows, columns, "lr")


def ceilings(rows: Iterable[Row]) -> str:
    """Returns the table of the highest possible return for each number of remembered cards."""
    columns: Columns = {
        "preset": "{preset}",
        "remembered cards": "{memory}",
        "return": "{return:.4f}",
        "steps": "{steps:.2f}",
        "turns": "{turns:.2f}",
        "cleared": lambda row: f"{100 * row['cleared']:.2f} %",
    }
    return table(rows, columns, "lr")


def memory_of_cards(rows: Sequence[Row]) -> str:
    """Returns the table of mean returns by the number of cards that a player remembers."""
    cells = {}
    for row in rows:
        line = "random play" if row["memory"] == "random" else row["memory"]
        cells[line, f"`{row['preset']}`"] = interval(row["return"], 3)
    return matrix("remembered cards", cells)


def gru(rows: Sequence[Row], ceilings: Iterable[Row]) -> str:
    """Returns the table of returns: POPGym's GRU, random play and the maximum possible."""
    most = {(row["preset"], row["memory"]): row["return"] for row in ceilings}

    def maximum(memory: str) -> Cell:
        return lambda row: f"{most[row['preset'], memory]:.4f}"

    columns: Columns = {
        "": "`{preset}`",
        "steps of training": "{steps:,}",
        "MMER": "{mmer:.4f}",
        "mean return of 1,000 games afterwards": "{return:.4f}",
        "its 95 % interval": "{interval[0]:.4f} to {interval[1]:.4f}",
        "random play of any card": "{random:.4f}",
        "MMER of random play, same number and size of batches": "{random_mmer:.4f}",
        "maximum with a memory of 0 cards": maximum("0"),
        "maximum with a memory of 4 cards": maximum("4"),
        "maximum with all cards": maximum("all"),
    }
    return turned(rows, columns)


# ---- the optimum, the simulation, and other measurements -----------------------------------------


def optimum(rows: Sequence[Row]) -> str:
    """Returns the table of the results of `twofold solve` for each board."""

    def tile(at: int) -> Cell:
        return lambda row: f"{row['tiles'][at][0]}, {100 * row['tiles'][at][1]:.4f} %"

    columns: Columns = {
        "": lambda row: row["board"].replace("x", " x "),
        "boards up to symmetry": "{boards:,}",
        "terminal ones among them": "{terminal:,}",
        "expected score": "{score:,.6f}",
        "expected moves": "{moves:,.4f}",
        "highest tile, and its probability": tile(0),
        "the tile before it": tile(1),
        "file, MB": figure("{:g}".format, "megabytes"),
        "processor time, s": figure("{:g}".format, "processor_seconds"),
        "peak memory in this run, GB": figure("{:g}".format, "memory_gigabytes"),
    }
    return turned(rows, columns)


def optimal_play(rows: Iterable[Row], optima: Iterable[Row]) -> str:
    """Returns the table of results of optimal play, with their distance from the exact optimum."""
    expected = {row["board"]: row["score"] for row in optima}

    def distance(row: Row) -> str:
        return f"{abs(row['mean'] - expected[row['board']]) / row['standard_error']:.1f}"

    columns: Columns = {
        "board": lambda row: row["board"].replace("x", " x "),
        "games": "{games:,}",
        "mean score, standard error": "{mean:,.2f} ± {standard_error:.2f}",
        "distance from the optimum, in standard errors": distance,
        "tiles": lambda row: ", ".join(f"{t} in {100 * share:.4g} %" for t, share in row["tiles"]),
    }
    return table(rows, columns, "lrrrl")


def optimum_infos(rows: Sequence[Row]) -> str:
    """Returns the table of speeds on 3 x 3 with the optimum's infos (millions of steps/s)."""
    cells = {}
    for row in rows:
        name = row["infos"] if " " in row["infos"] else f"`{row['infos']}`"
        cells[row["games"], name] = f"{row['rate'] / 1e6:.1f}"
    return matrix("games", cells)


def scans(rows: Iterable[Row]) -> str:
    """Returns the table of rates inside `jax.lax.scan` (millions of steps/s, ratios)."""
    labels = {"twofold": "Twofold", "pgx": "pgx", "jumanji": "Jumanji"}
    cells = {}
    for row in rows:
        ratio = "" if row["package"] == "twofold" else f" ({significant(row['ratio'])} x)"
        label = f"{labels[row['package']]}, {row['actions']} actions"
        cells[label, f"{row['size']:,}"] = f"{significant(row['rate'] / 1e6)}{ratio}"
    return matrix("boards N", cells)


def campaigns(rows: Iterable[Row]) -> str:
    """Returns the table of simulation campaigns that found no violation."""
    columns: Columns = {
        "clients": "{clients}",
        "seeds": "{seeds[0]:,} ... {seeds[1]:,}",
        "runs of": "{steps:,}",
        "requests": "{requests:,}",
        "a second": "{requests_per_second:,.0f}",
        "simulated time": "{simulated_hours:,.1f} h",
    }
    return table(rows, columns, "llr")


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
    counts = {happened: figure("{:,}".format, "marks", name) for name, happened in MARKS.items()}
    return turned(rows, {"what happened": "{clients}, seeds from {seeds[0]:,}", **counts})


def defects(rows: Iterable[Row]) -> str:
    """Returns the table of planted defects: the time and the requests until each was found."""
    columns: Columns = {
        "defect": "{defect}",
        "in": "{in}",
        "found after": lambda row: (
            "not found" if row["seconds"] is None else f"{row['seconds']:.1f} s"
        ),
        "requests": figure("{:,}".format, "requests"),
    }
    return table(rows, columns, "llr")


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
    columns: Columns = {
        "sessions": "{sessions:,}",
        "boards in each": figure(str, "boards"),
        "stop, s": lambda row: interval(row["stop"], 2),
        "start, s": lambda row: interval(row["start"], 2),
        "sessions lost": figure(str, "lost"),
    }
    return table((row for row in rows if "stop" in row), columns, "r")


def waiting(rows: Iterable[Row]) -> str:
    """Returns the table of sessions that were lost while their requests waited for the server."""
    columns: Columns = {
        "while": "{while}",
        "sessions with a waiting request": "{waiting_sessions:,}",
        "idle timeout": "{idle_timeout} s",
        "sessions lost": "{lost}",
    }
    return table((row for row in rows if "while" in row), columns, "lr")


def foresight(rows: Iterable[Row]) -> str:
    """Returns the table of scores of a program that searches for its game's seed."""
    columns: Columns = {
        "seeds": "{seeds}",
        "program": "{program}",
        "games": "{games:,}",
        "mean score": "{mean:,.0f}",
        "more than without looking": figure(interval, "difference"),
    }
    return table(rows, columns, "llr")


def openenv(rows: Iterable[Row]) -> str:
    """Returns the table of move times over a thousand OpenEnv connections to one server."""
    columns: Columns = {
        "1,000 connections": "{server}, {load}",
        "moves/s": "{moves_per_second:,.0f}",
        "half within": lambda row: f"{significant(row['p50'])} ms",
        "99 % within": lambda row: f"{significant(row['p99'])} ms",
        "processor time per move": "{server_ms:.1f} ms",
        "memory": "{megabytes:.0f} MB",
    }
    return table(rows, columns, "lr")


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
    columns: Columns = {
        "step": "{step}",
        "s": "{seconds:.0f}",
        "processors busy": figure("{:.1f}".format, "busy"),
    }
    return table(rows, columns, "lr")


def commands(rows: Iterable[Row]) -> str:
    """Returns the table of the time and memory that `twofold` commands take."""
    columns: Columns = {
        "": lambda row: (
            f"`{row['command']}`" if row["command"].startswith("twofold ") else row["command"]
        ),
        "s": "{seconds:.1f}",
        "peak memory, MB": figure("{:,.0f}".format, "megabytes"),
    }
    return table(rows, columns, "lr")

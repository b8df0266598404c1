"""Writes the generated parts of the documents: `make pages`.

A generated part is enclosed by `<!-- generated: NAME -->` and `<!-- end -->`. A single figure in a
sentence is enclosed by `<!-- figure: NAME -->` and `<!-- end -->`. Their text comes from these
sources: the options of the commands, the checks of `twofold doctor`, the exceptions, the docstrings
of the API, and the figures of docs/figures. A test fails if a page differs from its sources.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import figures
import tables

from twofold import cli, errors
from twofold.client.lookup import find_program

if TYPE_CHECKING:
    import griffe

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python_client/src/twofold"
DOCTOR = [PACKAGE / "cli/doctor.py", *sorted((PACKAGE / "doctor").glob("*.py"))]
PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
FIGURE = re.compile(r"(<!-- figure: ([\w ]+) -->)[^<]*(<!-- end -->)")
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Returns the pages with generated parts."""
    found = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [page for page in found if typed(page.read_text()) != page.read_text()]


def typed(text: str) -> str:
    """Returns a page's text without its generated parts and figures."""
    return FIGURE.sub("", PART.sub("", text))


def generated(page: Path) -> str:
    """Returns a page's text, with its generated parts updated from the sources."""
    parts: dict[str, Callable[[], str]] = {
        "commands": commands,
        "options": options,
        "checks": checks,
        "exceptions": exceptions,
        "exception tree": exception_tree,
        "names": lambda: names(page),
        **FIGURES,
    }
    text = PART.sub(lambda part: f"{part[1]}\n{parts[part[2]]()}\n{part[3]}", page.read_text())
    return FIGURE.sub(lambda one: f"{one[1]}{SINGLE_FIGURES[one[2]]()}{one[3]}", text)


# ---- the command line ----------------------------------------------------------------------------


def own_parser(name: str) -> argparse.ArgumentParser:
    """Returns the parser of a `twofold` subcommand that is implemented in Python."""
    parser = argparse.ArgumentParser(prog=f"twofold {name}", add_help=False)
    importlib.import_module(cli.SUBCOMMANDS[name][0]).add_arguments(parser)
    return parser


@cache
def server_commands() -> dict[str, Any]:
    """Returns twofold-server's commands by name, as the program itself describes them."""
    command = [str(find_program()), "--experimental-dump-help"]
    dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {each["commandName"]: each for each in json.loads(dump)["command"]["subcommands"]}


def is_of_server(name: str) -> bool:
    """Returns True if a subcommand is a twofold-server command."""
    return cli.SUBCOMMANDS[name][0] == "twofold.cli.serving.server"


def commands() -> str:
    """Returns the table of subcommands."""
    links = ((f"[`{name}`](#twofold-{name})", text) for name, (_, text) in cli.SUBCOMMANDS.items())
    return tables.markdown(["command", "use it to"], links)


def options() -> str:
    """Returns a section for each subcommand, with its arguments and options."""
    sections = []
    for name in cli.SUBCOMMANDS:
        rows = list(server_options(name) if is_of_server(name) else own_options(own_parser(name)))
        body = tables.markdown(["option", "meaning"], rows) if rows else "It has no options.\n"
        sections.append(f"### twofold {name}\n\n{body}")
    return "\n".join(sections)


def own_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yields the arguments of a parser and of its subcommands, with their help."""
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from ((f"`{name}` {flag}", text) for flag, text in own_options(inner))
        elif not isinstance(action, argparse._HelpAction):
            # A nested subcommand appears as the choice `{serve}`.
            flag = re.sub(r"^\{(\w+)\}$", r"\1", formatter._format_action_invocation(action))
            yield f"`{flag}`", formatter._expand_help(action)


def server_options(name: str) -> Iterator[tuple[str, str]]:
    """Yields the arguments of a twofold-server command, with their help."""
    for each in server_commands()[name]["arguments"]:
        if not each["shouldDisplay"] or each["valueName"] in ("version", "help"):
            continue
        flag = "" if each["kind"] == "positional" else f"--{each['preferredName']['name']}"
        value = "" if each["kind"] == "flag" else f"<{each['valueName']}>"
        text = " ".join(filter(None, (each.get("abstract"), each.get("discussion"))))
        if each.get("defaultValue"):
            text += f" Default: {each['defaultValue']}."
        # In a wheel, the server's commands are commands of `twofold`.
        text = text.replace("`twofold-server ", "`twofold ")
        yield f"`{' '.join(filter(None, (flag, value)))}`", text


# ---- troubleshooting -----------------------------------------------------------------------------


def checks() -> str:
    """Returns the table of the problems that `twofold doctor` can find, read from its code."""
    rows = {}
    for path in DOCTOR:
        tree = ast.parse(path.read_text())
        constants = assigned(tree.body)
        for function in tree.body:
            names = constants | assigned(ast.walk(function))
            for call in ast.walk(function):
                if getattr(getattr(call, "func", None), "id", "") in ("failed", "warning"):
                    assert isinstance(call, ast.Call)
                    check, found, fix = (words(each, names) for each in call.args)
                    rows[path.name, call.lineno] = f"{check}: {found}", fix
    return tables.markdown(["message", "fix"], dict.fromkeys(rows[place] for place in sorted(rows)))


def assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Returns the first expression that the code assigns to each name."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)
    return found


def words(node: ast.expr, names: dict[str, ast.expr]) -> str:
    """Returns the text of an expression, with `…` or a name for values known only at run time."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(words(each, names) for each in values)
        case ast.FormattedValue(value=value) | ast.Call(func=ast.Name(id="str"), args=[value]):
            return words(value, names)
        case ast.Name(id=name) if name in names:
            text = words(names[name], {key: names[key] for key in names if key != name})
            return name.upper() if text == "…" else text
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.upper()
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="format"), keywords=given):
            text = words(names[name], names)
            for each in given:
                text = text.replace(f"{{{each.arg}}}", words(each.value, {}))
            return text
    return "…"


def exception_classes() -> list[type[Exception]]:
    """Returns the exceptions, in the order of the source."""
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]


def exceptions() -> str:
    """Returns the table of exceptions, with their causes and fixes from the docstrings."""
    rows = []
    for each in exception_classes():
        paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(each) or "").split("\n\n")]
        fixes = [text.removeprefix("Fix: ") for text in paragraphs if text.startswith("Fix: ")]
        if fixes:
            rows.append((f"`{each.__name__}`", paragraphs[0], fixes[0]))
    return tables.markdown(["exception", "cause", "fix"], rows)


def exception_tree() -> str:
    """Returns a drawing of the exceptions' class hierarchy."""
    _, drawing, _ = (errors.__doc__ or "").split("```")
    return f"```{drawing}```\n"


# ---- the API -------------------------------------------------------------------------------------


@cache
def package() -> griffe.Object:
    """Returns griffe's description of the package. griffe reads its code without importing it."""
    import griffe  # takes long, and `pages` does not need it

    loaded = griffe.load("twofold", search_paths=[PACKAGE.parent])
    assert isinstance(loaded, griffe.Object)
    return loaded


def names(page: Path) -> str:
    """Returns the table of the names on an API page, with their summaries."""
    rows = []
    for path in DIRECTIVE.findall(page.read_text()):
        inner = path.removeprefix("twofold.")
        found = package()[inner]
        paths = [f"{inner}.{name}" for name in exported(found)] if found.is_module else [inner]
        rows += [(f"`twofold.{each}`", summary(each)) for each in paths]
    return tables.markdown(["name", "summary"], rows)


def exported(module: Any) -> list[str]:
    """Returns the public names of a module: its `__all__`, or the classes that it defines."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [
        name
        for name, member in module.members.items()
        if not member.is_alias and member.is_class and not name.startswith("_")
    ]


def summary(path: str) -> str:
    """Returns the first paragraph of an object's docstring."""
    docstring = package()[path].docstring
    assert docstring is not None, f"twofold.{path} has no docstring"
    return " ".join(docstring.value.split("\n\n")[0].split())


# ---- figures -------------------------------------------------------------------------------------


def rows(name: str) -> list[figures.Row]:
    """Returns the rows of docs/figures/NAME.json."""
    return list(figures.read(name)["rows"])


def setting(name: str) -> str:
    """Returns a sentence with the date, machine, commit and command of a measurement."""
    found = figures.read(name)
    day = datetime.date.fromisoformat(found["date"])
    parts = [f"{day.day} {day:%B %Y}", found["machine"]]
    parts.append(found["commit"] and f"commit {found['commit'][:12]}")
    return f"{', '.join(filter(None, parts))}; `{found['command']}` repeats the measurement.\n"


def measured(name: str, render: Callable[[list[figures.Row]], str]) -> Callable[[], str]:
    """Returns a function that makes a generated part: a table and a note on its measurement."""
    return lambda: f"{render(rows(name))}\n{setting(name)}"


def bench() -> tables.Bench:
    """Returns the figures of `make bench`."""
    return tables.Bench(rows("bench"))


SHORT = {
    label: names
    for label, names in tables.RATES.items()
    if label.startswith(("Twofold, ", "numba", "pgx", "Env"))
}
"""The contestants in README.md's table of rates, by label."""

FIGURES: dict[str, Callable[[], str]] = {
    **{
        table.__name__.replace("_", " "): measured(table.__name__, table)
        for table in (
            *(tables.demo, tables.agents, tables.score_per_second, tables.regret, tables.ppo),
            *(tables.published, tables.recurrent, tables.ceilings, tables.memory_of_cards),
            *(tables.optimum, tables.optimum_infos, tables.campaigns, tables.defects),
            *(tables.unseen, tables.arm64, tables.foresight, tables.openenv, tables.times),
        )
    },
    "rates": measured("bench", lambda rows: tables.Bench(rows).rates()),
    "short rates": measured("bench", lambda rows: tables.Bench(rows).rates(SHORT)),
    "calls": lambda: bench().calls(),
    "loops": lambda: bench().loops(),
    "split": lambda: bench().split(),
    "engines": lambda: bench().engines(),
    "jax": measured("jax", tables.scans),
    "trainings": lambda: tables.trainings(row for row in rows("learning") if "agent" in row),
    "learning": measured(
        "learning", lambda rows: tables.learning(row for row in rows if "axis" in row)
    ),
    "ntuple learners": measured("ntuple_learners", tables.score_per_second),
    "long training": measured("long_training", tables.score_per_second),
    "training": measured("training", lambda found: tables.training(found, rows("agents"))),
    "gru": measured("gru", lambda found: tables.gru(found, rows("ceilings"))),
    "optimal play": measured(
        "optimal_play", lambda found: tables.optimal_play(found, rows("optimum"))
    ),
    "marks": lambda: tables.marks([row for row in rows("campaigns") if row["marks"]]),
    "restarts": measured(
        "restarts", lambda rows: f"{tables.restarts(rows)}\n{tables.waiting(rows)}"
    ),
    "times of commands": measured("commands", tables.commands),
}
"""The parts that come from docs/figures."""


def mean_score(policy: str) -> str:
    """Returns a policy's mean score, in whole points."""
    (found,) = (row for row in rows("agents") if row["agent"].partition(":")[0] == policy)
    return f"{found['mean'][0]:,.0f}"


def environment_share(row: figures.Row) -> str:
    """Returns the environment's share of the training time: the lowest and highest of all runs."""
    low, high = (f"{100 * share:.2g}" for share in row["environment_share"])
    return f"{low} to {high} %"


def gigabytes(board: str) -> str:
    """Returns the size of the table that `twofold solve` makes for a board."""
    (found,) = (row for row in rows("optimum") if row["board"] == board)
    return f"{found['megabytes'] / 1000:.1f} GB"


SINGLE_FIGURES: dict[str, Callable[[], str]] = {
    "random": lambda: mean_score("random"),
    "fixed order": lambda: mean_score("fixed order"),
    "greedy": lambda: mean_score("greedy"),
    "environment in ppo": lambda: environment_share(rows("training")[0]),
    "table of 3 x 3": lambda: gigabytes("3x3"),
}
"""The figures in sentences; all come from docs/figures."""


def main() -> None:
    """Writes the pages that differ from the sources."""
    for page in pages():
        text = generated(page)
        if page.read_text() != text:
            page.write_text(text)
            print(page.relative_to(ROOT), "written")


if __name__ == "__main__":
    main()

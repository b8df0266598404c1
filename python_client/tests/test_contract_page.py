"""docs/reference/contract.md agrees with the sources, and each promise has its cases."""

import re
from pathlib import Path
from typing import Any

import pytest
from cases import load

from twofold.client.session import states
from twofold.v1 import envelope_pb2 as envelope

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/contract.md").read_text()
SOURCES = ROOT / "Sources"
DRAWINGS: list[str] = re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FOR_SERVERS, FOR_CLIENTS = load("server"), load("client")

PROMISES = set(re.findall(r"^\*\*(S\d+)\. [^*]+\*\*", PAGE, re.MULTILINE))
OBLIGATIONS = set(re.findall(r"^\*\*(C\d+)\.\*\*", PAGE, re.MULTILINE))


def table(first_cell: str) -> dict[str, list[str]]:
    """Returns a table as a dict from each name in a row's first cell to the row's other cells."""
    text = PAGE.split(f"\n| {first_cell} |", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    return {name: row[1:] for row in rows for name in re.findall("`([^`]+)`", row[0])}


def drawing(words: str) -> str:
    """Returns the only drawing that contains these words."""
    (found,) = (each for each in DRAWINGS if words in each)
    return found


# ---- promises and their cases --------------------------------------------------------------------


def test_the_promises_are_numbered_without_a_gap() -> None:
    assert {f"S{number}" for number in range(1, len(PROMISES) + 1)} == PROMISES
    assert {f"C{number}" for number in range(1, len(OBLIGATIONS) + 1)} == OBLIGATIONS
    assert len(PROMISES) == PAGE.count("*Not promised:*")


def test_each_promise_has_a_case_or_says_that_it_has_none() -> None:
    tried = {promise for case in FOR_SERVERS for promise in case["holds"]}
    excused = PAGE.split("**Not among the cases**", 1)[1].split(", since", 1)[0]
    without, with_some = excused.split(", the", 1)
    assert tried <= PROMISES
    assert PROMISES - tried == set(re.findall(r"S\d+", without))
    assert tried >= set(re.findall(r"S\d+", with_some))


def test_each_obligation_has_a_case() -> None:
    assert {promise for case in FOR_CLIENTS for promise in case["holds"]} == OBLIGATIONS


def test_no_two_cases_have_the_same_name() -> None:
    for cases in (FOR_SERVERS, FOR_CLIENTS):
        names = [case["name"] for case in cases]
        assert len(names) == len(set(names))


# ---- how cases are written -----------------------------------------------------------------------


def test_the_page_names_the_parts_of_cases_for_servers() -> None:
    rows = table("key")
    steps = [step for case in FOR_SERVERS for step in case["steps"]]
    used: set[str] = {key for step in steps for key in step}
    used |= {key for case in FOR_SERVERS for key in case if key not in ("name", "holds", "steps")}
    assert used == set(rows)
    for part in ("send", "expect"):
        inner = {key for step in steps if part in step for key in step[part]}
        named = set(re.findall("`([a-z_]+)`", rows[part][0])) - {"expect"}
        assert named == inner


def test_the_page_names_the_parts_of_scripts_for_clients() -> None:
    def name(action: Any) -> str:
        return action if isinstance(action, str) else str(next(iter(action)))

    tries = [one for case in FOR_CLIENTS for seq in case["faults"].values() for one in seq]
    assert {name(action) for one in tries for action in one} == set(table("action"))
    ends = PAGE.split("`ends` is the", 1)[1].split("\n\n", 1)[0]
    assert {case["ends"] for case in FOR_CLIENTS} == set(re.findall("`(\\w+)`", ends)) - {"close"}


# ---- the tables and drawings ---------------------------------------------------------------------


def test_the_table_of_errors_has_each_code() -> None:
    names = [
        name.removeprefix("ERROR_CODE_") for name, number in envelope.ErrorCode.items() if number
    ]
    assert list(table("code"))[: len(names)] == names


def test_the_states_of_a_session_match_the_ledger() -> None:
    entry = (SOURCES / "TwofoldSessions/Ledger/LedgerEntry.swift").read_text()
    enum = entry.split("private enum State {", 1)[1].split("\n        }", 1)[0]
    new, *ledger = re.findall(r"case (\w+)", enum)
    assert (new, ledger) == ("new", ["creating", "idle", "busy", "closed"])
    (line,) = re.findall(r"^ \(unknown\).*", drawing("(unknown)"), re.MULTILINE)
    assert re.findall(r"\w+", line) == ["unknown", *ledger]
    (head,) = re.findall(r"^\| a request with the current epoch \|(.*)\|$", PAGE, re.MULTILINE)
    assert [cell.strip() for cell in head.split("|")] == ledger


def test_the_states_of_the_python_client_are_drawn_as_in_its_source() -> None:
    assert drawing("step_async returns") in (states.__doc__ or "")


def test_the_phases_of_a_stop_are_drawn_as_in_their_source() -> None:
    source = (SOURCES / "TwofoldService/Phase.swift").read_text()
    comment = "".join(line.removeprefix("/// ") for line in source.splitlines(keepends=True))
    assert drawing("serving ──►") in comment
    enum = source.split("enum Phase", 1)[1].split("\n    static", 1)[0]
    rows = PAGE.split("\n| phase |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    assert [re.findall(r"\w+", row)[0] for row in rows] == re.findall(r"case (\w+)", enum)


@pytest.mark.parametrize(
    ("said", "file", "constant"),
    [
        ("the last 64 holders", "Sessions/Ledger/LedgerEntry", "maxFormerHolders = 64"),
        ("the last 10,000 closed sessions", "Sessions/Ledger/SessionLedger", "maxClosed = 10_000"),
        (
            "still running 5 s after the signal",
            "Service/Phase",
            "stopTime = Duration.seconds(5)",
        ),
        (
            "stays in *refusing* for 0.1 s more",
            "Server/Loop/ReplyLoop",
            "refusalTime = Duration.milliseconds(100)",
        ),
        (
            "`idle_timeout` seconds, or up to twice as long",
            "Server/Loop/IdleCheck",
            "interval = min(.seconds(60), timeout / 4)",
        ),
    ],
)
def test_the_numbers_of_the_page_match_the_sources(said: str, file: str, constant: str) -> None:
    assert said in PAGE.replace("\n", " ")
    assert f"{constant}\n" in (SOURCES / f"Twofold{file}.swift").read_text()


def test_the_files_that_the_page_names_exist() -> None:
    paths = set(re.findall(r"(?:Tests|python_client)/[\w/.]+\w", PAGE))
    assert len(paths) >= 4
    assert {path for path in paths if not (ROOT / path).exists()} == set()

"""Tests of the package's exports, imports and metadata."""

import contextlib
import copy
import importlib.metadata
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import pytest
from games import GAMES

import twofold
import twofold.testing
from twofold import errors
from twofold.v1 import envelope_pb2 as envelope

ROOT = Path(__file__).resolve().parents[2]


def test_all_lists_every_public_name() -> None:
    rooms = {"ceilings", "datasets", "errors", "policies", "recordings", "rules"}
    public = {
        name
        for name, value in vars(twofold).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(twofold.__all__) == public | rooms | {"__version__"}
    assert list(twofold.__all__) == sorted(twofold.__all__)


def test_the_version_is_the_installed_version() -> None:
    assert twofold.__version__ == importlib.metadata.version("twofold")


def test_documents_name_the_version_that_the_source_has() -> None:
    source = (ROOT / "Sources/TwofoldService/EnvironmentService.swift").read_text()
    [version] = re.findall(r'static let version = "(.*)"', source)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("Sources/CTwofold/*.h")]
    named = [
        (page.name, found)
        for page in pages
        if page.name != "CHANGELOG.md"
        for found in re.findall(r"[Tt]wofold\S*(?:-| |, \")(\d+\.\d+\.\d+)", page.read_text())
    ]
    assert len(named) >= 3
    assert {found for _, found in named} == {version}, named


def test_the_page_on_installing_names_every_extra() -> None:
    page = (ROOT / "docs/installing.md").read_text()
    section = page.split("## Extras", 1)[1].split("\n## ", 1)[0]
    extras = importlib.metadata.metadata("twofold").get_all("Provides-Extra")
    assert set(re.findall(r"`(\w+)`", section)) == set(extras or ())


def test_the_package_has_the_licence_of_the_project() -> None:
    assert (ROOT / "python_client/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(twofold.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("game", GAMES)
def test_importing_registers_the_environments(game: str) -> None:
    spec = gymnasium.spec(f"twofold/{game}-v0")
    assert spec.entry_point == f"twofold:{game}Env"
    assert spec.vector_entry_point == f"twofold:{game}VectorEnv"


def test_importing_loads_four_dependencies_and_starts_no_thread() -> None:
    code = (
        "import sys, os, threading; before = set(sys.modules); import twofold; "
        "names = {name.partition('.')[0] for name, module in sys.modules.items() "
        "if name not in before and getattr(module, '__spec__', None)}; "
        "print(*names - sys.stdlib_module_names); print(threading.active_count())"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    names, threads = output.stdout.splitlines()
    declared = with_dependencies("twofold")
    assert {"gymnasium", "numpy", "protobuf", "pyzmq"} <= declared
    known = {"twofold"}
    for distribution in declared:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            files = importlib.metadata.files(distribution) or []
            known |= {file.parts[0].partition(".")[0] for file in files}
    assert set(names.split()) - known == set()
    assert threads == "1"


def plain(distribution: str) -> str:
    """Returns the normalised spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def with_dependencies(distribution: str) -> set[str]:
    """Returns the names of an installed package and of all packages that it requires."""
    names: set[str] = set()
    wanted = [distribution]
    while wanted:
        name = plain(wanted.pop())
        if name in names:
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for entry in importlib.metadata.requires(name) or []:
                requirement, _, condition = entry.partition(";")
                if "extra" not in condition:
                    wanted.append(re.split(r"[^\w.-]", requirement.strip())[0])
        names.add(name)
    return names


def test_every_error_code_has_its_own_exception() -> None:
    seen = set()
    for name in envelope.ErrorCode.keys()[1:]:
        error = errors.from_reply(envelope.Error(code=name, message="m", field="f", lane=3))
        assert f"ERROR_CODE_{error.code}" == name
        assert (str(error), error.field, error.lane) == ("m", "f", 3)
        seen.add(type(error))
    assert len(seen) == len(envelope.ErrorCode.items()) - 1


def test_an_unknown_error_code_is_an_internal_error() -> None:
    wire = envelope.Error.FromString(b"\x08\x63\x12\x01m")
    error = errors.from_reply(wire)
    assert type(error) is twofold.errors.InternalError
    assert error.lane is None


def test_the_exception_tree_matches_its_drawing() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, tuple[str, str]] = {}
    stack: list[tuple[int, str]] = []
    for line in errors.__doc__.split("```")[1].splitlines():
        words = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ")
        if not words.strip():
            continue
        depth, name = len(words) - len(words.lstrip()), words.split()[0]
        while stack and stack[-1][0] >= depth:
            stack.pop()
        builtin = words.split("also ")[1].split(":")[0].split()[-1] if "also " in words else ""
        drawn[name] = (stack[-1][1] if stack else "Exception", builtin)
        stack.append((depth, name))
    classes = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert drawn.keys() == classes.keys()
    for name, (base, builtin) in drawn.items():
        bases = [cls.__name__ for cls in classes[name].__bases__]
        assert bases == ([base, builtin] if builtin else [base]), name


def exception_classes() -> list[type[Exception]]:
    values = vars(errors).values()
    return [cls for cls in values if isinstance(cls, type) and issubclass(cls, Exception)]


COPIES: list[Callable[[Any], Any]] = [
    lambda error: pickle.loads(pickle.dumps(error)),
    lambda error: pickle.loads(cloudpickle.dumps(error)),
    copy.copy,
    copy.deepcopy,
]


@pytest.mark.parametrize("cls", exception_classes())
def test_an_exception_passes_through_a_process_pool_unchanged(cls: Any) -> None:
    arguments: dict[str, Any] = {}
    if issubclass(cls, twofold.RequestError):
        arguments = {"field": "size", "lane": 3}
    elif cls is twofold.errors.PolicyError:
        arguments = {"policy": "mine", "call": 5, "row": 1, "lane": 7}
        arguments |= {"episode": 2, "seed": 2**63}
    elif cls is twofold.errors.GameFailed:
        arguments = {"policy": "mine", "call": 5, "step": 9, "reason": "raised", "detail": "E"}
    error = cls("the message", **arguments)
    if cls is twofold.errors.ShuttingDown:
        error.retry_after = 0.5
    error.__notes__ = ["a note"]
    for again in (duplicate(error) for duplicate in COPIES):
        assert type(again) is cls
        assert str(again) == "the message"
        assert vars(again) == vars(error)


def test_the_conformance_checkers_exception_passes_through_a_process_pool() -> None:
    report = twofold.testing.Report(passed=["one"])
    again = pickle.loads(pickle.dumps(twofold.testing.ConformanceError("Envs", report)))
    assert again.report == report
    assert str(again).startswith("Envs is not a conforming gymnasium.vector.VectorEnv: 1 checks ")


def test_the_public_exceptions_are_caught_as_the_matching_builtins() -> None:
    with pytest.raises(ValueError, match="wrong"):
        raise twofold.errors.InvalidArgument("wrong")
    with pytest.raises(TimeoutError):
        raise twofold.errors.DeadlineExceeded
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        raise twofold.errors.ClosedError

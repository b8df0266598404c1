"""The package's imports are not circular, go only to lower layers, and work on every system."""

import ast
import functools
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import PATIENCE, Server

import twofold
from twofold import cli, errors
from twofold._optional import optional_import

PACKAGE = Path(twofold.__file__).parent

# From the top down. A module imports only from its own folder and from folders in later lines.
ROOMS = [
    {"__init__", "__main__"},
    {"cli"},
    {"learning"},
    {"datasets", "doctor", "evaluation", "integrations", "recordings", "testing"},
    {"jax", "rules"},
    {"envs"},
    {"policies"},
    {"judging"},
    {"ceilings"},
    {"games"},
    {"client"},
    {"_arguments", "_comparison", "_optional", "_tables", "_text"},
    {"errors"},
    {"v1"},
]


def modules() -> dict[str, Path]:
    """Returns the hand-written modules by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("twofold", *path.relative_to(PACKAGE).with_suffix("").parts)
        if parts[1] != "v1":
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yields the statements that an import runs, and the statements that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child)


@functools.cache
def imports_of(name: str) -> set[str]:
    """Returns the package's own modules that a module imports, including generated ones."""
    imported = set()
    for statement in statements(ast.parse(MODULES[name].read_text())):
        if isinstance(statement, ast.Import):
            imported |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{name} imports relatively"
            for alias in statement.names:
                module = f"{statement.module}.{alias.name}"
                is_module = module in MODULES or module.startswith("twofold.v1.")
                imported.add(module if is_module else str(statement.module))
    return {module for module in imported if module.partition(".")[0] == "twofold"}


def test_no_imports_are_circular() -> None:
    edges = {name: imports_of(name) & MODULES.keys() for name in MODULES}
    while True:
        # A module without further imports is not part of a cycle.
        leaves = {name for name, imported in edges.items() if not imported}
        if not leaves:
            break
        edges = {name: imported - leaves for name, imported in edges.items() if name not in leaves}
    assert edges == {}, "each of these imports another of them"


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def test_folders_import_only_from_folders_below() -> None:
    rank = {name: line for line, names in enumerate(ROOMS) for name in names}
    assert {room(module) for module in MODULES} <= rank.keys()
    upwards = {
        (room(name), room(imported))
        for name in MODULES
        for imported in imports_of(name)
        if room(name) != room(imported) and rank[room(name)] > rank[room(imported)]
    }
    assert upwards == set()


# ---- other systems -------------------------------------------------------------------------------

ELSEWHERE = """
import sys
import asyncio, gymnasium.vector, multiprocessing.util, numpy, subprocess, tempfile
import google.protobuf, zmq, zmq.auth, zmq.utils.monitor
import importlib, os, pkgutil

sys.platform = "win32"
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in (
    "fork forkpty getppid getuid geteuid killpg setsid memfd_create pidfd_open register_at_fork "
    "sched_getaffinity sysconf wait4 O_NOFOLLOW"
).split():
    if hasattr(os, name):
        delattr(os, name)

import twofold

for endpoint in sys.argv[1:]:
    envs = gymnasium.make_vec("twofold/Game2048-v0", num_envs=3, endpoint=endpoint)
    observations, infos = envs.reset(seed=0)
    print(envs.step([0, 1, 2])[0].tolist())
    print(twofold.rules.legal(observations, endpoint=endpoint).shape)
    envs.close()
print(sorted({"twofold.jax", "jax"} & set(sys.modules)))
try:
    twofold.Game2048Env(endpoint="private")
except twofold.errors.ServerStartFailed as error:
    print(error)
for module in pkgutil.walk_packages(twofold.__path__, "twofold."):
    # Those below integrations need their library, and twofold.jax needs JAX.
    is_left_out = module.name in ("twofold.__main__", "twofold.jax")
    if not is_left_out and not module.name.startswith("twofold.integrations."):
        importlib.import_module(module.name)
"""


def test_a_client_of_a_server_uses_nothing_that_only_unix_has(server: Server) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE, server.tcp, server.ipc],
        capture_output=True,
        text=True,
        env=os.environ | {"TWOFOLD_SERVER": "nowhere"},
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    *played, loaded, error = ran.stdout.splitlines()
    envs = twofold.Game2048VectorEnv(3, endpoint=server.ipc)
    envs.reset(seed=0)
    assert played == [str(envs.step([0, 1, 2])[0].tolist()), "(3, 4)"] * 2
    assert loaded == "[]", "none of these was asked for"
    assert "TWOFOLD_SERVER is 'nowhere'" in error
    envs.close()


def test_a_missing_package_and_one_in_another_version_have_different_messages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        errors.MissingDependency,
        match=r"^plots need nowhere, which is not installed: pip install 'twofold\[plot\]'$",
    ):
        optional_import("nowhere.figure", "plots", "plot")
    monkeypatch.delitem(sys.modules, "twofold.integrations.mcp", raising=False)
    # Version 1, which OpenEnv needs, has no such module.
    monkeypatch.setitem(sys.modules, "mcp.server", types.ModuleType("mcp.server"))
    monkeypatch.setitem(sys.modules, "mcp", types.ModuleType("mcp"))
    assert cli.main(["mcp"]) == 1
    said = capsys.readouterr().err
    assert "MCP servers can't use the installed mcp (No module named 'mcp.server.mcpserver'" in said
    assert said.endswith("pip install 'twofold[mcp]' in a new virtual environment\n")

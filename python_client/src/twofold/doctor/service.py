"""Checks on the library, the server program and libzmq."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from twofold.client.endpoints import EMBEDDED, PRIVATE
from twofold.client.lookup import VERSION, WAYS_OUT, find_library, find_program
from twofold.doctor.findings import Finding, failed, ok, warning
from twofold.errors import TwofoldError

_REINSTALL = (
    "Reinstall the wheel from its file (`pip install --force-reinstall FILE.whl`), or run `make "
    "server` in the checkout."
)
_BUNDLED = (
    "Install the wheel for this platform, run `make server` in a checkout of Twofold, or use a "
    "server elsewhere (endpoint=)."
)
_STEP_SECONDS = 10.0
_UNSET = "Unset {variable}, or set it to the file that `make server` builds."


def service_findings() -> Iterator[Finding]:
    """Checks the library, a step with the default endpoint, the server program and libzmq."""
    library = _library()
    yield library
    if library.status != "failed":
        yield _step(library)
    yield _program()
    yield _zeromq()


def _library() -> Finding:
    try:
        path = find_library()
    except TwofoldError as error:
        if os.environ.get("TWOFOLD_LIBRARY"):
            return failed("library", str(error), _UNSET.format(variable="TWOFOLD_LIBRARY"))
        text = str(error).removesuffix(WAYS_OUT.format("TWOFOLD_LIBRARY"))
        return warning("library", text.rstrip(), _BUNDLED)
    return ok("library", str(path))


def _step(library: Finding) -> Finding:
    """Steps four boards on the service that `gymnasium.make_vec` uses by default.

    If a library can't be loaded, the step fails, although a private server would replace it.
    """
    from twofold.envs.game2048 import Game2048VectorEnv

    default = EMBEDDED if library.status == "ok" else PRIVATE
    endpoint = os.environ.get("TWOFOLD_ENDPOINT") or default
    try:
        envs = Game2048VectorEnv(4, endpoint=endpoint, timeout=_STEP_SECONDS)
        try:
            envs.reset(seed=0)
            envs.step([0, 1, 2, 3])
        finally:
            envs.close()
    except TwofoldError as error:
        text = str(error)
        fix = _REINSTALL
        if endpoint not in (EMBEDDED, PRIVATE):
            fix = "Correct TWOFOLD_ENDPOINT, unset it to play in this process, or ask the operator."
        elif any(
            value and name.startswith("TWOFOLD_") and name in text
            for name, value in os.environ.items()
        ):
            fix = "Correct the environment variable, or unset it."
        elif library.status != "ok":
            fix = _BUNDLED
        return failed("step", text, fix)
    return ok("step", f"four boards were stepped at {endpoint!r}")


def _program() -> Finding:
    try:
        program = find_program()
    except TwofoldError as error:
        if os.environ.get("TWOFOLD_SERVER"):
            return failed("server program", str(error), _UNSET.format(variable="TWOFOLD_SERVER"))
        text = str(error).removesuffix(WAYS_OUT.format("TWOFOLD_SERVER"))
        return warning("server program", text.rstrip(), _BUNDLED)
    try:
        ran = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        return failed("server program", f"{program}: {error.stderr.strip() or error}", _REINSTALL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return failed("server program", f"{program}: {error}", _REINSTALL)
    version = ran.stdout.strip()
    if version != VERSION:
        return failed(
            "server program", f"{program} has version {version}, not {VERSION}", _REINSTALL
        )
    return ok("server program", f"{program}, version {version}")


def _zeromq() -> Finding:
    import zmq

    text = f"libzmq {zmq.zmq_version()}, pyzmq {zmq.pyzmq_version()}"
    fix = "Run `pip install --force-reinstall --only-binary=:all: pyzmq`."
    if not zmq.has("curve"):
        return warning("libzmq", f"{text}, without CURVE", fix)
    return ok("libzmq", text)

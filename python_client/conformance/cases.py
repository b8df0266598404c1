"""The code that both runners share: the protocol's messages, the cases, and their outcomes."""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "Tests" / "Fixtures" / "conformance"

if "twofold" not in sys.modules:
    # The messages are imported without the package, so that pyzmq and protobuf suffice.
    sys.modules["twofold"] = types.ModuleType("twofold")
    sys.modules["twofold"].__path__ = [str(ROOT / "python_client" / "src" / "twofold")]
envelope: Any = importlib.import_module("twofold.v1.envelope_pb2")

Frames = tuple[bytes, ...]
"""A header, and a payload if the message has one."""


class Failed(Exception):
    """The error for a peer that violates the contract. The message explains how."""


class Undecided(Exception):
    """The error for a case that could not be played, because no request took long enough."""


def load(peer: str) -> list[Any]:
    """Returns the cases for a peer, "server" or "client", in the order of the files."""
    files = sorted((CASES / peer).glob("*.json"))
    return [case for file in files for case in json.loads(file.read_text())]


def frames_of(message: list[bytes]) -> tuple[list[bytes], Frames]:
    """Splits a message into its route, up to the delimiter, and one or two further frames."""
    end = message.index(b"") + 1 if b"" in message else 0
    if end == 0 or len(message) - end not in (1, 2):
        raise Failed("a message has no delimiter, or does not have one or two frames after it")
    return message[:end], tuple(message[end:])


def parsed(kind: type[Any], frames: Frames) -> Any:
    """Returns the first of `frames`, parsed as a message of type `kind`."""
    try:
        return kind.FromString(frames[0])
    except DecodeError:
        raise Failed(f"a header is not a valid {kind.DESCRIPTOR.full_name}") from None

"""The file of a recording: JSON, with actions and new tiles as packed bytes.

docs/recordings.md describes it. Fields are those of `Recording`, by name.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import InvalidArgument, InvalidRecording
from twofold.recordings.replay import Generator, RecordingRules, Words

FORMAT, VERSION = "twofold-recording", 1
ENVIRONMENT_ID = "twofold/Game2048-v0"


def pack_actions(actions: NDArray[np.uint8]) -> bytes:
    """Packs actions, uint8 (steps,), four to a byte, the first in its lowest bits."""
    padded = np.zeros(-(-len(actions) // 4) * 4, np.uint8)
    padded[: len(actions)] = actions
    shifted = padded.reshape(-1, 4) << np.array([0, 2, 4, 6], np.uint8)
    packed: NDArray[np.uint8] = shifted.sum(axis=1, dtype=np.uint8)
    return packed.tobytes()


def unpack_actions(packed: bytes, steps: int) -> NDArray[np.uint8]:
    """Undoes `pack_actions`: uint8 (steps,), from at least steps / 4 bytes."""
    quads = np.frombuffer(packed, np.uint8)
    spread = quads[:, None] >> np.array([0, 2, 4, 6], np.uint8)
    return (spread & 3).astype(np.uint8).ravel()[:steps]


def encode(fields: Mapping[str, Any]) -> str:
    """The file's text."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "environment": ENVIRONMENT_ID,
        "rules": vars(fields["rules"]),
        "about": dict(fields["about"]),
        "score": fields["score"],
        "board": fields["board"].tolist(),
        "steps": len(fields["actions"]),
        "actions": base64.b64encode(pack_actions(fields["actions"])).decode(),
    }
    if fields["generator"] is not None:
        document["generator"] = list(fields["generator"])
    if fields["seed"] is not None:
        document["seed"] = str(fields["seed"])  # beyond the range of JavaScript's numbers
    if fields["start"] is not None:
        document["start"] = fields["start"].tolist()
    if fields["spawns"] is not None:
        document["spawns"] = base64.b64encode(fields["spawns"].astype(np.uint8).tobytes()).decode()
    return json.dumps(document, indent=1)


def decode(text: str) -> dict[str, Any]:
    """The fields of a recording, from the file's text.

    Raises:
        InvalidRecording: The text is not a recording, or damaged; the message names the part.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidRecording(f"not a recording: invalid JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRecording(f'not a recording: its "format" is not "{FORMAT}"')
    return _Decoder(document).fields()


class _Decoder:
    """Decodes a document part by part, so that errors can name the part."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def fields(self) -> dict[str, Any]:
        version = self._part("version", int)
        if version != VERSION:
            raise InvalidRecording(f"version {version}; this program reads version {VERSION}")
        environment = self._part("environment", str)
        if environment != ENVIRONMENT_ID:
            raise InvalidRecording(f"environment {environment!r}; expected {ENVIRONMENT_ID!r}")
        try:
            rules = RecordingRules(**self._part("rules", dict))
        except (TypeError, InvalidArgument) as error:
            raise InvalidRecording(f"rules: {error}") from None
        steps = self._part("steps", int)
        packed = self._bytes("actions")
        if steps < 0 or len(packed) != -(-steps // 4):
            raise InvalidRecording(f"actions: {len(packed)} bytes for {steps} steps")
        fields = {
            "rules": rules,
            "actions": unpack_actions(packed, steps),
            "board": self._board("board", rules),
            "score": self._part("score", int),
            "about": self._part("about", dict),
        }
        if ("generator" in self._document) == ("spawns" in self._document):
            raise InvalidRecording("expected either a generator or spawns")
        if "generator" in self._document:
            fields["generator"] = self._generator()
        else:
            fields["spawns"] = np.frombuffer(self._bytes("spawns"), np.uint8).astype(np.int64)
        if "seed" in self._document:
            fields["seed"] = self._seed(fields.get("generator"))
        if "start" in self._document:
            fields["start"] = self._board("start", rules)
        return fields

    def _part(self, name: str, kind: type) -> Any:
        if name not in self._document:
            raise InvalidRecording(f"{name!r} is missing")
        value = self._document[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidRecording(f"{name} is {type(value).__name__}; expected {kind.__name__}")
        return value

    def _bytes(self, name: str) -> bytes:
        try:
            return base64.b64decode(self._part(name, str), validate=True)
        except binascii.Error as error:
            raise InvalidRecording(f"{name}: {error}") from None

    def _generator(self) -> Words:
        words = self._part("generator", list)
        if len(words) != 4 or not all(type(w) is int and 0 <= w < 2**32 for w in words):
            raise InvalidRecording(f"generator is {words}; expected four 32-bit words")
        return (words[0], words[1], words[2], words[3])

    def _seed(self, generator: Words | None) -> int:
        text = self._part("seed", str)
        if not text.isdecimal() or int(text) >= 2**64:
            raise InvalidRecording(f"seed is {text!r}; expected 0 ... 2^64 - 1")
        if generator is not None and Generator.seeded(int(text)).words != generator:
            raise InvalidRecording(f"the generator is not the one of seed {text}")
        return int(text)

    def _board(self, name: str, rules: RecordingRules) -> NDArray[np.uint8]:
        rows = self._part(name, list)
        try:
            cells = list(chain.from_iterable(rows))
        except TypeError:
            cells = []
        shape = {len(row) for row in rows if isinstance(row, list)}
        is_right = len(rows) == rules.rows and shape == {rules.columns}
        if not is_right or not all(type(e) is int and 0 <= e <= 31 for e in cells):
            raise InvalidRecording(
                f"{name}: expected {rules.rows} rows of {rules.columns} exponents"
            )
        return np.array(rows, np.uint8)

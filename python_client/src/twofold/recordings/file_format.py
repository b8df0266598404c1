"""The JSON file format of recordings, and the HTML page that shows one.

The documentation page "File formats" describes the file. Its fields are named after the
attributes of `Recording`. Actions and new tiles are packed into bytes.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import InvalidArgument, InvalidRecording
from twofold.recordings.replay import Generator, RecordingRules, Step

FORMAT, VERSION = "twofold-recording", 1
ENVIRONMENT_ID = "twofold/Game2048-v0"
_SEED = re.compile("[0-9]{1,20}")


def pack_actions(actions: NDArray[np.uint8]) -> bytes:
    """Packs actions, uint8 (steps,), four to a byte. The first one is in the lowest bits."""
    bits = np.unpackbits(actions[:, np.newaxis], axis=1, count=2, bitorder="little")
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_actions(packed: bytes, steps: int) -> NDArray[np.uint8]:
    """Reverses `pack_actions`: returns uint8 (steps,), from at least steps / 4 bytes."""
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=2 * steps, bitorder="little")
    return np.packbits(bits.reshape(steps, 2), axis=1, bitorder="little").ravel()


def encode(fields: Mapping[str, Any]) -> str:
    """Returns the text of a recording's file."""
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
        document["seed"] = str(fields["seed"])  # JavaScript's numbers can't represent every seed
    if fields["start"] is not None:
        document["start"] = fields["start"].tolist()
    if fields["spawns"] is not None:
        document["spawns"] = base64.b64encode(fields["spawns"].astype(np.uint8).tobytes()).decode()
    return json.dumps(document, indent=1)


def decode(text: str) -> dict[str, Any]:
    """Returns the fields of a recording from the text of its file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecording(f"not a recording: invalid JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRecording(f'not a recording: its "format" is not "{FORMAT}"')
    for name, expected in (("version", VERSION), ("environment", ENVIRONMENT_ID)):
        if _part(document, name, type(expected)) != expected:
            raise InvalidRecording(f"{name} is {document[name]!r}; expected {expected!r}")
    try:
        rules = RecordingRules(**_part(document, "rules", dict))
    except (TypeError, InvalidArgument) as error:
        raise InvalidRecording(f"rules: {error}") from None
    steps, packed = _part(document, "steps", int), _bytes(document, "actions")
    if steps < 0 or len(packed) != -(-steps // 4):
        raise InvalidRecording(
            f"actions: {len(packed)} bytes for {steps} steps; expected {-(-steps // 4)}"
        )
    if ("generator" in document) == ("spawns" in document):
        raise InvalidRecording("expected either a generator or spawns")
    fields = {
        "rules": rules,
        "actions": unpack_actions(packed, steps),
        "board": _board(document, "board", rules),
        "score": _part(document, "score", int),
        "about": _part(document, "about", dict),
    }
    if "generator" in document:
        words = _part(document, "generator", list)
        if len(words) != 4 or not all(type(w) is int and 0 <= w < 2**32 for w in words):
            raise InvalidRecording(f"generator is {words}; expected four 32-bit words")
        fields["generator"] = tuple(words)
    else:
        fields["spawns"] = np.frombuffer(_bytes(document, "spawns"), np.uint8).astype(np.int64)
    if "seed" in document:
        seed = _part(document, "seed", str)
        if not _SEED.fullmatch(seed) or int(seed) >= 2**64:
            raise InvalidRecording(f"seed is {seed!r}; expected 0 ... 2^64 - 1")
        if "generator" in fields and Generator.seeded(int(seed)).words != fields["generator"]:
            raise InvalidRecording(
                f"generator is {list(fields['generator'])}, which does not belong to seed {seed}"
            )
        fields["seed"] = int(seed)
    if "start" in document:
        fields["start"] = _board(document, "start", rules)
    return fields


def _part(document: dict[str, Any], name: str, kind: type) -> Any:
    """Returns a part of a file, which must have this type."""
    if name not in document:
        raise InvalidRecording(f"{name!r} is missing")
    if type(document[name]) is not kind:
        got = type(document[name]).__name__
        raise InvalidRecording(f"{name} is {got}; expected {kind.__name__}")
    return document[name]


def _bytes(document: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(_part(document, name, str), validate=True)
    except ValueError as error:  # binascii.Error, or characters that are not ASCII
        raise InvalidRecording(f"{name}: {error}") from None


def _board(document: dict[str, Any], name: str, rules: RecordingRules) -> NDArray[np.uint8]:
    rows = _part(document, name, list)
    is_right = len(rows) == rules.rows and all(
        isinstance(row, list)
        and len(row) == rules.columns
        and all(type(exponent) is int and 0 <= exponent <= 31 for exponent in row)
        for row in rows
    )
    if not is_right:
        raise InvalidRecording(f"{name}: expected {rules.rows} rows of {rules.columns} exponents")
    return np.array(rows, np.uint8)


def page(
    fields: Mapping[str, Any], verdict: str, start: NDArray[np.uint8], steps: Iterable[Step]
) -> str:
    """Returns an HTML page that plays the recording from its first board, uint8 (rows, columns).

    The page contains the motions of all tiles, so it needs no rules.
    """
    encoded = [_encode_step(step, start.size) for step in steps]
    content = {
        "rows": start.shape[0],
        "columns": start.shape[1],
        "start": start.ravel().tolist(),
        "moves": base64.b64encode(b"".join(encoded)).decode(),
        "steps": len(encoded),
        "score": fields["score"],
        "board": fields["board"].ravel().tolist(),
        "verdict": verdict,
    }
    about = ", ".join(f"{key} {value}" for key, value in fields["about"].items())
    text = (Path(__file__).parent / "replay_page.html").read_text()
    values = {
        "title": html.escape(f"2048, score {fields['score']:,}"),
        "about": html.escape(about),
        "data": json.dumps(content).replace("<", "\\u003c"),  # keeps the script element open
    }
    # In one pass, because `about` may contain marks.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], text)


def _encode_step(step: Step, cells: int) -> bytes:
    """Returns one step as bytes.

    The bytes are the action, the number of moving tiles, the source and target of each, and the new
    tile's cell. Bit 0x80 of a source means a merge. Bit 0x80 of the new tile's cell means a 4, and
    0xff means no new tile.
    """
    parts = bytearray((step.action, len(step.motions)))
    for motion in step.motions:
        parts += bytes((motion.source | (0x80 if motion.is_merge else 0), motion.target))
    if step.outcome < 0:
        parts.append(0xFF)
    else:
        parts.append(step.outcome % cells | (0x80 if step.outcome >= cells else 0))
    return bytes(parts)

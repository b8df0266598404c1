"""An HTML page that plays a recording."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.recordings.replay import Step

_MERGE = 0x80
_NO_SPAWN = 0xFF
_FOUR = 0x80


def page(
    verdict: str,
    start: NDArray[np.uint8],
    steps: Iterable[Step],
    board: NDArray[np.uint8],
    score: int,
    about: Mapping[str, Any],
) -> str:
    """The page, from uint8 (rows, columns) exponents of the first and the last board.

    It holds each tile's motions, and therefore no rules.
    """
    encoded = [encode_step(step, start.size) for step in steps]
    content = {
        "rows": start.shape[0],
        "columns": start.shape[1],
        "start": start.ravel().tolist(),
        "moves": base64.b64encode(b"".join(encoded)).decode(),
        "steps": len(encoded),
        "score": score,
        "board": board.ravel().tolist(),
        "verdict": verdict,
    }
    text = (Path(__file__).parent / "replay_page.html").read_text()
    for mark, value in {
        "{{title}}": html.escape(f"2048, score {score:,}"),
        "{{about}}": html.escape(", ".join(f"{key} {value}" for key, value in about.items())),
        "{{data}}": json.dumps(content).replace("<", "\\u003c"),  # keeps the script element open
    }.items():
        text = text.replace(mark, value)
    return text


def encode_step(step: Step, cells: int) -> bytes:
    """One step as bytes.

    Its action; the number of moving tiles; for each its source, with 0x80 where it merges, and its
    target; the new tile's cell, with 0x80 for a 4, or 0xff for none.
    """
    parts = bytearray((step.action, len(step.motions)))
    for motion in step.motions:
        parts += bytes((motion.source | (_MERGE if motion.is_merge else 0), motion.target))
    if step.outcome < 0:
        parts.append(_NO_SPAWN)
    else:
        parts.append(step.outcome % cells | (_FOUR if step.outcome >= cells else 0))
    return bytes(parts)

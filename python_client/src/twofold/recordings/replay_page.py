"""A recording as one HTML page that plays it."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.recordings.recording import Recording

_MERGE = 0x80
_NO_SPAWN = 0xFF
_FOUR = 0x80


def page(recording: Recording) -> str:
    """The page. What moved is told tile by tile in it, so the page itself knows no rules.

    Raises:
        InvalidRecording: The recording does not verify.
    """
    told = str(recording.verify())
    content: dict[str, Any] = {
        "rows": recording.rules.rows,
        "columns": recording.rules.columns,
        "start": recording.first_board().ravel().tolist(),
        "moves": base64.b64encode(encode_moves(recording)).decode(),
        "steps": len(recording.actions),
        "score": recording.score,
        "board": recording.board.ravel().tolist(),
        "told": told,
    }
    title = f"2048, score {recording.score:,}"
    about = ", ".join(f"{key} {value}" for key, value in recording.about.items())
    template = (Path(__file__).parent / "replay_page.html").read_text()
    # "<" would let a text end the script element.
    data = json.dumps(content).replace("<", "\\u003c")
    for mark, value in {
        "{{title}}": html.escape(title),
        "{{about}}": html.escape(about),
        "{{data}}": data,
    }.items():
        template = template.replace(mark, value)
    return template


def encode_moves(recording: Recording) -> bytes:
    """Every step as bytes.

    Its action; how many tiles move; for each its source, with 0x80 where it merges, and its target;
    the new tile's cell, with 0x80 for a 4, or 0xff for none.
    """
    cells, parts = recording.rules.cells, bytearray()
    for step in recording.steps():
        parts += bytes((step.action, len(step.motions)))
        for motion in step.motions:
            parts += bytes((motion.source | (_MERGE if motion.is_merge else 0), motion.target))
        if step.outcome < 0:
            parts.append(_NO_SPAWN)
        else:
            parts.append(step.outcome % cells | (_FOUR if step.outcome >= cells else 0))
    return bytes(parts)

"""The diagram of the two carriers: boards in the caller's process, and boards on a server."""

from __future__ import annotations

from html import escape
from pathlib import Path

from palette import CARD, COLORS, INK

# Pixels: two columns, with boxes of equal size.
WIDTH, HEIGHT, MARGIN, COLUMN = 800, 404, 20, 368
BOX, INSET = 50, 20


def draw(path: Path) -> None:
    """Writes the diagram as SVG, in the charts' palette."""
    vermilion, blue, *_, grey = COLORS
    left, right = MARGIN, WIDTH - MARGIN - COLUMN
    parts = [
        _title(left, "In your process: the default"),
        _frame(left, 52, 332, "your Python process"),
        *_client(left, "EmbeddedCarrier", "passes the results' memory to the library"),
        _arrow(left, 216, 314, "a call of libtwofold.so"),
        _boards(left, "copies the results into that memory"),
        _title(right, 'On a server: endpoint="tcp://…"'),
        _frame(right, 52, 182, "your Python process"),
        *_client(right, "ZeroMQCarrier", "repeats a request until its reply arrives"),
        _arrow(right, 216, 314, "ZeroMQ: request and reply", is_wire=True),
        _frame(right, 278, 106, "twofold serve, on any machine"),
        _boards(right, "executes each request once"),
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        "<style>",
        f"text {{ font: 14px 'DejaVu Sans', Verdana, sans-serif; fill: {INK}; }}",
        ".title { font-size: 16px; font-weight: bold; }",
        ".name { font-weight: bold; text-anchor: middle; }",
        f".note {{ font-size: 13px; fill: {grey}; }}",
        ".middle { text-anchor: middle; }",
        ".end { text-anchor: end; }",
        f".frame {{ fill: none; stroke: {grey}; stroke-dasharray: 5 4; }}",
        f".box {{ fill: #ffffff; stroke: {grey}; }}",
        f".boards {{ fill: #ffffff; stroke: {vermilion}; stroke-width: 2; }}",
        f".arrow {{ stroke: {grey}; stroke-width: 2; fill: none; }}",
        f".wire {{ stroke: {blue}; }}",
        "</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{CARD}"/>',
        *parts,
        "</svg>",
    ]
    path.write_text("\n".join(lines) + "\n")


def _client(x: int, carrier: str, note: str) -> list[str]:
    """Returns the boxes of the client, and the arrow between them."""
    return [
        _box(x, 84, "VectorEnv", "reset, step, rollout"),
        _arrow(x, 134, 166, ""),
        _box(x, 166, carrier, note),
    ]


def _boards(x: int, note: str) -> str:
    return _box(x, 314, "SessionMachine and boards", note, "boards")


def _title(x: int, text: str) -> str:
    return f'<text x="{x}" y="34" class="title">{escape(text, quote=False)}</text>'


def _frame(x: int, y: int, height: int, text: str) -> str:
    """Returns the drawing of a process: a dashed frame with the process's name."""
    return (
        f'<rect x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="8" class="frame"/>\n'
        f'<text x="{x + COLUMN - INSET}" y="{y + 22}" class="note end">{escape(text)}</text>'
    )


def _box(x: int, y: int, name: str, note: str, kind: str = "box") -> str:
    middle = x + COLUMN // 2
    return (
        f'<rect x="{x + INSET}" y="{y}" width="{COLUMN - 2 * INSET}" height="{BOX}" rx="6" '
        f'class="{kind}"/>\n'
        f'<text x="{middle}" y="{y + 21}" class="name">{escape(name)}</text>\n'
        f'<text x="{middle}" y="{y + 40}" class="note middle">{escape(note)}</text>'
    )


def _arrow(x: int, top: int, bottom: int, text: str, *, is_wire: bool = False) -> str:
    """Returns the drawing of a call: a two-headed arrow, with its name on the right."""
    kind = "arrow wire" if is_wire else "arrow"
    at = x + COLUMN // 2 - (110 if text else 0)
    heads = f"M{at - 5} {top + 8}L{at} {top + 2}L{at + 5} {top + 8}"
    heads += f"M{at - 5} {bottom - 8}L{at} {bottom - 2}L{at + 5} {bottom - 8}"
    line = f'<path d="M{at} {top + 2}V{bottom - 2}{heads}" class="{kind}"/>'
    y = 261 if is_wire else (top + bottom) // 2 + 5
    return f'{line}\n<text x="{at + 14}" y="{y}">{escape(text)}</text>' if text else line

"""Tables as plain text, Markdown and HTML, and numbers for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from twofold._text import markdown

Style = Literal["plain", "pipe", "html"]
"""The format of a table: plain text, Markdown or HTML."""


def significant(value: float, digits: int = 3) -> str:
    """Formats a number with at most `digits` significant digits: "0.012", "4.5", "3,721".

    Digits before the decimal point are always shown.
    """
    is_long = abs(value) >= 10**digits - 0.5
    return f"{value:,.0f}" if is_long else f"{value:,.{digits}g}"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: str, style: Style = "plain"
) -> str:
    """Formats a table as Markdown, HTML or plain text with columns two spaces apart.

    name   count
    step   1,024

    `align` has "l" (left) or "r" (right) for each column. Cells are escaped in Markdown and
    in HTML.
    """
    from tabulate import tabulate

    columns = [{"l": "left", "r": "right"}[letter] for letter in align]
    if style == "plain":  # tabulate would widen the columns for a separate header
        rows, header = [header, *rows], ()
    if style == "pipe":  # tabulate escapes HTML, but not Markdown
        header, *rows = [[markdown(cell) for cell in row] for row in (header, *rows)]
    text = tabulate(rows, header, tablefmt=style, colalign=columns, disable_numparse=True)
    return "\n".join(line.rstrip() for line in text.splitlines())

"""Tables as plain text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Rows = Sequence[Sequence[str]]


def table(
    header: Sequence[str],
    rows: Rows,
    align: str,
    style: Literal["plain", "pipe", "html"] = "plain",
) -> str:
    """A table with columns two spaces apart, or in Markdown or HTML.

    name   count
    step   1,024

    Args:
        header: Names of the columns.
        rows: The cells.
        align: "l" (left) or "r" (right) for each column.
        style: "plain" for text, "pipe" for Markdown, "html".
    """
    from tabulate import tabulate

    columns = [{"l": "left", "r": "right"}[letter] for letter in align]
    if style == "plain":  # a header of its own would widen the columns
        rows, header = [header, *rows], ()
    text = tabulate(
        rows, header, tablefmt=style, colalign=columns, disable_numparse=True, missingval=""
    )
    return "\n".join(line.rstrip() for line in text.splitlines())

"""Numbers and tables as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns that line up: the first flush left, so are all that begin with a letter there.

    name   count
    step   1,024
    """
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    is_text = [
        all(not row[column][:1].isdigit() for row in cells[1:]) for column in range(len(head))
    ]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    )


def amount(number: int) -> str:
    """Such as 1,234,567."""
    return f"{number:,}"


def rate(number: float) -> str:
    """Such as 950, 12.3 k, 45.6 M."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f}"


def size(number: float) -> str:
    """Such as 512 B, 3.25 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def duration(seconds: float) -> str:
    """Such as 35 us, 1.2 ms, 4.5 s, 12 min, 3.4 h, 2.1 d."""
    for unit, scale, limit in (("us", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 100.0)):
        if seconds < limit:
            return f"{seconds / scale:.3g} {unit}"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} d"

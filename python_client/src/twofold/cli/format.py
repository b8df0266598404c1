"""Numbers as people read them."""

from __future__ import annotations


def rate(number: float) -> str:
    """A rate: 950, 12.3 k, 45.6 M."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f}"


def size(number: float) -> str:
    """A number of bytes: 512 B, 3.25 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def duration(seconds: float) -> str:
    """A duration: 35 us, 1.2 ms, 4.5 s, 12 min, 3.4 h, 2.1 d."""
    for unit, scale, limit in (("us", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 100.0)):
        if seconds < limit:
            return f"{seconds / scale:.3g} {unit}"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} d"

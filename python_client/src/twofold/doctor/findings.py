"""What a check returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        check: The name of the check, such as "library".
        status: "failed" where something does not work, "warning" where it could work better.
        found: What was found, in one line.
        fix: The sentence that says how to fix it, or "" if nothing is wrong.
    """

    check: str
    status: Status
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, fix: str) -> Finding:
    """It works worse than it could."""
    return Finding(check, "warning", found, fix)


def failed(check: str, found: str, fix: str) -> Finding:
    """It does not work."""
    return Finding(check, "failed", found, fix)

"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        check: The name of the check, such as "library".
        status: "failed" if something does not work, "warning" if it could work better.
        found: A one-line description of the result.
        fix: A sentence that says how to fix the problem, or "" if nothing is wrong.
    """

    check: str
    status: Status
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """Returns the result of a check that passed."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, fix: str) -> Finding:
    """Returns the result of a check that found something that works but could work better."""
    return Finding(check, "warning", found, fix)


def failed(check: str, found: str, fix: str) -> Finding:
    """Returns the result of a check that failed."""
    return Finding(check, "failed", found, fix)

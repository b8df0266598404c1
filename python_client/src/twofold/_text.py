"""Texts of others, such as programs, models and their endpoints, safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns a text that can't steer a terminal: "?" for each unprintable character."""
    return "".join(each if each.isprintable() else "?" for each in text)

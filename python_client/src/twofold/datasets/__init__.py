"""Transitions in Parquet, written and verified."""

from twofold.datasets.dataset import read, verify, write

__all__ = ["read", "verify", "write"]

"""Datasets: transitions in a Parquet file that records how they were made, and can be verified.

A file holds row groups of T steps on N lanes, lane after lane, each lane's steps in order. Steps
on which a lane only begins its next episode (NEXT_STEP autoreset) are not transitions and are left
out.
"""

from twofold.datasets.reader import read, verify
from twofold.datasets.writer import write

__all__ = ["read", "verify", "write"]

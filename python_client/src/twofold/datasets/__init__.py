"""Datasets: transitions in a Parquet file that records their origin and can be verified.

A file consists of row groups of T steps on N lanes: lane after lane, each lane's steps in order. A
step in which a lane only begins its next episode (NEXT_STEP autoreset) is not a transition, and is
left out. `to_minari` and `to_huggingface` export a file.
"""

from twofold.datasets.huggingface import to_huggingface
from twofold.datasets.minari import to_minari
from twofold.datasets.reader import read, verify
from twofold.datasets.writer import write

__all__ = ["read", "to_huggingface", "to_minari", "verify", "write"]

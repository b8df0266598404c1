"""Datasets: Parquet files of transitions, which record their origin and can be verified.

Each row group contains T steps of N lanes. All steps of lane 0 come first, then those of lane 1,
and so on. A step that only resets a lane (NEXT_STEP autoreset) is not a transition, so datasets
omit it. `to_minari` and `to_huggingface` export a dataset.
"""

from twofold.datasets.huggingface import to_huggingface
from twofold.datasets.minari import to_minari
from twofold.datasets.reader import read, verify
from twofold.datasets.writer import write

__all__ = ["read", "to_huggingface", "to_minari", "verify", "write"]

"""Training of n-tuple networks for 2048, in this process."""

from twofold.learning.patterns import PATTERNS
from twofold.learning.training import Point, Progress, Training, train

__all__ = ["PATTERNS", "Point", "Progress", "Training", "train"]

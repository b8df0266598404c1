"""Whole games from fixed seeds, and what they say about a policy."""

from twofold.evaluation.evaluation import Comparison, Evaluation, evaluate

__all__ = ["Comparison", "Evaluation", "evaluate"]

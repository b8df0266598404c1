"""Evaluation of policies: whole games from known seeds, reported with confidence intervals."""

from twofold.evaluation.results import Comparison, Evaluation
from twofold.evaluation.run import evaluate

__all__ = ["Comparison", "Evaluation", "evaluate"]

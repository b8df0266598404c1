"""Evaluation of policies on whole games from known seeds, with confidence intervals."""

from twofold.evaluation.results import Comparison, Evaluation
from twofold.evaluation.run import evaluate

__all__ = ["Comparison", "Evaluation", "evaluate"]

"""A conformance checker for any Gymnasium vector environment, to call from tests.

from twofold.testing import check_vector_env

check_vector_env(lambda: gym.make_vec("CartPole-v1", num_envs=3))
"""

from twofold.testing.checker import CHECKS, ConformanceError, Finding, Report, check_vector_env

__all__ = ["CHECKS", "ConformanceError", "Finding", "Report", "check_vector_env"]

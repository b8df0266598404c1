"""Thousands of games behind one Gymnasium environment, stepped in Swift.

    import gymnasium as gym, twofold

    envs = gym.make_vec("twofold/Game2048-v0", num_envs=4096)
    observations, infos = envs.reset(seed=0)

Importing this package registers its environments with Gymnasium.
"""

import importlib.metadata

from twofold import ceilings as ceilings
from twofold import datasets as datasets
from twofold import envs
from twofold import errors as errors
from twofold import policies as policies
from twofold import recordings as recordings
from twofold import rules as rules
from twofold.client.curve import CurveKeys
from twofold.envs.concentration import ConcentrationEnv, ConcentrationVectorEnv
from twofold.envs.game2048 import Game2048Env, Game2048VectorEnv
from twofold.envs.resume import resume
from twofold.envs.rollout import Rollout
from twofold.envs.seeding import worker_seeds
from twofold.envs.single import TwofoldEnv
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import RequestError, TransportError, TwofoldError
from twofold.evaluation import Evaluation, evaluate
from twofold.games.encoding import one_hot, tile_values
from twofold.learning import Training, train

__all__ = [
    "ConcentrationEnv",
    "ConcentrationVectorEnv",
    "CurveKeys",
    "Evaluation",
    "Game2048Env",
    "Game2048VectorEnv",
    "RequestError",
    "Rollout",
    "Training",
    "TransportError",
    "TwofoldEnv",
    "TwofoldError",
    "TwofoldVectorEnv",
    "__version__",
    "ceilings",
    "datasets",
    "errors",
    "evaluate",
    "one_hot",
    "policies",
    "recordings",
    "resume",
    "rules",
    "tile_values",
    "train",
    "worker_seeds",
]

__version__ = importlib.metadata.version("twofold")
"""The version of this package."""

envs.register()

"""Thousands of 2048 boards behind one Gymnasium environment, stepped by a Swift server.

    import gymnasium as gym, twofold

    envs = gym.make_vec("twofold/Game2048-v0", num_envs=4096)
    observations, infos = envs.reset(seed=0)

Importing this package registers its environments with Gymnasium.
"""

import importlib.metadata

import gymnasium

from twofold._env import TwofoldEnv
from twofold._exceptions import (
    ClosedError,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    NotYetAvailable,
    OutOfSequence,
    PermissionDenied,
    ProtocolError,
    RequestError,
    ResourceExhausted,
    ServerDied,
    ServerStartFailed,
    ShuttingDown,
    StaleEpoch,
    TransportError,
    TwofoldError,
    UnsupportedVersion,
)
from twofold._game2048 import ENVIRONMENT_ID, Game2048Env, Game2048VectorEnv
from twofold._vector_env import TwofoldVectorEnv

__all__ = [
    "ClosedError",
    "Conflict",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Game2048Env",
    "Game2048VectorEnv",
    "InternalError",
    "InvalidArgument",
    "NotFound",
    "NotYetAvailable",
    "OutOfSequence",
    "PermissionDenied",
    "ProtocolError",
    "RequestError",
    "ResourceExhausted",
    "ServerDied",
    "ServerStartFailed",
    "ShuttingDown",
    "StaleEpoch",
    "TransportError",
    "TwofoldEnv",
    "TwofoldError",
    "TwofoldVectorEnv",
    "UnsupportedVersion",
    "__version__",
]

__version__ = importlib.metadata.version("twofold")

if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(
        id=ENVIRONMENT_ID,
        entry_point="twofold:Game2048Env",
        vector_entry_point="twofold:Game2048VectorEnv",
    )

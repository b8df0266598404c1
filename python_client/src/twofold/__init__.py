"""Thousands of games behind one Gymnasium environment, stepped by a Swift server.

    import gymnasium as gym, twofold

    envs = gym.make_vec("twofold/Game2048-v0", num_envs=4096)
    observations, infos = envs.reset(seed=0)

Importing this package registers its environments with Gymnasium.
"""

import importlib.metadata

from twofold import _registration
from twofold import policies as policies
from twofold import rules as rules
from twofold._concentration import ConcentrationEnv, ConcentrationVectorEnv
from twofold._curve import CurveKeys
from twofold._dataset import read_dataset, verify_dataset, write_dataset
from twofold._encoding import onehot, values
from twofold._env import TwofoldEnv
from twofold._evaluation import Comparison, Evaluation, evaluate
from twofold._exceptions import (
    AuthenticationFailed,
    ClosedError,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    InvalidDataset,
    InvalidRecording,
    MissingDependency,
    NotFound,
    OutOfSequence,
    PermissionDenied,
    PolicyError,
    ProtocolError,
    RecoveryFailed,
    RequestError,
    ResourceExhausted,
    ServerDied,
    ServerStartFailed,
    ShuttingDown,
    StaleEpoch,
    StepPending,
    TransportError,
    TwofoldError,
    UnsupportedVersion,
)
from twofold._game2048 import Game2048Env, Game2048VectorEnv
from twofold._perfect_memory import PerfectMemory
from twofold._policies import PolicyFunction, PolicyWithMemory
from twofold._recording import Recording, RecordingRules, Verification
from twofold._resume import resume
from twofold._rollout import Finals, Rollout
from twofold._seeding import seeds
from twofold._vector_env import TwofoldVectorEnv

__all__ = [
    "AuthenticationFailed",
    "ClosedError",
    "Comparison",
    "ConcentrationEnv",
    "ConcentrationVectorEnv",
    "Conflict",
    "CurveKeys",
    "DeadlineExceeded",
    "Evaluation",
    "FailedPrecondition",
    "Finals",
    "Game2048Env",
    "Game2048VectorEnv",
    "InternalError",
    "InvalidArgument",
    "InvalidDataset",
    "InvalidRecording",
    "MissingDependency",
    "NotFound",
    "OutOfSequence",
    "PerfectMemory",
    "PermissionDenied",
    "PolicyError",
    "PolicyFunction",
    "PolicyWithMemory",
    "ProtocolError",
    "Recording",
    "RecordingRules",
    "RecoveryFailed",
    "RequestError",
    "ResourceExhausted",
    "Rollout",
    "ServerDied",
    "ServerStartFailed",
    "ShuttingDown",
    "StaleEpoch",
    "StepPending",
    "TransportError",
    "TwofoldEnv",
    "TwofoldError",
    "TwofoldVectorEnv",
    "UnsupportedVersion",
    "Verification",
    "__version__",
    "evaluate",
    "onehot",
    "read_dataset",
    "resume",
    "seeds",
    "values",
    "verify_dataset",
    "write_dataset",
]

__version__ = importlib.metadata.version("twofold")

_registration.register()

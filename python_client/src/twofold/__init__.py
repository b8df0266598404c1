"""Thousands of games behind one Gymnasium environment, stepped by a Swift server.

    import gymnasium as gym, twofold

    envs = gym.make_vec("twofold/Game2048-v0", num_envs=4096)
    observations, infos = envs.reset(seed=0)

Importing this package registers its environments with Gymnasium.
"""

import importlib.metadata

from twofold import policies as policies
from twofold import rules as rules
from twofold.client.curve import CurveKeys
from twofold.datasets.dataset import read_dataset, verify_dataset, write_dataset
from twofold.envs import registration
from twofold.envs.resume import resume
from twofold.envs.rollout import Finals, Rollout
from twofold.envs.seeding import seeds
from twofold.envs.single import TwofoldEnv
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import (
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
from twofold.evaluation.evaluation import Comparison, Evaluation, evaluate
from twofold.games.concentration import ConcentrationEnv, ConcentrationVectorEnv
from twofold.games.encoding import onehot, values
from twofold.games.game2048 import Game2048Env, Game2048VectorEnv
from twofold.policies.functions import PolicyFunction, PolicyWithMemory
from twofold.policies.perfect_memory import PerfectMemory
from twofold.recordings.recording import Recording, RecordingRules, Verification

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

registration.register()

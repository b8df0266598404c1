"""Built-in policies, programs, chat models, and the interfaces for your own policies.

    envs.rollout(128, policy="greedy")
    envs.rollout(128, policy=twofold.policies.Expectimax(depth=3))

A name means the policy with its default arguments. For example, "greedy" means `Greedy()`.
"""

from twofold.judging import ChatModel, Strategy
from twofold.policies.baselines import PerfectMemory
from twofold.policies.functions import PolicyFunction, PolicyWithMemory
from twofold.policies.last_k_memory import LastKMemory
from twofold.policies.published import read_network
from twofold.policies.sb3 import SB3Policy
from twofold.policies.served_policies import (
    Expectimax,
    FixedOrder,
    Greedy,
    NTuple,
    Optimal,
    Policy,
    Random,
)
from twofold.policies.torch_policy import TorchPolicy

__all__ = [
    "ChatModel",
    "Expectimax",
    "FixedOrder",
    "Greedy",
    "LastKMemory",
    "NTuple",
    "Optimal",
    "PerfectMemory",
    "Policy",
    "PolicyFunction",
    "PolicyWithMemory",
    "Random",
    "SB3Policy",
    "Strategy",
    "TorchPolicy",
    "read_network",
]

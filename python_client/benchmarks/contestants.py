"""The benchmark's contestants and measurement conditions.

The contestants are Twofold, the limit of its transport, and the peers: other packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from figures import REPOSITORY

SIZES = (1, 16, 256, 4096, 65536)
# The board counts for the parts of a step, and for the learner.
SPLIT_SIZES = (1, 4096)
LEARNER_SIZE = 256


class Condition(NamedTuple):
    """The other work on the machine during a measurement."""

    name: str
    """The condition's name in the report and the JSON."""
    busy: int = 0
    """The number of CPU-bound processes that run at the same time."""
    thinking: float = 0.0
    """The time that a policy computes on all cores between two steps, in seconds."""


ALONE = Condition("alone")
BESIDE = Condition("beside one", busy=1)
LEARNERS = tuple(
    Condition(f"learner, {milliseconds:g} ms", thinking=milliseconds / 1000)
    for milliseconds in (0.1, 0.3, 3.0)
)


@dataclass(frozen=True)
class Contestant:
    """A contestant: an environment, or a way to call it, with a separate row in the report."""

    name: str
    """The contestant's name in `--only` and the JSON."""
    label: str
    """The contestant's name in the table."""
    command: tuple[str, ...]
    """The script in peers/ and its arguments. The number of boards N is appended."""
    environment: str | None = None
    """The name of the virtual environment; None for the benchmark's own."""
    is_stepwise: bool = True
    """Whether each call is one step, so that the time of a call is a round trip."""
    largest: int = SIZES[-1]
    """The largest number of boards to measure. The report lists larger numbers as skipped."""
    has_learner: bool = False
    """Whether the contestant is also measured inside a learner's loop."""


# The packages of each virtual environment: the newest releases that were tested.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "envpool": ("envpool==1.2.5",),
    "gymnasium-2048": ("gymnasium-2048==0.1.2",),
    "jumanji": ("jumanji==1.1.2", "jax[cpu]==0.10.2"),
    "numba": ("numba==0.68.1",),
    "pgx": ("pgx==2.6.0", "jax[cpu]==0.10.2"),
    "twofold-jax": ("jax[cpu]==0.10.2", "--editable", str(REPOSITORY / "python_client")),
}

CONTESTANTS = (
    Contestant(
        "twofold-held",
        "**Twofold**, in the process, `copy=False`",
        ("twofold_client.py", "embedded", "held"),
        has_learner=True,
    ),
    Contestant(
        "twofold",
        "**Twofold**, in the process",
        ("twofold_client.py", "embedded", "vector"),
        has_learner=True,
    ),
    Contestant(
        "session",
        "Twofold, in the process, below `VectorEnv`",
        ("twofold_client.py", "embedded", "raw"),
    ),
    Contestant(
        "twofold-same-step",
        "Twofold, in the process, SAME_STEP",
        ("twofold_client.py", "embedded", "same-step"),
    ),
    Contestant(
        "twofold-reward",
        "Twofold, in the process, a reward of five terms",
        ("twofold_client.py", "embedded", "reward"),
    ),
    Contestant(
        "rollout",
        "Twofold, in the process, `VectorEnv.rollout`, random",
        ("twofold_client.py", "embedded", "rollout"),
        is_stepwise=False,
    ),
    Contestant(
        "twofold-ipc",
        "**Twofold, ipc**",
        ("twofold_client.py", "ipc", "vector"),
        has_learner=True,
    ),
    Contestant(
        "rollout-ipc",
        "Twofold, ipc, `VectorEnv.rollout`, random",
        ("twofold_client.py", "ipc", "rollout"),
        is_stepwise=False,
    ),
    Contestant(
        "limit-ipc",
        "transport limit, ipc (bare echo)",
        ("zmq_echo.py", "ipc"),
    ),
    Contestant(
        "twofold-tcp",
        "**Twofold, tcp**",
        ("twofold_client.py", "tcp", "vector"),
        has_learner=True,
    ),
    Contestant(
        "twofold-tcp-same-step",
        "Twofold, tcp, SAME_STEP",
        ("twofold_client.py", "tcp", "same-step"),
    ),
    Contestant(
        "limit-tcp",
        "transport limit, tcp (bare echo)",
        ("zmq_echo.py", "tcp"),
    ),
    Contestant(
        "numba-bitboard",
        "numba over bitboards, in process",
        ("numba_bitboard.py", "serial"),
        environment="numba",
        has_learner=True,
    ),
    Contestant(
        "numba-parallel",
        "numba over bitboards, all cores",
        ("numba_bitboard.py", "parallel"),
        environment="numba",
    ),
    Contestant(
        "envpool",
        "EnvPool `Game2048-v1`, dm",
        ("envpool_dm.py", "Game2048-v1"),
        environment="envpool",
        has_learner=True,
    ),
    Contestant(
        "envpool-play",
        "EnvPool `Play2048-v1`, dm",
        ("envpool_dm.py", "Play2048-v1"),
        environment="envpool",
        has_learner=True,
    ),
    Contestant("pgx", "pgx `2048`, CPU", ("jax_packages.py", "pgx", "step"), environment="pgx"),
    Contestant(
        "jumanji",
        "Jumanji `Game2048-v1`, CPU",
        ("jax_packages.py", "jumanji", "step"),
        environment="jumanji",
    ),
    Contestant(
        "gymnasium-2048",
        "gymnasium-2048, a loop",
        ("gymnasium_loop.py",),
        environment="gymnasium-2048",
        largest=16,
    ),
)


# The rate of a learner's loop without any environment; measured next to learners only.
NOTHING = Contestant("nothing", "no environment at all", ("nothing.py",), has_learner=True)

"""Who takes part: Twofold, the transport limit, and the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

SIZES = (1, 16, 256, 4096, 65536)


class Line(NamedTuple):
    """A line of the plot: the limit is a grey border, Twofold stands out, peers have a hue each."""

    color: str
    style: str = "-"
    width: float = 1.5


@dataclass(frozen=True)
class Contestant:
    """One row of the table."""

    name: str
    """What `--only` and the JSON call it."""
    label: str
    """What the table calls it."""
    command: tuple[str, ...]
    """The script in peers/, and its arguments before N."""
    line: Line
    """Its line in the plot."""
    environment: str | None = None
    """Its virtual environment; None for the one that the benchmark runs in."""
    is_stepwise: bool = True
    """Whether a call is one step, so that the time of a call is a round trip."""
    largest: int = SIZES[-1]
    """The most boards it is measured with; more is reported as left out."""


# What is installed in each virtual environment: the newest releases that were tried.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "envpool": ("envpool==1.2.5",),
    "gymnasium-2048": ("gymnasium-2048==0.1.2",),
    "jumanji": ("jumanji==1.1.2", "jax[cpu]==0.10.2"),
    "numba": ("numba==0.68.1",),
    "pgx": ("pgx==2.6.0", "jax[cpu]==0.10.2"),
}

CONTESTANTS = (
    Contestant(
        "limit-ipc",
        "**transport limit, ipc** (bare echo)",
        ("zmq_echo.py", "ipc"),
        Line("#888888", "--"),
    ),
    Contestant(
        "limit-tcp",
        "transport limit, tcp (bare echo)",
        ("zmq_echo.py", "tcp"),
        Line("#bbbbbb", "--", 1.2),
    ),
    Contestant(
        "twofold-ipc",
        "**Twofold, ipc**, `VectorEnv.step`",
        ("twofold_client.py", "ipc", "vector"),
        Line("#c8102e", width=2.8),
    ),
    Contestant(
        "raw-ipc",
        "Twofold, ipc, raw client call",
        ("twofold_client.py", "ipc", "raw"),
        Line("#c8102e", ":"),
    ),
    Contestant(
        "rollout-ipc",
        "Twofold, ipc, `VectorEnv.rollout`, random",
        ("twofold_client.py", "ipc", "rollout"),
        Line("#8a1538", "-.", 2.0),
        is_stepwise=False,
    ),
    Contestant(
        "rollout-in-process",
        "Twofold's kernel, rollout without any transport, 1 thread",
        ("twofold_in_process.py",),
        Line("#8a1538", ":", 1.2),
        is_stepwise=False,
    ),
    Contestant(
        "bare-ipc",
        "Twofold's server, ipc, bare socket",
        ("twofold_client.py", "ipc", "bare"),
        Line("#e0909c", ":", 1.2),
    ),
    Contestant(
        "twofold-tcp",
        "**Twofold, tcp**, `VectorEnv.step`",
        ("twofold_client.py", "tcp", "vector"),
        Line("#e8772e", width=2.2),
    ),
    Contestant(
        "raw-tcp",
        "Twofold, tcp, raw client call",
        ("twofold_client.py", "tcp", "raw"),
        Line("#e8772e", ":"),
    ),
    Contestant(
        "numba", "numba loop, in process", ("numba_loop.py",), Line("#1f5fa8"), environment="numba"
    ),
    Contestant(
        "numba-bitboard",
        "numba over bitboards, in process",
        ("numba_bitboard.py", "serial"),
        Line("#4f9bd9"),
        environment="numba",
    ),
    Contestant(
        "numba-parallel",
        "numba over bitboards, all cores",
        ("numba_bitboard.py", "parallel"),
        Line("#4f9bd9", "-."),
        environment="numba",
    ),
    Contestant("numpy", "numpy with row tables, in process", ("numpy_tables.py",), Line("#2a8f57")),
    Contestant(
        "envpool",
        "EnvPool `Game2048-v1`, dm",
        ("envpool_dm.py",),
        Line("#7a4fb0"),
        environment="envpool",
    ),
    Contestant("pgx", "pgx `2048`, CPU", ("pgx_jit.py",), Line("#b8860b"), environment="pgx"),
    Contestant(
        "jumanji",
        "Jumanji `Game2048-v1`, CPU",
        ("jumanji_jit.py",),
        Line("#8c564b"),
        environment="jumanji",
    ),
    Contestant(
        "gymnasium-2048",
        "gymnasium-2048, a loop",
        ("gymnasium_loop.py",),
        Line("#333333"),
        environment="gymnasium-2048",
        largest=16,
    ),
)


@dataclass(frozen=True)
class Target:
    """A ratio that the project cares about."""

    what: str
    size: int
    measure: str
    """"rate": steps per second; "latency": the median round trip."""
    of: str
    to: str
    """The two contestants; the ratio is `of` / `to`."""
    bound: float | None
    """At least this for a rate, at most this for a latency; None where nothing is asked."""
    is_percentage: bool = False


# `VectorEnv.step` is what a user calls; the others beside it show where time goes.
_STEP, _RAW, _BARE = "`VectorEnv.step`, ipc", "raw client call, ipc", "server alone, ipc, all sent"
_ROLLOUT = "`VectorEnv.rollout`, ipc: of the same in process"

TARGETS = (
    Target(
        f"{_STEP}: of the transport limit", 4096, "rate", "twofold-ipc", "limit-ipc", 0.75, True
    ),
    Target(f"{_RAW}: of the transport limit", 4096, "rate", "raw-ipc", "limit-ipc", None, True),
    Target(f"{_BARE}: of the transport limit", 4096, "rate", "bare-ipc", "limit-ipc", None, True),
    Target(f"{_STEP}: times the numba loop", 4096, "rate", "twofold-ipc", "numba", 4),
    Target(f"{_STEP}: times pgx", 4096, "rate", "twofold-ipc", "pgx", 50),
    Target(f"{_RAW}: times pgx", 4096, "rate", "raw-ipc", "pgx", None),
    Target(f"{_STEP}: times EnvPool", 4096, "rate", "twofold-ipc", "envpool", 50),
    Target(f"{_STEP}: times Jumanji", 4096, "rate", "twofold-ipc", "jumanji", None),
    Target(f"{_STEP}: times numpy", 4096, "rate", "twofold-ipc", "numpy", None),
    Target(f"{_STEP}: times numba, bitboards", 4096, "rate", "twofold-ipc", "numba-bitboard", None),
    Target(f"{_STEP}: times numba, all cores", 4096, "rate", "twofold-ipc", "numba-parallel", None),
    Target(
        "`VectorEnv.step`, tcp: of its limit", 4096, "rate", "twofold-tcp", "limit-tcp", None, True
    ),
    Target(_ROLLOUT, 4096, "rate", "rollout-ipc", "rollout-in-process", 0.5, True),
    Target(
        f"{_STEP}: of the transport limit", 65536, "rate", "twofold-ipc", "limit-ipc", 0.65, True
    ),
    Target(f"{_STEP}: times the numba loop", 65536, "rate", "twofold-ipc", "numba", None),
    Target(f"{_STEP}: times pgx", 65536, "rate", "twofold-ipc", "pgx", None),
    Target(f"{_STEP}: times EnvPool", 65536, "rate", "twofold-ipc", "envpool", None),
    Target(
        f"{_STEP}: times numba, all cores", 65536, "rate", "twofold-ipc", "numba-parallel", None
    ),
    Target(f"{_RAW}: of the transport limit", 65536, "rate", "raw-ipc", "limit-ipc", None, True),
    Target(f"{_BARE}: of the transport limit", 65536, "rate", "bare-ipc", "limit-ipc", None, True),
    Target(f"{_BARE}: round trip / echo's", 1, "latency", "bare-ipc", "limit-ipc", None),
    Target(f"{_RAW}: round trip / echo's", 1, "latency", "raw-ipc", "limit-ipc", 1.25),
    Target(f"{_STEP}: round trip / echo's", 1, "latency", "twofold-ipc", "limit-ipc", 1.7),
)

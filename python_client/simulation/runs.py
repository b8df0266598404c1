"""A run of the simulation: its parameters, its execution and its command."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from clients import Player
from processes import Program, Simulation
from racers import Race, Racer
from world import KINDS, Faults, Report, run_models

# libzmq never delivers a part of a message.
_NEVER = frozenset({KINDS.index("truncateRequest"), KINDS.index("truncateReply")})

STEPS = 1000
"""The default total number of calls that all clients make in a run."""


@dataclass(frozen=True)
class Run:
    """The parameters of a run. Together with the commit, they determine every event.

    Args:
        seed: The seed of all random choices.
        steps: The total number of calls by all clients before the faults end. With models, the
            number of requests.
        faults: The faults to leave out.
        has_models: Whether clients modelled in Swift replace clients that use the Python package.
    """

    seed: int
    steps: int = STEPS
    faults: Faults = field(default_factory=Faults)
    has_models: bool = False

    def report(self, log: Callable[[str], None] | None = None) -> Report:
        """Executes the run and returns its report."""
        if self.has_models:
            return run_models(self.seed, self.steps, self.faults)
        never = dataclasses.replace(self.faults, disabled=self.faults.disabled | _NEVER)
        was_enabled = gc.isenabled()
        # A collection may close a session, so it must happen at the same moment in every run.
        gc.disable()
        # The collector then skips the existing objects in each run.
        gc.freeze()
        simulation = Simulation(self.seed, self.steps, never, _programs(self.seed), log)
        try:
            return simulation.run()
        finally:
            simulation.destroy()
            del simulation
            gc.collect()
            if was_enabled:
                gc.enable()

    def options(self) -> list[str]:
        """Returns simulate.py's options that select this run's faults and clients."""
        kinds = ",".join(KINDS[kind] for kind in sorted(self.faults.disabled))
        ordinals = ",".join(map(str, sorted(self.faults.suppressed)))
        options = ["--models"] if self.has_models else []
        options += ["--without", kinds] if kinds else []
        return options + (["--suppress", ordinals] if ordinals else [])

    def command(self) -> str:
        """Returns the command that repeats the run."""
        command = f"make simulate SEED={self.seed} STEPS={self.steps}"
        options = " ".join(self.options())
        return f"{command} SIMULATE_ARGS='{options}'" if options else command

    def as_json(self) -> dict[str, Any]:
        """Returns the run in the JSON format of Tests/Fixtures/simulation."""
        return {
            "seed": self.seed,
            "steps": self.steps,
            "without": [KINDS[kind] for kind in sorted(self.faults.disabled)],
            "suppressed": sorted(self.faults.suppressed),
            "models": self.has_models,
        }

    @classmethod
    def from_json(cls, run: dict[str, Any]) -> Run:
        """Returns a run, given the result of `as_json`."""
        disabled = frozenset(map(KINDS.index, run["without"]))
        faults = Faults(disabled, frozenset(run["suppressed"]))
        return cls(run["seed"], run["steps"], faults, run["models"])


RECORDED = Path(__file__).resolve().parents[2] / "Tests" / "Fixtures" / "simulation" / "runs.json"
"""The file of recorded runs. Each run found a defect, which was real or planted."""


def recorded() -> dict[str, Run]:
    """Returns the recorded runs by the name of the defect that each run finds."""
    return {run["finds"]: Run.from_json(run) for run in json.loads(RECORDED.read_text())}


def _programs(seed: int) -> list[Program]:
    """Makes the clients: up to three with separate sessions, and possibly two that share one."""
    choose = Random(seed)
    programs: list[Program] = [Player() for _ in range(choose.randint(1, 3))]
    if choose.random() < 0.5:
        race = Race(2)
        programs += [Racer(race, 0), Racer(race, 1)]
    return programs

"""A conformance checker for any Gymnasium vector environment, to call from tests.

    check_vector_env(lambda: gym.make_vec("CartPole-v1", num_envs=3))

The checker uses only Gymnasium's interface. Most checks compare two runs with the same seed and
actions. The runs differ in one thing that must not affect the results, so the results must be
equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from twofold._comparison import short
from twofold.testing import memory, resets, seeding, values
from twofold.testing.subject import AnyVectorEnv, CannotCheck, Policy, Subject, Violation

__all__ = ["CHECKS", "ConformanceError", "Finding", "Report", "check_vector_env"]

CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        values.spaces,
        values.reset_returns,
        values.step_returns,
        values.infos,
        values.action_mask,
        memory.data_not_reused,
        memory.data_is_the_users,
        memory.arguments_untouched,
        seeding.equal_seeds_agree,
        seeding.reseeding_starts_anew,
        seeding.reset_forgets_the_end,
        seeding.different_seeds_differ,
        seeding.lanes_differ,
        seeding.unseeded_goes_on,
        resets.autoreset,
        resets.autoreset_ignores_the_action,
        resets.autoreset_begins_new_episodes,
        resets.reset_mask,
        resets.bad_reset_masks_are_refused,
        values.close,
    )
}
"""The checks by name, in the order in which they run; each docstring states the requirement."""
# The other checks require that these pass.
_FIRST = ("spaces", "reset_returns", "step_returns", "infos")


@dataclass(frozen=True)
class Finding:
    """A message about one check, for the report."""

    check: str
    """The check's name."""
    message: str
    """The expectation and the value found."""

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


@dataclass
class Report:
    """The findings of all checks.

    Attributes:
        passed: The names of the checks that passed.
        failures: The violations of Gymnasium's interface.
        skipped: The checks that could not run, each with the reason.
    """

    passed: list[str] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} checks passed, {len(self.failures)} failed"]
        for title in ("failures", "skipped"):
            lines += [f"{title}:"] * bool(getattr(self, title))
            lines += [f"  - {finding}" for finding in getattr(self, title)]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """The error raised if an environment does not conform. The message lists all findings.

    Attributes:
        name: The name of the environment's class.
        report: The whole report.
    """

    def __init__(self, name: str, report: Report) -> None:
        super().__init__(name, report)  # the arguments with which unpickling calls this method
        self.name, self.report = name, report

    def __str__(self) -> str:
        return f"{self.name} is not a conforming gymnasium.vector.VectorEnv: {self.report}"


def check_vector_env(
    make: Callable[[], AnyVectorEnv],
    *,
    steps: int = 400,
    seed: int = 0,
    stochastic: bool = True,
    policy: Policy | None = None,
    skip: Collection[str] = (),
) -> Report:
    """Checks that a vector environment conforms to Gymnasium's interface.

    Args:
        make: A function that makes a new environment. It is called about twenty times, and must
            make identical environments. They should have at least 2 lanes; with one lane, some
            checks are skipped.
        steps: The number of steps in the longest runs. If no episode ends within these steps,
            autoreset can't be checked.
        seed: The first seed of the runs, and the seed of the random actions.
        stochastic: Whether the environment uses random numbers. If False, different seeds may give
            equal runs.
        policy: A deterministic function (observations, infos) -> batch of actions. By default,
            actions are random, and legal if infos have an `action_mask`.
        skip: The names of checks in `CHECKS` to skip.

    Returns:
        The report. Checks that could not run are also UserWarnings.

    Raises:
        ConformanceError: A check failed. This error is an AssertionError.
        ValueError: A name in `skip` is unknown.
    """
    unknown = set(skip) - set(CHECKS)
    if unknown:
        raise ValueError(f"unknown checks {sorted(unknown)}; the checks are {', '.join(CHECKS)}")
    report = Report()
    try:
        subject = Subject(make, steps, seed, stochastic, policy)
    except Violation as violation:
        report.failures.append(Finding("spaces", str(violation)))
        raise ConformanceError("the result of make()", report) from None
    for name, check in CHECKS.items():
        if name not in _FIRST and any(finding.check in _FIRST for finding in report.failures):
            report.skipped.append(Finding("all other checks", "they require the failed checks"))
            break
        if name in skip:
            report.skipped.append(Finding(name, "left out by skip="))
            continue
        try:
            check(subject)
            report.passed.append(name)
        except CannotCheck as reason:
            report.skipped.append(Finding(name, str(reason)))
        except Violation as violation:
            report.failures.append(Finding(name, str(violation)))
        except Exception as error:
            text = f"{type(error).__name__}: {short(error, 300)}"
            report.failures.append(
                Finding(name, f"expected no exception from the environment; it raised {text}")
            )
        finally:
            subject.close_all()
    for finding in report.skipped:
        if finding.check not in skip:
            warnings.warn(f"check_vector_env: {finding}", stacklevel=2)
    if report.failures:
        raise ConformanceError(type(subject.envs).__name__, report)
    return report

"""A conformance checker for vector environments; it knows Gymnasium and nothing else.

Each check is a function in `checks` that says in its first line what it demands. Most of them
compare two runs with the same seed and the same actions: what must not matter differs between the
two, and everything else has to come out the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection

from twofold._comparison import short
from twofold.testing.checks import CHECKS
from twofold.testing.report import ConformanceError, Finding, Report
from twofold.testing.subject import AnyVectorEnv, Bench, CannotCheck, Policy, Wrong

# Nothing else makes sense while one of these fails.
_FIRST = ("spaces", "reset_returns", "step_returns", "infos")


def check_vector_env(
    make: Callable[[], AnyVectorEnv],
    *,
    steps: int = 400,
    seed: int = 0,
    stochastic: bool = True,
    policy: Policy | None = None,
    skip: Collection[str] = (),
) -> Report:
    """Checks that a vector environment does what Gymnasium says.

    Args:
        make: Makes a new environment, equal to the others that it makes; with at least 2 lanes, or
            less is checked. It is called about twenty times.
        steps: Steps of the longest runs. Episodes have to end within them, or autoreset can't be
            checked.
        seed: What the runs are seeded with, from this number up; and what draws the actions.
        stochastic: Whether the environment uses random numbers; without them, seeds can't differ.
        policy: Chooses the actions: observations and infos to a batch of actions, the same for the
            same. None for random ones, legal where infos have an `action_mask`.
        skip: Names of checks to leave out, of `CHECKS`.

    Returns:
        What was found; remarks and skipped checks are warnings (UserWarning) too.

    Raises:
        ConformanceError: Something is wrong; an AssertionError.
        ValueError: A name in `skip` is no check's.
    """
    unknown = set(skip) - set(CHECKS)
    if unknown:
        raise ValueError(f"no checks {sorted(unknown)}; the checks are {', '.join(CHECKS)}")
    report = Report()
    try:
        bench = Bench(make, steps, seed, stochastic, policy)
    except Wrong as wrong:
        report.failures.append(Finding("spaces", str(wrong)))
        raise ConformanceError("what make() returned", report) from None
    for name, check in CHECKS.items():
        if name not in _FIRST and any(finding.check in _FIRST for finding in report.failures):
            report.skipped.append(Finding("all other checks", "not run before these are right"))
            break
        if name in skip:
            report.skipped.append(Finding(name, "left out as asked"))
            continue
        bench.remarks = []
        try:
            check(bench)
            report.passed.append(name)
        except CannotCheck as reason:
            report.skipped.append(Finding(name, str(reason)))
        except Wrong as wrong:
            report.failures.append(Finding(name, str(wrong)))
        except Exception as error:
            where = f"{type(error).__name__}: {short(error, 300)}"
            report.failures.append(
                Finding(name, f"expected no exception from the environment; it raised {where}")
            )
        finally:
            bench.close_all()
        report.remarks += [Finding(name, remark) for remark in bench.remarks]
    for finding in report.remarks + [one for one in report.skipped if one.check not in skip]:
        warnings.warn(f"check_vector_env: {finding}", stacklevel=2)
    if report.failures:
        raise ConformanceError(bench.name, report)
    return report

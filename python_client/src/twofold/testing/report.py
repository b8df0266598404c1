"""The report of a run of the checks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One sentence of the report."""

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
        passed: Names of the checks that passed.
        failures: Violations of Gymnasium's interface.
        remarks: Allowed behaviour that users should know about.
        skipped: Checks that could not run, with the reason.
    """

    passed: list[str] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)
    remarks: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} checks passed, {len(self.failures)} failed"]
        for title in ("failures", "remarks", "skipped"):
            lines += [f"{title}:"] * bool(getattr(self, title))
            lines += [f"  - {finding}" for finding in getattr(self, title)]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """The environment does not conform; the text lists all findings.

    Attributes:
        name: The environment's class.
        report: The whole report.
    """

    def __init__(self, name: str, report: Report) -> None:
        super().__init__(name, report)  # the arguments that unpickling passes again
        self.name, self.report = name, report

    def __str__(self) -> str:
        return f"{self.name} is not a conforming gymnasium.vector.VectorEnv: {self.report}"

"""What a run of the checks found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One sentence of the report."""

    check: str
    """The check's name."""
    message: str
    """What was expected, and what came."""

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


@dataclass
class Report:
    """What the checks found.

    Attributes:
        passed: Names of the checks that passed.
        failures: What is wrong.
        remarks: What no rule forbids and users should know.
        skipped: What could not be checked, and why.
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
    """The environment does not do what Gymnasium says; the text lists everything that was found.

    Attributes:
        name: The environment's.
        report: All of it.
    """

    def __init__(self, name: str, report: Report) -> None:
        # What it is made anew of where it is unpickled.
        super().__init__(name, report)
        self.name, self.report = name, report

    def __str__(self) -> str:
        return f"{self.name} is not a conforming gymnasium.vector.VectorEnv: {self.report}"

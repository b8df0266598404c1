"""The subcommand `twofold doctor`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from twofold.cli import endpoint
from twofold.cli.common import Result, add_output_arguments
from twofold.doctor import Finding, machine_findings, network_findings, service_findings
from twofold.doctor.findings import failed
from twofold.errors import InvalidArgument

_MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold doctor --endpoint tcp://10.0.0.7:5555"
    endpoint.add_arguments(parser, None, "none: checks only this machine", is_positional=True)
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Yields one result: a line per finding, followed by its fix."""
    findings = [*machine_findings(), *service_findings(), *_network(arguments)]
    works = all(finding.status != "failed" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.status]:8} {finding.check:16} {finding.found}")
        if finding.fix:
            lines.append(f"{'':25} {finding.fix}")
    lines.append("Everything works." if works else "Something does not work; see FAILED above.")
    document = {"works": works, "findings": [dataclasses.asdict(each) for each in findings]}
    yield Result("\n".join(lines), document, works)


def _network(arguments: argparse.Namespace) -> list[Finding]:
    if arguments.endpoint is None:
        return []
    try:
        keys = endpoint.keys(arguments)
    except InvalidArgument as error:
        return [failed("keys", str(error), "Correct --curve-server and --curve-client.")]
    return list(network_findings(arguments.endpoint, keys, arguments.timeout))

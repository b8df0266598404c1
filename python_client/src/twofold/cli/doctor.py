"""`twofold doctor`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os

from twofold.cli import endpoint
from twofold.doctor import Finding, machine_findings, network_findings, service_findings
from twofold.errors import InvalidArgument

_MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the address of a server to check, and --json."""
    endpoint.add_arguments(parser)
    parser.set_defaults(endpoint=os.environ.get("TWOFOLD_ENDPOINT"))
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Prints one line per finding, with its mend; 1 where something does not work."""
    findings = [*machine_findings(), *service_findings(), *_network(arguments)]
    works = all(finding.status != "failed" for finding in findings)
    if arguments.json:
        document = {"works": works, "findings": [dataclasses.asdict(f) for f in findings]}
        print(json.dumps(document, indent=2))
        return 0 if works else 1
    for finding in findings:
        print(f"{_MARKS[finding.status]:8} {finding.check:16} {finding.found}")
        if finding.mend:
            print(f"{'':25} {finding.mend}")
    print("Everything works." if works else "Something does not work; see FAILED above.")
    return 0 if works else 1


def _network(arguments: argparse.Namespace) -> list[Finding]:
    if arguments.endpoint is None:
        return []
    try:
        keys = endpoint.keys(arguments)
    except InvalidArgument as error:
        return [Finding("keys", "failed", str(error), "Correct --curve-server and --curve-client.")]
    return list(network_findings(arguments.endpoint, keys, arguments.timeout))

"""`twofold stats`: what a server has counted and what it holds, for people and for machines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message

from twofold.cli import endpoint
from twofold.cli.format import amount, duration, size, table
from twofold.v1 import statistics_pb2 as statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the endpoint's arguments and the format."""
    endpoint.add_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=("table", "json", "prometheus"),
        default="table",
        help="tables for people, one JSON object, or Prometheus's text format; default: table",
    )
    form.add_argument(
        "--json", dest="format", action="store_const", const="json", help="--format json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Asks once and prints."""
    with endpoint.StatsClient(arguments) as client:
        stats = client.ask()
    if arguments.format == "json":
        print(json.dumps(as_dict(stats), indent=2))
    elif arguments.format == "prometheus":
        print(as_prometheus(stats), end="")
    else:
        print("\n\n".join(as_tables(stats)))
    return 0


# ---- tables --------------------------------------------------------------------------------------


def as_tables(stats: statistics.StatsReply) -> Iterator[str]:
    """The statistics as tables of text, one after the other."""
    yield head(stats)
    yield table(
        ["messages", ""],
        [[name.replace("_", " "), amount(value)] for name, value in fields(stats.counters)],
    )
    if stats.refusals:
        yield table(
            ["refused for", "count"], [[row.code, amount(row.count)] for row in stats.refusals]
        )
    yield requests_table(stats)
    if stats.sessions:
        yield sessions_table(stats.sessions)


def head(stats: statistics.StatsReply) -> str:
    """The server and what it holds, in three lines."""
    usage, limits = stats.usage, stats.limits
    state = "about to stop" if stats.draining else "serving"
    return (
        f"twofold-server {stats.server_version}, {state}, up {duration(stats.uptime)}, "
        f"{stats.threads} threads\n"
        f"{amount(usage.sessions)} of {amount(limits.max_sessions)} sessions, "
        f"{amount(usage.boards)} of {amount(limits.max_boards)} boards, "
        f"{size(usage.session_bytes)} of {size(limits.max_bytes)} for them\n"
        f"{size(usage.resident_bytes)} resident, {amount(usage.descriptors)} descriptors, "
        f"{amount(usage.in_progress)} requests in progress"
    )


def requests_table(stats: statistics.StatsReply) -> str:
    """One row for each kind of request; the quantiles are those of the last seconds."""
    return table(
        ["request", "executed", "refused", "mean", "p50 now", "p99 now"],
        [
            [
                row.name,
                amount(row.executed),
                amount(row.refused),
                duration(row.seconds / row.executed) if row.executed else "",
                duration(row.p50) if row.p50 else "",
                duration(row.p99) if row.p99 else "",
            ]
            for row in stats.requests
        ],
    )


def sessions_table(sessions: Iterable[statistics.SessionStats]) -> str:
    """One row for each open session."""
    return table(
        ["session", "client", "environment", "boards", "requests", "age", "idle", "memory"],
        [
            [
                row.id,
                row.client or "-",
                row.environment_id,
                amount(row.boards),
                amount(row.requests),
                duration(row.age),
                "busy" if row.busy else duration(row.idle),
                size(row.bytes),
            ]
            for row in sessions
        ],
    )


# ---- for machines --------------------------------------------------------------------------------


def fields(message: Message) -> Iterator[tuple[str, Any]]:
    """Names and values of all fields, those with their default value too."""
    for field in message.DESCRIPTOR.fields:
        yield field.name, getattr(message, field.name)


def as_dict(message: Message) -> dict[str, Any]:
    """A message as JSON can take it, fields by their names in proto/, numbers as numbers."""
    result: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            result[field.name] = value
        elif isinstance(value, Message):
            result[field.name] = as_dict(value)
        else:
            result[field.name] = [as_dict(item) for item in value]
    return result


def as_prometheus(stats: statistics.StatsReply) -> str:
    """Prometheus's text format, version 0.0.4; counters end in _total, units are base units."""
    lines: list[str] = []

    def metric(
        name: str, kind: str, text: str, samples: list[tuple[dict[str, str], float]]
    ) -> None:
        lines.append(f"# HELP twofold_{name} {text}")
        lines.append(f"# TYPE twofold_{name} {kind}")
        for labels, value in samples:
            lines.append(_sample(f"twofold_{name}", labels, value))

    metric("info", "gauge", "The server.", [({"version": stats.server_version}, 1)])
    metric("uptime_seconds", "gauge", "Seconds since the start.", [({}, stats.uptime)])
    metric("draining", "gauge", "1 while the server is about to stop.", [({}, stats.draining)])
    metric("threads", "gauge", "Threads that a batch is spread over.", [({}, stats.threads)])
    for name, value in fields(stats.counters):
        metric(f"{name}_total", "counter", _COUNTERS[name], [({}, value)])
    for name, value in fields(stats.usage):
        metric(name, "gauge", _USAGE[name], [({}, value)])
    metric(
        "limit",
        "gauge",
        "The server's limits.",
        [({"limit": name}, value) for name, value in fields(stats.limits)],
    )
    metric(
        "refusals_total",
        "counter",
        "Refused requests by their error.",
        [({"code": row.code}, row.count) for row in stats.refusals],
    )
    metric(
        "requests_refused_total",
        "counter",
        "Refused requests by their kind.",
        [({"kind": row.name}, row.refused) for row in stats.requests],
    )
    name = "twofold_request_seconds"
    lines.append(
        f"# HELP {name} From a message's arrival to its reply; quantiles of the last seconds."
    )
    lines.append(f"# TYPE {name} summary")
    for row in stats.requests:
        kind = {"kind": row.name}
        lines.append(_sample(name, kind | {"quantile": "0.5"}, row.p50))
        lines.append(_sample(name, kind | {"quantile": "0.99"}, row.p99))
        lines.append(_sample(f"{name}_sum", kind, row.seconds))
        lines.append(_sample(f"{name}_count", kind, row.executed))
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    if labels:
        escaped = (f'{key}="{_escape(text)}"' for key, text in labels.items())
        name += "{" + ",".join(escaped) + "}"
    # A float in a form that loses nothing; an integer without a point.
    return f"{name} {value!r}" if isinstance(value, float) else f"{name} {int(value)}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_COUNTERS = {
    "received": "Messages that came in.",
    "executed": "Requests that were carried out.",
    "refused": "Requests that were refused with an error.",
    "resent": "Repeats that got the stored reply.",
    "parked": "Repeats that came while their request was being carried out.",
    "dropped": "Messages without an empty delimiter.",
    "steps": "Boards stepped.",
    "sessions_created": "Sessions that were created.",
    "sessions_closed": "Sessions that their clients closed.",
    "sessions_expired": "Sessions that ended for being idle.",
    "keys_refused": "Connections that were refused for their key.",
}
_USAGE = {
    "sessions": "Open sessions.",
    "boards": "Boards of the open sessions.",
    "in_progress": "Requests that are being carried out on other threads.",
    "session_bytes": "Memory that counts against the limit max_bytes.",
    "resident_bytes": "Resident memory of the process.",
    "descriptors": "Open file descriptors of the process.",
}

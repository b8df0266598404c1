"""The subcommand `twofold stats`, which prints a server's statistics."""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import Message

from twofold._optional import optional_import
from twofold._tables import significant, table
from twofold.cli import endpoint
from twofold.cli.common import Result, add_output_arguments
from twofold.client.carrier import Call
from twofold.client.endpoints import check_address, check_keys
from twofold.client.zeromq import ZeroMQCarrier
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import statistics_pb2 as statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold stats --endpoint tcp://10.0.0.7:5555 --json"
    endpoint.add_arguments(parser, is_positional=True)
    add_output_arguments(parser, list(FORMATS))


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Queries the server."""
    address = check_address(arguments.endpoint, expected="tcp://host:port or ipc:///path")
    request = envelope.Request(stats=statistics.StatsRequest()).SerializeToString()
    carrier = ZeroMQCarrier(address, keys=check_keys(address, endpoint.keys(arguments)))
    with contextlib.closing(carrier):
        deadline = time.monotonic() + arguments.timeout
        reply, _ = carrier.ask(Call("stats", 0, request), deadline)
    yield Result(FORMATS[arguments.format](reply.stats), as_document(reply.stats))


def as_text(stats: statistics.StatsReply) -> str:
    """Returns the statistics as plain-text tables."""
    counters = [[name.replace("_", " "), f"{value:,}"] for name, value in fields(stats.counters)]
    parts = [head(stats), table(["messages", ""], counters, "lr")]
    if stats.refusals:
        refusals = [[row.code, f"{row.count:,}"] for row in stats.refusals]
        parts.append(table(["refused for", "count"], refusals, "lr"))
    parts.append(requests_table(stats))
    if stats.sessions:  # the most recently active first
        parts.append(sessions_table(sorted(stats.sessions, key=lambda session: session.idle)))
    return "\n\n".join(parts)


def head(stats: statistics.StatsReply) -> str:
    """Returns the server's state and its usage, in three lines."""
    usage, limits = stats.usage, stats.limits
    state = "about to stop" if stats.draining else "serving"
    return (
        f"twofold-server {stats.server_version}, {state}, up {duration(stats.uptime)}, "
        f"{stats.threads} threads\n"
        f"{usage.sessions:,} of {limits.max_sessions:,} sessions, "
        f"{usage.boards:,} of {limits.max_boards:,} boards, "
        f"{size(usage.session_bytes)} of {size(limits.max_bytes)} memory\n"
        f"{size(usage.resident_bytes)} resident, {usage.descriptors:,} descriptors, "
        f"{usage.in_progress:,} requests in progress"
    )


def requests_table(stats: statistics.StatsReply) -> str:
    """Returns a table with a row for each kind of request. Quantiles cover the last few seconds."""
    header = ["request", "executed", "refused", "mean", "p50 now", "p99 now"]
    rows = [
        [
            row.name,
            f"{row.executed:,}",
            f"{row.refused:,}",
            duration(row.seconds / row.executed) if row.executed else "",
            duration(row.p50) if row.p50 else "",
            duration(row.p99) if row.p99 else "",
        ]
        for row in stats.requests
    ]
    return table(header, rows, "lrrrrr")


def sessions_table(sessions: Iterable[statistics.SessionStats]) -> str:
    """Returns a table with one row per open session. Strips "twofold/" from environment ids."""
    header = ["session", "client", "environment", "boards", "requests", "age", "idle", "memory"]
    rows = [
        [
            row.id,
            row.client or "-",
            row.environment_id.removeprefix("twofold/"),
            f"{row.boards:,}",
            f"{row.requests:,}",
            duration(row.age),
            "busy" if row.busy else duration(row.idle),
            size(row.bytes),
        ]
        for row in sessions
    ]
    return table(header, rows, "lllrrrrr")


def size(number: float) -> str:
    """Returns a size in bytes as text: 512 B, 3.25 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{significant(number)} {unit}"
        number /= 1024
    return f"{significant(number)} TiB"


def duration(seconds: float) -> str:
    """Returns a duration as text: 35 us, 1.2 ms, 4.5 s, 12 min, 3.4 h, 2.1 d."""
    for unit, scale, limit in (("us", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 100.0)):
        if seconds < limit:
            return f"{significant(seconds / scale)} {unit}"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{significant(hours)} h" if hours < 48 else f"{significant(hours / 24)} d"


def fields(message: Message) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of all fields, including default values."""
    for field in message.DESCRIPTOR.fields:
        yield field.name, getattr(message, field.name)


def as_document(value: Any) -> Any:
    """Returns a message as JSON values, with the field names of proto/ and plain numbers."""
    if isinstance(value, Message):
        return {name: as_document(part) for name, part in fields(value)}
    return value if isinstance(value, (str, int, float)) else [as_document(each) for each in value]


def as_prometheus(stats: statistics.StatsReply) -> str:
    """Returns the statistics in Prometheus's text format 0.0.4, in base units.

    The names of counters end in _total.
    """
    client = optional_import("prometheus_client", "metrics for Prometheus", "cli")
    families: list[Any] = []

    def family(name: str, kind: str, text: str, *samples: tuple[dict[str, str], float]) -> Any:
        metric = client.Metric(f"twofold_{name}", text, kind)
        families.append(metric)
        for labels, value in samples:
            metric.add_sample(metric.name + "_total" * (kind == "counter"), labels, value)
        return metric

    family("info", "gauge", "The server's version.", ({"version": stats.server_version}, 1))
    family("uptime_seconds", "gauge", "Seconds since the server started.", ({}, stats.uptime))
    family("draining", "gauge", "1 if the server is about to stop.", ({}, stats.draining))
    family("threads", "gauge", "Threads that share the boards of a batch.", ({}, stats.threads))
    for name, value in fields(stats.counters):
        family(name, "counter", _COUNTERS[name], ({}, value))
    for name, value in fields(stats.usage):
        family(name, "gauge", _USAGE[name], ({}, value))
    limits = [({"limit": name}, value) for name, value in fields(stats.limits)]
    family("limit", "gauge", "The server's limits.", *limits)
    refusals = [({"code": row.code}, row.count) for row in stats.refusals]
    family("refusals", "counter", "Refused requests by error code.", *refusals)
    refused = [({"kind": row.name}, row.refused) for row in stats.requests]
    family("requests_refused", "counter", "Refused requests by kind.", *refused)
    text = "Seconds from a message's arrival to its reply; quantiles cover the last few seconds."
    summary = family("request_seconds", "summary", text)
    for row in stats.requests:
        kind = {"kind": row.name}
        for quantile, seconds in (("0.5", row.p50), ("0.99", row.p99)):
            # Without recent requests, a quantile is 0 in the reply, but unknown in fact.
            summary.add_sample(summary.name, kind | {"quantile": quantile}, seconds or math.nan)
        summary.add_sample(f"{summary.name}_sum", kind, row.seconds)
        summary.add_sample(f"{summary.name}_count", kind, row.executed)
    collector = SimpleNamespace(collect=lambda: families)
    return str(client.generate_latest(collector).decode()).rstrip()


_COUNTERS = {
    "received": "Messages received.",
    "executed": "Requests executed.",
    "refused": "Requests refused with an error code.",
    "resent": "Repeats answered with the stored reply.",
    "parked": "Repeats received while their request was in progress.",
    "dropped": "Messages without an empty delimiter.",
    "steps": "Boards stepped.",
    "sessions_created": "Sessions created.",
    "sessions_closed": "Sessions closed by their clients.",
    "sessions_expired": "Sessions ended because they were idle.",
    "keys_refused": "Connections refused because their key is not authorised.",
}
_USAGE = {
    "sessions": "Open sessions.",
    "boards": "Boards of the open sessions.",
    "in_progress": "Requests in progress on other threads.",
    "session_bytes": "Memory counted towards the limit max_bytes.",
    "resident_bytes": "Resident memory of the process.",
    "descriptors": "Open file descriptors of the process.",
}

FORMATS: dict[str, Callable[[statistics.StatsReply], str]] = {
    "table": as_text,
    "prometheus": as_prometheus,
}

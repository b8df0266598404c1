"""docs/reference/protocol.md agrees with proto/, with the sources and with a server."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from compliance.carriers import ZeroMQConnection
from compliance.sessions import ENVIRONMENT_ID
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from messages import MODULES
from raw import RawSession
from servers import Server

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import rules_pb2 as rules

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/protocol.md").read_text()
MESSAGES: dict[str, Descriptor] = {
    name: message
    for module in MODULES
    for name, message in module.DESCRIPTOR.message_types_by_name.items()
}
ENUMS = {
    name: enum for module in MODULES for name, enum in module.DESCRIPTOR.enum_types_by_name.items()
}


def table(first_cell: str) -> list[list[str]]:
    """Returns the rows of the table whose header begins with this cell."""
    text = PAGE.split(f"\n| {first_cell} |", 1)[1].split("\n\n", 1)[0]
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()[2:]
    ]


def names(cell: str) -> list[str]:
    """Returns the texts in backticks in a cell."""
    return re.findall("`([^`]*)`", cell)


# ---- messages ------------------------------------------------------------------------------------


def test_the_table_of_requests_has_every_slot_and_every_field() -> None:
    said = [(names(row[0]), int(row[1]), names(row[2]), names(row[4])) for row in table("request")]
    results = envelope.Reply.DESCRIPTOR.fields_by_name

    def fields(slot: Any) -> list[str]:
        return [field.name for field in slot.message_type.fields]

    ops = envelope.Request.DESCRIPTOR.oneofs_by_name["op"].fields
    assert said == [([op.name], op.number, fields(op), fields(results[op.name])) for op in ops]
    assert all(results[op.name].number == op.number for op in ops)


def fields_of(descriptor: Descriptor) -> list[tuple[int, str, str, str]]:
    """Returns each field's number, name, type and mark, except fields that hold a request."""
    message = DescriptorProto()
    descriptor.CopyToProto(message)
    slots = envelope.Request.DESCRIPTOR.oneofs_by_name["op"].fields
    is_envelope = descriptor.name in ("Request", "Reply")
    return [
        (
            field.number,
            field.name,
            field.type_name.rpartition(".")[2]
            or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower(),
            "*"
            if field.label == FieldDescriptorProto.LABEL_REPEATED
            else "?" * field.proto3_optional,
        )
        for field in message.field
        if not (is_envelope and field.name in {slot.name for slot in slots})
    ]


def test_the_fields_of_messages_match_the_proto_files() -> None:
    (block,) = re.findall(r"^```\n(Request +1 .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w+) +((?:.+\n)(?:^ .*\n)*)", block, re.MULTILINE)
    assert len(entries) >= 20
    for name, text in entries:
        if name in ENUMS:
            said = re.findall(r"(\d+) (\w+)", text)
            prefix = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper() + "_"
            values = [(str(each.number), each.name) for each in ENUMS[name].values]
            assert said == [(number, value.removeprefix(prefix)) for number, value in values]
        else:
            fields = re.findall(r"(\d+) (\w+) (\w+)([?*]?)", text)
            assert [(int(each[0]), *each[1:]) for each in fields] == fields_of(MESSAGES[name]), name


# ---- payloads ------------------------------------------------------------------------------------

# Name, dtype and number of axes.
Array = tuple[str, str, int]


def arrays_of(layout: environment.PayloadLayout) -> list[Array]:
    """Returns the arrays of a layout."""
    dtypes = [environment.DataType.Name(array.dtype) for array in layout.arrays]
    return [
        (array.name, dtype.removeprefix("DATA_TYPE_").lower(), len(array.shape))
        for array, dtype in zip(layout.arrays, dtypes, strict=True)
    ]


def arrays_in(cell: str, axes: int = 0) -> list[Array]:
    """Returns the arrays in a cell of the page, with this many axes before the shown axes."""
    found = re.findall(r"(\w+) (bool|u?int\d+|float\d+)(?: \[([^]]*)\])?", cell)
    assert found
    return [
        (name, dtype, axes + len(shape.replace("…", "rows, columns").split(",")) * bool(shape))
        for name, dtype, shape in found
    ]


def test_the_arrays_match_the_create_replies(server: Server) -> None:
    for environment_id, reset, end in table("environment"):
        with RawSession(server.ipc) as session:
            created = session.create(environment_id=names(environment_id)[0]).reply.create
            assert arrays_of(created.reset) == arrays_in(reset, axes=1)
            assert arrays_of(created.step) == arrays_in(reset, axes=1) + arrays_in(end, axes=1)


def test_the_other_arrays_match_the_replies(server: Server) -> None:
    said = {row[0].replace("`", ""): arrays_in(row[1]) for row in table("other arrays")}
    seen = {}
    for game, environment_id in (("2048", "Game2048"), ("Concentration", "Concentration")):
        with RawSession(server.ipc) as session:
            extra = [name for name, *_ in said[f"extra_infos of {game}"]]
            created = session.create(
                environment_id=f"twofold/{environment_id}-v0",
                extra_infos=extra,
                autoreset_mode=environment.AUTORESET_MODE_SAME_STEP,
                max_episode_steps=2,
            ).reply.create
            seen[f"extra_infos of {game}"] = arrays_of(created.step)[-len(extra) :]
            if created.afterstates.arrays:
                seen[f"afterstates of {game}"] = arrays_of(created.afterstates)
            reset = arrays_of(created.reset)
            assert arrays_of(created.finals) == [("lanes", "uint64", 1), *reset]
            session.reset()
            played = session.ask(
                rollout={"steps": 2, "max_payload_bytes": 10_000, "random": {}}
            ).reply.rollout
            seen["rollout of T steps"] = arrays_of(played.arrays)
            ends = [("steps", "uint64", 1), ("lanes", "uint64", 1)]
            assert arrays_of(played.finals) == [*ends, *reset]
    connection = ZeroMQConnection(server.ipc)
    boards, after = bytes([1, 1, *bytes(14)]), bytes([2, *bytes(14), 1])
    for operation, payload in (
        (rules.EXPAND_OPERATION_AFTERSTATES, boards),
        (rules.EXPAND_OPERATION_MOVE, boards + b"\3"),
        (rules.EXPAND_OPERATION_LEGAL, boards),
        (rules.EXPAND_OPERATION_SPAWN, boards + bytes(8)),
        (rules.EXPAND_OPERATION_EXPLAIN, boards + b"\3" + after),
    ):
        expand = rules.ExpandRequest(environment_id=ENVIRONMENT_ID, count=1, operation=operation)
        answer = connection.exchange(envelope.Request(expand=expand).SerializeToString(), payload)
        name = rules.ExpandOperation.Name(operation).removeprefix("EXPAND_OPERATION_").lower()
        seen[f"expand, operation {operation} ({name})"] = arrays_of(answer.reply.expand.arrays)
    connection.close()
    assert seen == said


def test_the_bytes_between_arrays_are_zero(server: Server) -> None:
    with RawSession(server.ipc) as session:
        created = session.create(
            autoreset_mode=environment.AUTORESET_MODE_SAME_STEP, max_episode_steps=2
        ).reply.create
        session.reset()
        session.step(0, 1, 2)
        ended = session.step(0, 1, 2)
        payload = bytearray(ended.payload or b"")
        for array in [*created.step.arrays, *ended.reply.step.finals.arrays]:
            assert array.offset % 64 == 0
            size = math.prod(array.shape) * (0, 1, 1, 1, 4, 4, 8)[array.dtype]
            payload[array.offset : array.offset + size] = bytes(size)
        assert payload == bytes(created.finals.size)


# ---- errors --------------------------------------------------------------------------------------

# The places that make an error: with an explicit code, or by a function that is named after it.
NAMED = re.compile(r'ServiceError\(\s*\.(\w+),(?:\s*field: "(\w*)")?')
MADE = re.compile(r"\.(invalid|precondition|exhausted|notFound)\(\s*([^,]+),(\s*lane:)?")
CODES = {
    "invalid": "INVALID_ARGUMENT",
    "precondition": "FAILED_PRECONDITION",
    "exhausted": "RESOURCE_EXHAUSTED",
    "notFound": "NOT_FOUND",
}
# The values of variables that the second pattern finds: the names of a snapshot's rules, of the
# numbers and tables in a reward, of an array of boards, and of arguments that need an optimum.
RULE = re.compile(r'Rule\("(\w+)"')
NUMBER = re.compile(r'checked\([^",]+, "([^"]+)"')
TABLE = re.compile(r'let field = "([^"]+)"')
BOARDS = re.compile(r'field: String = "(\w+)"')
OPTIMUM = re.compile(r'table\(of: [\w.]+, for: "(\w+)"')
VARIABLES = {"String(name)": RULE, "field": NUMBER, "boards.field": BOARDS, "argument": OPTIMUM}

# A code and a field.
Refusal = tuple[str, str]


def refusals_of_sources() -> tuple[set[Refusal], set[Refusal]]:
    """Returns all refusals in the server's sources, and the refusals that name a lane."""
    folders = ("Core", "Optimum", "Service", "Sessions", "Server")
    paths = [path for each in folders for path in ROOT.glob(f"Sources/Twofold{each}/**/*.swift")]
    definitions = ("EnvironmentError.swift", "ServiceError.swift", "CallerRefusals.swift")
    # The refusals of learners and of a JAX program's states are not part of the protocol.
    others = (*definitions, "CallerStates.swift", "NTupleLearner.swift")
    code = "\n".join(path.read_text() for path in paths if path.name not in others)
    assert "EnvironmentError(kind" not in code, "other functions also make errors"
    refused = {
        (re.sub("(?=[A-Z])", "_", kind).upper(), field) for kind, field in NAMED.findall(code)
    }
    refused.add(("INVALID_ARGUMENT", "environment_id"))  # checked first in every snapshot
    with_lane = set()
    variables = set()
    for kind, argument, lane in MADE.findall(code):
        fields = [argument.strip('"')]
        if not argument.startswith('"'):
            variables.add(argument)
            fields = VARIABLES[argument].findall(code)
            fields += TABLE.findall(code) if argument == "field" else []
        for field in fields:
            field = re.sub(r"\\\(name[^)]*\)+", "<term>", field)
            field = re.sub(r"\\\(parameter[^)]*\)+", "<parameter>", field)
            refused.add((CODES[kind], field))
            if lane:
                with_lane.add((CODES[kind], field))
    assert variables == VARIABLES.keys()
    return refused, with_lane


def refusals_of_page() -> tuple[set[Refusal], set[Refusal]]:
    """Returns the refusals in the page's table, and the refusals marked with an asterisk."""
    cells: list[tuple[str, str]] = []
    text = PAGE.split("\n| request | `INVALID_ARGUMENT` |", 1)[1].split("\n\n", 1)[0]
    for row in text.splitlines()[2:]:
        _, invalid, precondition, exhausted, others = row.strip("|").split("|")
        columns = "INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"
        cells += zip(columns, (invalid, precondition, exhausted), strict=True)
        for entry in others.split(";"):
            codes, _, fields = entry.partition(":")
            cells += [(code, fields) for code in names(codes)]
    found = [
        (code, field.strip('"'), star)
        for code, cell in cells
        for field, star in re.findall(r"`([^`]*)`(\*?)", cell)
    ]
    return {each[:2] for each in found}, {each[:2] for each in found if each[2]}


def test_the_codes_match_the_proto_file() -> None:
    said = [(names(row[0])[0], int(row[1])) for row in table("code")]
    codes = envelope.ErrorCode.items()
    assert said == [(name.removeprefix("ERROR_CODE_"), number) for name, number in codes if number]


def test_the_table_of_errors_has_every_field_of_the_sources() -> None:
    refused, with_lane = refusals_of_sources()
    said, starred = refusals_of_page()
    assert said == refused
    assert starred == with_lane


@pytest.mark.parametrize(
    ("said", "file", "constant"),
    [
        ("the last 10,000 closed ids", "Sessions/Ledger/SessionLedger", "maxClosed = 10_000"),
        ("A header has at most 262,144 bytes", "Sessions/Requests", "maxHeaderBytes = 1 << 18"),
        ("A message has at most 16 frames", "Server/Loop/ReplyLoop", "maxFrames = 16"),
        ("at most 256 `expand` requests", "Sessions/SessionMachine", "maxExpansions = 256"),
    ],
)
def test_the_limits_of_the_page_match_the_sources(said: str, file: str, constant: str) -> None:
    assert said in PAGE.replace("\n", " ")
    assert f"let {constant}\n" in (ROOT / f"Sources/Twofold{file}.swift").read_text()


# ---- bytes ---------------------------------------------------------------------------------------

LABEL = re.compile(r"(request|reply) (header|payload)(?:, (\d+) bytes.*)?")


class Frame:
    """A frame as the page shows it.

    Attributes:
        size: The frame's size, if the page states it.
        shown: The shown bytes, with zeros in the gaps; `..` and `…` have none.
        pattern: The pattern that a frame must match.
    """

    def __init__(self, size: str | None) -> None:
        self.size = int(size) if size else None
        self.shown = b""
        self.pattern = b""

    def add(self, line: str) -> None:
        """Adds a line: an optional offset, bytes, and words after three spaces or more."""
        if place := re.match(r" +@(\d+) +", line):
            line = "00 " * (int(place[1]) - len(self.shown)) + line[place.end() :]
        for token in re.split(" {3,}", line.strip())[0].split():
            if token in ("..", "…"):
                self.pattern += b"." if token == ".." else b".*?"
            else:
                self.shown += bytes.fromhex(token)
                self.pattern += re.escape(bytes.fromhex(token))


def frames(block: str) -> dict[str, Frame]:
    """Returns the frames of a request and its reply."""
    found: dict[str, Frame] = {}
    for line in block.splitlines():
        if label := LABEL.fullmatch(line):
            frame = found[f"{label[1]} {label[2]}"] = Frame(label[3])
        else:
            frame.add(line)
    return found


def test_the_bytes_of_the_page_match_a_server(own_server: Server) -> None:
    connection = ZeroMQConnection(own_server.ipc)
    slots = []
    for block in re.findall(r"^```\n(request header\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        page = frames(block)
        request = [
            page[f"request {part}"].shown
            for part in ("header", "payload")
            if f"request {part}" in page
        ]
        answer = connection.exchange(*request)
        slots.append(answer.slot)
        assert re.fullmatch(page["reply header"].pattern, answer.header, re.DOTALL), answer.header
        payload = page.get("reply payload")
        assert len(answer.payload or b"") == (payload.size if payload else 0)
        if payload and payload.shown:
            assert answer.payload == payload.shown
    connection.close()
    assert slots == ["hello", "create", "reset", "step", "error"]

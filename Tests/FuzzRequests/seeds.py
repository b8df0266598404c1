#!/usr/bin/env python3
"""Writes the seeds for `make fuzz`.

The seeds are steps and the golden requests, both inside and outside a session. Requests with
large payloads go to a second directory.
"""

import json
import pathlib
import struct
import sys
import zlib

MESSAGES = pathlib.Path(__file__).parents[1] / "Fixtures" / "messages.json"
LANES = 67


def seed(kind: int, header: bytes, payload: bytes) -> bytes:
    return bytes([kind]) + len(header).to_bytes(2, "little") + header + payload


def varint(number: int) -> bytes:
    """Returns a number as a protobuf varint."""
    low = number & 0x7F
    return bytes([low]) if low == number else bytes([low | 0x80]) + varint(number >> 7)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def blob(rules: bytes, lanes: int, record: bytes) -> bytes:
    """Returns a snapshot with arbitrary content, but with correct sizes and a correct checksum."""
    head = b"TWOFOLDS" + struct.pack("<IIQI", 1, len(rules), lanes, len(record))
    content = head + rules + record * lanes + bytes([1]) * (16 * lanes)
    return content + struct.pack("<I", zlib.crc32(content))


corpus, large = map(pathlib.Path, sys.argv[1:])
for name in (b"twofold/Game2048-v0", b"twofold/Concentration-v0"):
    # Request.create with environment_id and num_envs.
    create = bytes([0x0A, len(name)]) + name + bytes([0x10, LANES])
    header = bytes([0x8A, 0x01, len(create)]) + create
    (corpus / f"create-{name.decode().replace('/', '-')}").write_bytes(seed(1, header, b""))
for kind in (2, 3, 6):
    (corpus / f"step-{kind}").write_bytes(seed(kind, bytes(28), bytes(lane % 4 for lane in range(LANES))))
for index, entry in enumerate(json.loads(MESSAGES.read_text())):
    if entry["type"] == "twofold.v1.Request":
        header = bytes.fromhex(entry["binary"])
        for kind in (0, 1, 5):
            for payload in (b"", bytes(LANES), bytes(LANES * 8), bytes(LANES * 25)):
                path = corpus / f"golden-{index}-{kind}-{len(payload)}"
                path.write_bytes(seed(kind, header, payload))

# Slots of Request: restore 24, expand 25, rollout 29, policy 30.
BOARDS = 20_000
game = message(1, b"twofold/Game2048-v0")
restore = number(1, LANES)
pair = bytes([1, 1]) + bytes(14)
tuples = [message(1, bytes(range(first, first + 5))) for first in range(4)]
network = b"".join(message(1, each) for each in tuples) + number(2, 16)
payloads = {
    "rules": (message(24, restore), blob(b"\n" * (8 << 20), LANES, bytes(39))),
    "assignments": (message(24, restore), blob(b"a=b\n" * (2 << 20), LANES, bytes(39))),
    "rows": (message(24, restore + number(3, 1)), bytes(8 * LANES) + blob(b"", 100_000, bytes(39))),
    "network": (message(30, message(1, network)), b""),
    "weights": (message(30, message(2, b"")), bytes(8 << 20)),
    "given": (message(29, number(1, BOARDS) + number(2, 1 << 24) + message(16, b"")), bytes(LANES * BOARDS)),
    "random": (message(29, number(1, (1 << 32) - 1) + number(2, 1 << 32) + message(17, b"")), b""),
    "afterstates": (message(25, game + number(2, BOARDS) + number(3, 1)), pair * BOARDS),
    "explain": (
        message(25, game + number(2, BOARDS) + number(3, 5)),
        pair * BOARDS + bytes([1]) * BOARDS + (bytes([1, 0, 0, 2]) + bytes(12)) * BOARDS,
    ),
}
for name, (header, payload) in payloads.items():
    (large / name).write_bytes(seed(1, header, payload))

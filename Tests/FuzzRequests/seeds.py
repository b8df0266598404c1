#!/usr/bin/env python3
"""Where `make fuzz` begins: the golden messages that are requests, in a session and outside, and steps."""

import json
import pathlib
import sys

MESSAGES = pathlib.Path(__file__).parents[1] / "Fixtures" / "messages.json"
LANES = 67


def seed(kind: int, header: bytes, payload: bytes) -> bytes:
    return bytes([kind]) + len(header).to_bytes(2, "little") + header + payload


corpus = pathlib.Path(sys.argv[1])
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

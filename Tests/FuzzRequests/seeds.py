#!/usr/bin/env python3
"""Where `make fuzz` begins: the golden messages that are requests, each with and without a payload."""

import json
import pathlib
import sys

MESSAGES = pathlib.Path(__file__).parents[1] / "Fixtures" / "messages.json"

corpus = pathlib.Path(sys.argv[1])
for name in (b"twofold/Game2048-v0", b"twofold/Concentration-v0"):
    # Request.create with environment_id and num_envs.
    create = bytes([0x0A, len(name)]) + name + bytes([0x10, 67])
    header = bytes([0x8A, 0x01, len(create)]) + create
    seed = len(header).to_bytes(2, "little") + header
    (corpus / f"create-{name.decode().replace('/', '-')}").write_bytes(seed)
for index, entry in enumerate(json.loads(MESSAGES.read_text())):
    if entry["type"] == "twofold.v1.Request":
        header = bytes.fromhex(entry["binary"])
        for payload in (b"", bytes(67), bytes(67 * 8), bytes(67 * 25)):
            seed = len(header).to_bytes(2, "little") + header + payload
            (corpus / f"golden-{index}-{len(payload)}").write_bytes(seed)

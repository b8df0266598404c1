"""The program of the conformance cases for clients, with a server's replies.

    cd python_client/tests && python -m make_program

writes Tests/Fixtures/conformance/program.json: create, reset, ten steps, close. Each
board's action is (the sum of its observation + the step's number, from 0) mod 4. Therefore, if a
client confuses two replies, its next actions are wrong.
"""

import json
from pathlib import Path
from typing import Any

from compliance.sessions import arrays, numbers
from google.protobuf import json_format
from google.protobuf.message import Message
from raw import RawSession
from servers import Server

PROGRAM = Path(__file__).resolve().parents[2] / "Tests/Fixtures/conformance/program.json"
BOARDS = {"environment_id": "twofold/Game2048-v0", "num_envs": 4}


def as_json(message: Message) -> dict[str, Any]:
    """Returns a message as JSON, with the field names of the .proto files."""
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return found


def program(endpoint: str) -> list[dict[str, Any]]:
    """Returns the program's requests, and the replies of the server at this address."""
    played: list[dict[str, Any]] = []

    def ask(request: dict[str, Any], payload: bytes | None = None) -> bytes | None:
        answer = session.ask(payload, **request)
        reply = as_json(answer.reply)
        del reply["seq"]
        played.append(
            {
                "request": request,
                "payload": None if payload is None else payload.hex(),
                "reply": reply,
                "reply_payload": None if answer.payload is None else answer.payload.hex(),
            }
        )
        session.created = answer.reply.create if "create" in request else session.created
        return answer.payload

    session = RawSession(endpoint)
    ask({"create": BOARDS})
    layout = session.created.reset
    boards = ask({"reset": {"seeds": True}}, numbers(0, 1, 2, 3))
    for step in range(10):
        observation = arrays(layout, boards)["observation"]
        actions = [(step + int(board.sum())) % 4 for board in observation]
        boards = ask({"step": {}}, bytes(actions))
        layout = session.created.step
    ask({"close": {}})
    session.connection.close()
    return played


if __name__ == "__main__":
    with Server() as server:
        hello = {
            "hello": {
                "protocol_version": 1,
                "server_version": "conformance",
                "environments": [{"id": "twofold/Game2048-v0"}],
            }
        }
        lines = ",\n".join(json.dumps(each) for each in program(server.ipc))
        text = f'{{"hello": {json.dumps(hello)},\n"requests": [\n{lines}\n]}}\n'
    PROGRAM.write_text(text)
    print(f"{PROGRAM}: {len(text)} bytes")

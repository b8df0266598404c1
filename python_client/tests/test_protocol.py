"""Tests that the generated code, and the messages that Swift's tests decode, match proto/."""

import json
from pathlib import Path

import messages
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

FILES = {module.DESCRIPTOR.name: module for module in messages.MODULES}
PROTO = Path(__file__).resolve().parents[2] / "proto"


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """Removes the JSON names, which protoc writes to descriptor sets but not to generated code."""
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_the_checked_in_code_is_generated_from_the_proto_files(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")  # not installable next to protobuf 6 and 7
    output = tmp_path / "descriptors"
    paths = [str(path) for path in sorted(PROTO.glob("twofold/v1/*.proto"))]
    arguments = ["protoc", f"-I{PROTO}", f"--descriptor_set_out={output}", *paths]
    assert protoc.main(arguments) == 0
    now = FileDescriptorSet.FromString(output.read_bytes()).file
    assert {file.name for file in now} == FILES.keys()
    for file in now:
        checked_in = FileDescriptorProto()
        FILES[file.name].DESCRIPTOR.CopyToProto(checked_in)
        assert without_json_names(checked_in) == without_json_names(file), (
            f"{file.name} has changed; run proto/generate.sh"
        )


def test_the_golden_messages_match_the_descriptors() -> None:
    assert json.loads(messages.MESSAGES.read_text()) == messages.golden(), (
        "run python -m messages in python_client/tests"
    )


def test_the_golden_messages_have_every_message_and_every_slot() -> None:
    entries = json.loads(messages.MESSAGES.read_text())
    told = {entry["type"] for entry in entries}
    for module in FILES.values():
        for descriptor in module.DESCRIPTOR.message_types_by_name.values():
            assert descriptor.full_name in told
            slots = [field for oneof in messages.real_oneofs(descriptor) for field in oneof.fields]
            same_type = [entry for entry in entries if entry["type"] == descriptor.full_name]
            assert len(same_type) == max(1, len(slots))
            seen = {name for entry in same_type for name in entry["json"]}
            assert seen == {field.json_name for field in descriptor.fields}

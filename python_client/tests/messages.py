"""One fully populated instance of each message of twofold.v1, by reflection.

    cd python_client/tests && python -m messages

writes Tests/Fixtures/messages.json. The Swift tests check that the same bytes decode to the same
JSON. A message with a oneof has one instance for each slot. Repeated fields have two elements.
No field has its default value, and the upper halves of 64-bit numbers are not 0.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from twofold.v1 import (
    concentration_pb2,
    envelope_pb2,
    environment_pb2,
    game2048_pb2,
    rollout_pb2,
    rules_pb2,
    state_pb2,
    statistics_pb2,
)

# Every file of proto/.
MODULES = (
    envelope_pb2,
    environment_pb2,
    game2048_pb2,
    concentration_pb2,
    rollout_pb2,
    rules_pb2,
    state_pb2,
    statistics_pb2,
)

MESSAGES = Path(__file__).resolve().parents[2] / "Tests" / "Fixtures" / "messages.json"


def real_oneofs(descriptor: Descriptor) -> list[OneofDescriptor]:
    """Returns the oneofs of the .proto file, without the ones that `optional` adds."""
    return [oneof for oneof in descriptor.oneofs if not oneof.name.startswith("_")]


def scalar(field: FieldDescriptor, index: int) -> Any:
    """Returns a value that is not the default, and differs between fields and elements."""
    number = field.number + 100 * index
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return 2**63 + number
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT32:
        return 2**31 + number
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return number + 0.1
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return True
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values if value.number]
        return numbers[index % len(numbers)]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes((number + 17 * byte) % 256 for byte in range(16))
    if field.type == FieldDescriptor.TYPE_STRING:
        return f"{field.name} {number} ✓"
    raise NotImplementedError(field.full_name)


def instances(descriptor: Descriptor) -> Iterator[Message]:
    """Returns an instance for each slot of the message's oneof; one if it has no oneof."""
    oneofs = real_oneofs(descriptor)
    assert len(oneofs) <= 1, f"{descriptor.full_name} has more than one oneof"
    slots = [field.name for field in oneofs[0].fields] if oneofs else [""]
    in_oneof = set(slots)
    for slot in slots:
        message = message_factory.GetMessageClass(descriptor)()
        for field in descriptor.fields:
            if field.name not in in_oneof or field.name == slot:
                fill(message, field)
        yield message


def fill(message: Message, field: FieldDescriptor) -> None:
    """Sets one field, and all fields inside it."""
    value = getattr(message, field.name)
    nested = [] if field.message_type is None else list(instances(field.message_type))
    if hasattr(value, "extend"):  # repeated
        choice = nested or [scalar(field, index) for index in range(2)]
        value.extend(choice[index % len(choice)] for index in range(2))
    elif nested:
        value.SetInParent()
        value.CopyFrom(nested[field.number % len(nested)])
    else:
        setattr(message, field.name, scalar(field, 0))


def golden() -> list[dict[str, Any]]:
    """Returns all instances: the type's full name, the bytes in hex, and the canonical JSON."""
    return [
        {
            "type": descriptor.full_name,
            "binary": message.SerializeToString(deterministic=True).hex(),
            "json": json_format.MessageToDict(message),
        }
        for file in MODULES
        for descriptor in file.DESCRIPTOR.message_types_by_name.values()
        for message in instances(descriptor)
    ]


if __name__ == "__main__":
    entries = golden()
    MESSAGES.parent.mkdir(parents=True, exist_ok=True)
    MESSAGES.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n")
    print(f"{len(entries)} messages in {MESSAGES}")

from twofold.v1 import environment_pb2 as _environment_pb2
from twofold.v1 import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SavedSession(_message.Message):
    __slots__ = ("id", "client_key", "epoch", "holders", "last_seq", "last_request", "last_reply", "requests", "create", "lanes", "network", "weights", "idle_nanoseconds", "age_nanoseconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LAST_REPLY_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    IDLE_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    AGE_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    client_key: str
    epoch: int
    holders: _containers.RepeatedScalarFieldContainer[bytes]
    last_seq: int
    last_request: SavedFrames
    last_reply: SavedFrames
    requests: int
    create: _environment_pb2.CreateRequest
    lanes: bytes
    network: _rollout_pb2.NTupleForm
    weights: bytes
    idle_nanoseconds: int
    age_nanoseconds: int
    def __init__(self, id: _Optional[bytes] = ..., client_key: _Optional[str] = ..., epoch: _Optional[int] = ..., holders: _Optional[_Iterable[bytes]] = ..., last_seq: _Optional[int] = ..., last_request: _Optional[_Union[SavedFrames, _Mapping]] = ..., last_reply: _Optional[_Union[SavedFrames, _Mapping]] = ..., requests: _Optional[int] = ..., create: _Optional[_Union[_environment_pb2.CreateRequest, _Mapping]] = ..., lanes: _Optional[bytes] = ..., network: _Optional[_Union[_rollout_pb2.NTupleForm, _Mapping]] = ..., weights: _Optional[bytes] = ..., idle_nanoseconds: _Optional[int] = ..., age_nanoseconds: _Optional[int] = ...) -> None: ...

class SavedFrames(_message.Message):
    __slots__ = ("header", "payload")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    header: bytes
    payload: bytes
    def __init__(self, header: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

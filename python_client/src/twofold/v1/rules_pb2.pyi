from twofold.v1 import environment_pb2 as _environment_pb2
from twofold.v1 import game2048_pb2 as _game2048_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExpandOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPAND_OPERATION_UNSPECIFIED: _ClassVar[ExpandOperation]
    EXPAND_OPERATION_AFTERSTATES: _ClassVar[ExpandOperation]
    EXPAND_OPERATION_MOVE: _ClassVar[ExpandOperation]
    EXPAND_OPERATION_LEGAL: _ClassVar[ExpandOperation]
    EXPAND_OPERATION_SPAWN: _ClassVar[ExpandOperation]
    EXPAND_OPERATION_EXPLAIN: _ClassVar[ExpandOperation]
EXPAND_OPERATION_UNSPECIFIED: ExpandOperation
EXPAND_OPERATION_AFTERSTATES: ExpandOperation
EXPAND_OPERATION_MOVE: ExpandOperation
EXPAND_OPERATION_LEGAL: ExpandOperation
EXPAND_OPERATION_SPAWN: ExpandOperation
EXPAND_OPERATION_EXPLAIN: ExpandOperation

class ExpandRequest(_message.Message):
    __slots__ = ("environment_id", "count", "operation", "game2048")
    ENVIRONMENT_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    GAME2048_FIELD_NUMBER: _ClassVar[int]
    environment_id: str
    count: int
    operation: ExpandOperation
    game2048: _game2048_pb2.Game2048Config
    def __init__(self, environment_id: _Optional[str] = ..., count: _Optional[int] = ..., operation: _Optional[_Union[ExpandOperation, str]] = ..., game2048: _Optional[_Union[_game2048_pb2.Game2048Config, _Mapping]] = ...) -> None: ...

class ExpandReply(_message.Message):
    __slots__ = ("arrays", "count")
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    arrays: _environment_pb2.PayloadLayout
    count: int
    def __init__(self, arrays: _Optional[_Union[_environment_pb2.PayloadLayout, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

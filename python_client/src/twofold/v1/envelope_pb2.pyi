from twofold.v1 import environment_pb2 as _environment_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_CODE_UNSPECIFIED: _ClassVar[ErrorCode]
    ERROR_CODE_INVALID_ARGUMENT: _ClassVar[ErrorCode]
    ERROR_CODE_NOT_FOUND: _ClassVar[ErrorCode]
    ERROR_CODE_FAILED_PRECONDITION: _ClassVar[ErrorCode]
    ERROR_CODE_OUT_OF_SEQUENCE: _ClassVar[ErrorCode]
    ERROR_CODE_CONFLICT: _ClassVar[ErrorCode]
    ERROR_CODE_STALE_EPOCH: _ClassVar[ErrorCode]
    ERROR_CODE_PERMISSION_DENIED: _ClassVar[ErrorCode]
    ERROR_CODE_RESOURCE_EXHAUSTED: _ClassVar[ErrorCode]
    ERROR_CODE_UNSUPPORTED_VERSION: _ClassVar[ErrorCode]
    ERROR_CODE_SHUTTING_DOWN: _ClassVar[ErrorCode]
    ERROR_CODE_INTERNAL: _ClassVar[ErrorCode]
ERROR_CODE_UNSPECIFIED: ErrorCode
ERROR_CODE_INVALID_ARGUMENT: ErrorCode
ERROR_CODE_NOT_FOUND: ErrorCode
ERROR_CODE_FAILED_PRECONDITION: ErrorCode
ERROR_CODE_OUT_OF_SEQUENCE: ErrorCode
ERROR_CODE_CONFLICT: ErrorCode
ERROR_CODE_STALE_EPOCH: ErrorCode
ERROR_CODE_PERMISSION_DENIED: ErrorCode
ERROR_CODE_RESOURCE_EXHAUSTED: ErrorCode
ERROR_CODE_UNSUPPORTED_VERSION: ErrorCode
ERROR_CODE_SHUTTING_DOWN: ErrorCode
ERROR_CODE_INTERNAL: ErrorCode

class Request(_message.Message):
    __slots__ = ("session", "epoch", "seq", "hello", "create", "reset", "step", "observe", "afterstates", "close")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    AFTERSTATES_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    seq: int
    hello: _environment_pb2.HelloRequest
    create: _environment_pb2.CreateRequest
    reset: _environment_pb2.ResetRequest
    step: _environment_pb2.StepRequest
    observe: _environment_pb2.ObserveRequest
    afterstates: _environment_pb2.AfterstatesRequest
    close: _environment_pb2.CloseRequest
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ..., hello: _Optional[_Union[_environment_pb2.HelloRequest, _Mapping]] = ..., create: _Optional[_Union[_environment_pb2.CreateRequest, _Mapping]] = ..., reset: _Optional[_Union[_environment_pb2.ResetRequest, _Mapping]] = ..., step: _Optional[_Union[_environment_pb2.StepRequest, _Mapping]] = ..., observe: _Optional[_Union[_environment_pb2.ObserveRequest, _Mapping]] = ..., afterstates: _Optional[_Union[_environment_pb2.AfterstatesRequest, _Mapping]] = ..., close: _Optional[_Union[_environment_pb2.CloseRequest, _Mapping]] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("seq", "error", "hello", "create", "reset", "step", "observe", "afterstates", "close")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    AFTERSTATES_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    error: Error
    hello: _environment_pb2.HelloReply
    create: _environment_pb2.CreateReply
    reset: _environment_pb2.ResetReply
    step: _environment_pb2.StepReply
    observe: _environment_pb2.ObserveReply
    afterstates: _environment_pb2.AfterstatesReply
    close: _environment_pb2.CloseReply
    def __init__(self, seq: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., hello: _Optional[_Union[_environment_pb2.HelloReply, _Mapping]] = ..., create: _Optional[_Union[_environment_pb2.CreateReply, _Mapping]] = ..., reset: _Optional[_Union[_environment_pb2.ResetReply, _Mapping]] = ..., step: _Optional[_Union[_environment_pb2.StepReply, _Mapping]] = ..., observe: _Optional[_Union[_environment_pb2.ObserveReply, _Mapping]] = ..., afterstates: _Optional[_Union[_environment_pb2.AfterstatesReply, _Mapping]] = ..., close: _Optional[_Union[_environment_pb2.CloseReply, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "field", "lane", "expected_seq")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    field: str
    lane: int
    expected_seq: int
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., lane: _Optional[int] = ..., expected_seq: _Optional[int] = ...) -> None: ...

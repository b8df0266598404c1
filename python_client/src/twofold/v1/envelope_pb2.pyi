from twofold.v1 import environment_pb2 as _environment_pb2
from twofold.v1 import rollout_pb2 as _rollout_pb2
from twofold.v1 import rules_pb2 as _rules_pb2
from twofold.v1 import statistics_pb2 as _statistics_pb2
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
    __slots__ = ("session", "epoch", "seq", "hello", "create", "reset", "step", "observe", "afterstates", "close", "snapshot", "restore", "expand", "stats", "resume", "keepalive", "rollout", "policy")
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
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
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
    snapshot: _environment_pb2.SnapshotRequest
    restore: _environment_pb2.RestoreRequest
    expand: _rules_pb2.ExpandRequest
    stats: _statistics_pb2.StatsRequest
    resume: _environment_pb2.ResumeRequest
    keepalive: _environment_pb2.KeepaliveRequest
    rollout: _rollout_pb2.RolloutRequest
    policy: _rollout_pb2.PolicyRequest
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ..., hello: _Optional[_Union[_environment_pb2.HelloRequest, _Mapping]] = ..., create: _Optional[_Union[_environment_pb2.CreateRequest, _Mapping]] = ..., reset: _Optional[_Union[_environment_pb2.ResetRequest, _Mapping]] = ..., step: _Optional[_Union[_environment_pb2.StepRequest, _Mapping]] = ..., observe: _Optional[_Union[_environment_pb2.ObserveRequest, _Mapping]] = ..., afterstates: _Optional[_Union[_environment_pb2.AfterstatesRequest, _Mapping]] = ..., close: _Optional[_Union[_environment_pb2.CloseRequest, _Mapping]] = ..., snapshot: _Optional[_Union[_environment_pb2.SnapshotRequest, _Mapping]] = ..., restore: _Optional[_Union[_environment_pb2.RestoreRequest, _Mapping]] = ..., expand: _Optional[_Union[_rules_pb2.ExpandRequest, _Mapping]] = ..., stats: _Optional[_Union[_statistics_pb2.StatsRequest, _Mapping]] = ..., resume: _Optional[_Union[_environment_pb2.ResumeRequest, _Mapping]] = ..., keepalive: _Optional[_Union[_environment_pb2.KeepaliveRequest, _Mapping]] = ..., rollout: _Optional[_Union[_rollout_pb2.RolloutRequest, _Mapping]] = ..., policy: _Optional[_Union[_rollout_pb2.PolicyRequest, _Mapping]] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("seq", "error", "hello", "create", "reset", "step", "observe", "afterstates", "close", "snapshot", "restore", "expand", "stats", "resume", "keepalive", "rollout", "policy")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    AFTERSTATES_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    seq: int
    error: Error
    hello: _environment_pb2.HelloReply
    create: _environment_pb2.CreateReply
    reset: _environment_pb2.ResetReply
    step: _environment_pb2.StepReply
    observe: _environment_pb2.ObserveReply
    afterstates: _environment_pb2.AfterstatesReply
    close: _environment_pb2.CloseReply
    snapshot: _environment_pb2.SnapshotReply
    restore: _environment_pb2.RestoreReply
    expand: _rules_pb2.ExpandReply
    stats: _statistics_pb2.StatsReply
    resume: _environment_pb2.ResumeReply
    keepalive: _environment_pb2.KeepaliveReply
    rollout: _rollout_pb2.RolloutReply
    policy: _rollout_pb2.PolicyReply
    def __init__(self, seq: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., hello: _Optional[_Union[_environment_pb2.HelloReply, _Mapping]] = ..., create: _Optional[_Union[_environment_pb2.CreateReply, _Mapping]] = ..., reset: _Optional[_Union[_environment_pb2.ResetReply, _Mapping]] = ..., step: _Optional[_Union[_environment_pb2.StepReply, _Mapping]] = ..., observe: _Optional[_Union[_environment_pb2.ObserveReply, _Mapping]] = ..., afterstates: _Optional[_Union[_environment_pb2.AfterstatesReply, _Mapping]] = ..., close: _Optional[_Union[_environment_pb2.CloseReply, _Mapping]] = ..., snapshot: _Optional[_Union[_environment_pb2.SnapshotReply, _Mapping]] = ..., restore: _Optional[_Union[_environment_pb2.RestoreReply, _Mapping]] = ..., expand: _Optional[_Union[_rules_pb2.ExpandReply, _Mapping]] = ..., stats: _Optional[_Union[_statistics_pb2.StatsReply, _Mapping]] = ..., resume: _Optional[_Union[_environment_pb2.ResumeReply, _Mapping]] = ..., keepalive: _Optional[_Union[_environment_pb2.KeepaliveReply, _Mapping]] = ..., rollout: _Optional[_Union[_rollout_pb2.RolloutReply, _Mapping]] = ..., policy: _Optional[_Union[_rollout_pb2.PolicyReply, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "field", "lane", "expected_seq", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    field: str
    lane: int
    expected_seq: int
    retry_after_ms: int
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., lane: _Optional[int] = ..., expected_seq: _Optional[int] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

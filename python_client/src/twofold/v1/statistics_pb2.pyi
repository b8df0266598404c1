from twofold.v1 import environment_pb2 as _environment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatsReply(_message.Message):
    __slots__ = ("server_version", "uptime", "draining", "threads", "limits", "counters", "usage", "requests", "refusals", "sessions")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    uptime: float
    draining: bool
    threads: int
    limits: _environment_pb2.Limits
    counters: Counters
    usage: Usage
    requests: _containers.RepeatedCompositeFieldContainer[RequestStats]
    refusals: _containers.RepeatedCompositeFieldContainer[RefusalStats]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStats]
    def __init__(self, server_version: _Optional[str] = ..., uptime: _Optional[float] = ..., draining: bool = ..., threads: _Optional[int] = ..., limits: _Optional[_Union[_environment_pb2.Limits, _Mapping]] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., requests: _Optional[_Iterable[_Union[RequestStats, _Mapping]]] = ..., refusals: _Optional[_Iterable[_Union[RefusalStats, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[SessionStats, _Mapping]]] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("received", "executed", "refused", "resent", "parked", "dropped", "steps", "sessions_created", "sessions_closed", "sessions_expired", "keys_refused")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RESENT_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_CREATED_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_CLOSED_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    KEYS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    received: int
    executed: int
    refused: int
    resent: int
    parked: int
    dropped: int
    steps: int
    sessions_created: int
    sessions_closed: int
    sessions_expired: int
    keys_refused: int
    def __init__(self, received: _Optional[int] = ..., executed: _Optional[int] = ..., refused: _Optional[int] = ..., resent: _Optional[int] = ..., parked: _Optional[int] = ..., dropped: _Optional[int] = ..., steps: _Optional[int] = ..., sessions_created: _Optional[int] = ..., sessions_closed: _Optional[int] = ..., sessions_expired: _Optional[int] = ..., keys_refused: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("sessions", "boards", "in_progress", "session_bytes", "resident_bytes", "descriptors")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    boards: int
    in_progress: int
    session_bytes: int
    resident_bytes: int
    descriptors: int
    def __init__(self, sessions: _Optional[int] = ..., boards: _Optional[int] = ..., in_progress: _Optional[int] = ..., session_bytes: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., descriptors: _Optional[int] = ...) -> None: ...

class RequestStats(_message.Message):
    __slots__ = ("name", "executed", "refused", "seconds", "p50", "p99")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    name: str
    executed: int
    refused: int
    seconds: float
    p50: float
    p99: float
    def __init__(self, name: _Optional[str] = ..., executed: _Optional[int] = ..., refused: _Optional[int] = ..., seconds: _Optional[float] = ..., p50: _Optional[float] = ..., p99: _Optional[float] = ...) -> None: ...

class RefusalStats(_message.Message):
    __slots__ = ("code", "count")
    CODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    code: str
    count: int
    def __init__(self, code: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class SessionStats(_message.Message):
    __slots__ = ("id", "client", "environment_id", "boards", "requests", "age", "idle", "bytes", "busy")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_ID_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    id: str
    client: str
    environment_id: str
    boards: int
    requests: int
    age: float
    idle: float
    bytes: int
    busy: bool
    def __init__(self, id: _Optional[str] = ..., client: _Optional[str] = ..., environment_id: _Optional[str] = ..., boards: _Optional[int] = ..., requests: _Optional[int] = ..., age: _Optional[float] = ..., idle: _Optional[float] = ..., bytes: _Optional[int] = ..., busy: bool = ...) -> None: ...

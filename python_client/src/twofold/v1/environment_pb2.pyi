from twofold.v1 import concentration_pb2 as _concentration_pb2
from twofold.v1 import game2048_pb2 as _game2048_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AutoresetMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUTORESET_MODE_UNSPECIFIED: _ClassVar[AutoresetMode]
    AUTORESET_MODE_NEXT_STEP: _ClassVar[AutoresetMode]
    AUTORESET_MODE_SAME_STEP: _ClassVar[AutoresetMode]
    AUTORESET_MODE_DISABLED: _ClassVar[AutoresetMode]

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_BOOL: _ClassVar[DataType]
    DATA_TYPE_UINT8: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_INT32: _ClassVar[DataType]
    DATA_TYPE_FLOAT32: _ClassVar[DataType]
    DATA_TYPE_UINT64: _ClassVar[DataType]
    DATA_TYPE_FLOAT64: _ClassVar[DataType]
AUTORESET_MODE_UNSPECIFIED: AutoresetMode
AUTORESET_MODE_NEXT_STEP: AutoresetMode
AUTORESET_MODE_SAME_STEP: AutoresetMode
AUTORESET_MODE_DISABLED: AutoresetMode
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_BOOL: DataType
DATA_TYPE_UINT8: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_INT32: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_UINT64: DataType
DATA_TYPE_FLOAT64: DataType

class HelloRequest(_message.Message):
    __slots__ = ("protocol_version", "client")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    client: str
    def __init__(self, protocol_version: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("protocol_version", "server_version", "environments", "limits", "threads")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    server_version: str
    environments: _containers.RepeatedCompositeFieldContainer[EnvironmentInfo]
    limits: Limits
    threads: int
    def __init__(self, protocol_version: _Optional[int] = ..., server_version: _Optional[str] = ..., environments: _Optional[_Iterable[_Union[EnvironmentInfo, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., threads: _Optional[int] = ...) -> None: ...

class EnvironmentInfo(_message.Message):
    __slots__ = ("id", "actions", "reward_terms", "extra_infos")
    ID_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    REWARD_TERMS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INFOS_FIELD_NUMBER: _ClassVar[int]
    id: str
    actions: _containers.RepeatedScalarFieldContainer[str]
    reward_terms: _containers.RepeatedScalarFieldContainer[str]
    extra_infos: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., actions: _Optional[_Iterable[str]] = ..., reward_terms: _Optional[_Iterable[str]] = ..., extra_infos: _Optional[_Iterable[str]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_message_bytes", "max_boards_per_session", "max_sessions", "max_boards", "max_bytes", "max_sessions_per_client", "idle_timeout")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BOARDS_PER_SESSION_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_BOARDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_PER_CLIENT_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    max_boards_per_session: int
    max_sessions: int
    max_boards: int
    max_bytes: int
    max_sessions_per_client: int
    idle_timeout: int
    def __init__(self, max_message_bytes: _Optional[int] = ..., max_boards_per_session: _Optional[int] = ..., max_sessions: _Optional[int] = ..., max_boards: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_sessions_per_client: _Optional[int] = ..., idle_timeout: _Optional[int] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("environment_id", "num_envs", "autoreset_mode", "max_episode_steps", "reward", "extra_infos", "client_arguments", "game2048", "concentration")
    ENVIRONMENT_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_ENVS_FIELD_NUMBER: _ClassVar[int]
    AUTORESET_MODE_FIELD_NUMBER: _ClassVar[int]
    MAX_EPISODE_STEPS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INFOS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    GAME2048_FIELD_NUMBER: _ClassVar[int]
    CONCENTRATION_FIELD_NUMBER: _ClassVar[int]
    environment_id: str
    num_envs: int
    autoreset_mode: AutoresetMode
    max_episode_steps: int
    reward: RewardSpec
    extra_infos: _containers.RepeatedScalarFieldContainer[str]
    client_arguments: str
    game2048: _game2048_pb2.Game2048Config
    concentration: _concentration_pb2.ConcentrationConfig
    def __init__(self, environment_id: _Optional[str] = ..., num_envs: _Optional[int] = ..., autoreset_mode: _Optional[_Union[AutoresetMode, str]] = ..., max_episode_steps: _Optional[int] = ..., reward: _Optional[_Union[RewardSpec, _Mapping]] = ..., extra_infos: _Optional[_Iterable[str]] = ..., client_arguments: _Optional[str] = ..., game2048: _Optional[_Union[_game2048_pb2.Game2048Config, _Mapping]] = ..., concentration: _Optional[_Union[_concentration_pb2.ConcentrationConfig, _Mapping]] = ...) -> None: ...

class RewardSpec(_message.Message):
    __slots__ = ("terms", "scale", "clip_low", "clip_high")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    CLIP_LOW_FIELD_NUMBER: _ClassVar[int]
    CLIP_HIGH_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedCompositeFieldContainer[RewardTerm]
    scale: float
    clip_low: float
    clip_high: float
    def __init__(self, terms: _Optional[_Iterable[_Union[RewardTerm, _Mapping]]] = ..., scale: _Optional[float] = ..., clip_low: _Optional[float] = ..., clip_high: _Optional[float] = ...) -> None: ...

class RewardTerm(_message.Message):
    __slots__ = ("name", "weight", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    parameters: _containers.RepeatedCompositeFieldContainer[RewardParameter]
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., parameters: _Optional[_Iterable[_Union[RewardParameter, _Mapping]]] = ...) -> None: ...

class RewardParameter(_message.Message):
    __slots__ = ("name", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class CreateReply(_message.Message):
    __slots__ = ("epoch", "observation_space", "action_space", "reset", "step", "afterstates", "reward_terms", "finals", "board_space")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_SPACE_FIELD_NUMBER: _ClassVar[int]
    ACTION_SPACE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    AFTERSTATES_FIELD_NUMBER: _ClassVar[int]
    REWARD_TERMS_FIELD_NUMBER: _ClassVar[int]
    FINALS_FIELD_NUMBER: _ClassVar[int]
    BOARD_SPACE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    observation_space: Space
    action_space: Space
    reset: PayloadLayout
    step: PayloadLayout
    afterstates: PayloadLayout
    reward_terms: _containers.RepeatedScalarFieldContainer[str]
    finals: PayloadLayout
    board_space: Space
    def __init__(self, epoch: _Optional[int] = ..., observation_space: _Optional[_Union[Space, _Mapping]] = ..., action_space: _Optional[_Union[Space, _Mapping]] = ..., reset: _Optional[_Union[PayloadLayout, _Mapping]] = ..., step: _Optional[_Union[PayloadLayout, _Mapping]] = ..., afterstates: _Optional[_Union[PayloadLayout, _Mapping]] = ..., reward_terms: _Optional[_Iterable[str]] = ..., finals: _Optional[_Union[PayloadLayout, _Mapping]] = ..., board_space: _Optional[_Union[Space, _Mapping]] = ...) -> None: ...

class Space(_message.Message):
    __slots__ = ("box", "discrete")
    BOX_FIELD_NUMBER: _ClassVar[int]
    DISCRETE_FIELD_NUMBER: _ClassVar[int]
    box: BoxSpace
    discrete: DiscreteSpace
    def __init__(self, box: _Optional[_Union[BoxSpace, _Mapping]] = ..., discrete: _Optional[_Union[DiscreteSpace, _Mapping]] = ...) -> None: ...

class BoxSpace(_message.Message):
    __slots__ = ("dtype", "shape", "low", "high")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    low: float
    high: float
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class DiscreteSpace(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: int
    def __init__(self, n: _Optional[int] = ...) -> None: ...

class PayloadLayout(_message.Message):
    __slots__ = ("arrays", "size")
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    arrays: _containers.RepeatedCompositeFieldContainer[ArrayLayout]
    size: int
    def __init__(self, arrays: _Optional[_Iterable[_Union[ArrayLayout, _Mapping]]] = ..., size: _Optional[int] = ...) -> None: ...

class ArrayLayout(_message.Message):
    __slots__ = ("name", "dtype", "shape", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    offset: int
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., offset: _Optional[int] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("seeds", "mask", "boards")
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    seeds: bool
    mask: bool
    boards: bool
    def __init__(self, seeds: bool = ..., mask: bool = ..., boards: bool = ...) -> None: ...

class ResetReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StepReply(_message.Message):
    __slots__ = ("finals",)
    FINALS_FIELD_NUMBER: _ClassVar[int]
    finals: PayloadLayout
    def __init__(self, finals: _Optional[_Union[PayloadLayout, _Mapping]] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ObserveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AfterstatesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AfterstatesReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("count", "lanes", "rows", "seeds")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    count: int
    lanes: bool
    rows: bool
    seeds: bool
    def __init__(self, count: _Optional[int] = ..., lanes: bool = ..., rows: bool = ..., seeds: bool = ...) -> None: ...

class RestoreReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeepaliveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeepaliveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("holder",)
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    holder: bytes
    def __init__(self, holder: _Optional[bytes] = ...) -> None: ...

class ResumeReply(_message.Message):
    __slots__ = ("epoch", "last_seq", "create", "created", "last_reply", "was_reset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    LAST_REPLY_FIELD_NUMBER: _ClassVar[int]
    WAS_RESET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    last_seq: int
    create: CreateRequest
    created: CreateReply
    last_reply: bytes
    was_reset: bool
    def __init__(self, epoch: _Optional[int] = ..., last_seq: _Optional[int] = ..., create: _Optional[_Union[CreateRequest, _Mapping]] = ..., created: _Optional[_Union[CreateReply, _Mapping]] = ..., last_reply: _Optional[bytes] = ..., was_reset: bool = ...) -> None: ...

class CloseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CloseReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

from twofold.v1 import environment_pb2 as _environment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RolloutRequest(_message.Message):
    __slots__ = ("steps", "max_payload_bytes", "infos", "actions", "random", "greedy", "expectimax", "ntuple", "optimal", "fixed_order")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    INFOS_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    GREEDY_FIELD_NUMBER: _ClassVar[int]
    EXPECTIMAX_FIELD_NUMBER: _ClassVar[int]
    NTUPLE_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    FIXED_ORDER_FIELD_NUMBER: _ClassVar[int]
    steps: int
    max_payload_bytes: int
    infos: _containers.RepeatedScalarFieldContainer[str]
    actions: GivenActions
    random: RandomPolicy
    greedy: GreedyPolicy
    expectimax: ExpectimaxPolicy
    ntuple: NTuplePolicy
    optimal: OptimalPolicy
    fixed_order: FixedOrderPolicy
    def __init__(self, steps: _Optional[int] = ..., max_payload_bytes: _Optional[int] = ..., infos: _Optional[_Iterable[str]] = ..., actions: _Optional[_Union[GivenActions, _Mapping]] = ..., random: _Optional[_Union[RandomPolicy, _Mapping]] = ..., greedy: _Optional[_Union[GreedyPolicy, _Mapping]] = ..., expectimax: _Optional[_Union[ExpectimaxPolicy, _Mapping]] = ..., ntuple: _Optional[_Union[NTuplePolicy, _Mapping]] = ..., optimal: _Optional[_Union[OptimalPolicy, _Mapping]] = ..., fixed_order: _Optional[_Union[FixedOrderPolicy, _Mapping]] = ...) -> None: ...

class RolloutReply(_message.Message):
    __slots__ = ("steps", "arrays", "finals")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    FINALS_FIELD_NUMBER: _ClassVar[int]
    steps: int
    arrays: _environment_pb2.PayloadLayout
    finals: _environment_pb2.PayloadLayout
    def __init__(self, steps: _Optional[int] = ..., arrays: _Optional[_Union[_environment_pb2.PayloadLayout, _Mapping]] = ..., finals: _Optional[_Union[_environment_pb2.PayloadLayout, _Mapping]] = ...) -> None: ...

class GivenActions(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RandomPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FixedOrderPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GreedyPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExpectimaxPolicy(_message.Message):
    __slots__ = ("depth", "extension")
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    depth: int
    extension: int
    def __init__(self, depth: _Optional[int] = ..., extension: _Optional[int] = ...) -> None: ...

class NTuplePolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OptimalPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PolicyRequest(_message.Message):
    __slots__ = ("network", "weights")
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    network: NTupleForm
    weights: WeightsPiece
    def __init__(self, network: _Optional[_Union[NTupleForm, _Mapping]] = ..., weights: _Optional[_Union[WeightsPiece, _Mapping]] = ...) -> None: ...

class PolicyReply(_message.Message):
    __slots__ = ("bytes", "received")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    received: int
    def __init__(self, bytes: _Optional[int] = ..., received: _Optional[int] = ...) -> None: ...

class NTupleForm(_message.Message):
    __slots__ = ("tuples", "exponents", "symmetric")
    TUPLES_FIELD_NUMBER: _ClassVar[int]
    EXPONENTS_FIELD_NUMBER: _ClassVar[int]
    SYMMETRIC_FIELD_NUMBER: _ClassVar[int]
    tuples: _containers.RepeatedCompositeFieldContainer[NTuple]
    exponents: int
    symmetric: bool
    def __init__(self, tuples: _Optional[_Iterable[_Union[NTuple, _Mapping]]] = ..., exponents: _Optional[int] = ..., symmetric: bool = ...) -> None: ...

class NTuple(_message.Message):
    __slots__ = ("cells",)
    CELLS_FIELD_NUMBER: _ClassVar[int]
    cells: bytes
    def __init__(self, cells: _Optional[bytes] = ...) -> None: ...

class WeightsPiece(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

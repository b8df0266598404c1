from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IllegalAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ILLEGAL_ACTION_UNSPECIFIED: _ClassVar[IllegalAction]
    ILLEGAL_ACTION_NOOP: _ClassVar[IllegalAction]
    ILLEGAL_ACTION_TERMINATE: _ClassVar[IllegalAction]

class Objective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBJECTIVE_UNSPECIFIED: _ClassVar[Objective]
    OBJECTIVE_SCORE: _ClassVar[Objective]
    OBJECTIVE_MOVES: _ClassVar[Objective]
    OBJECTIVE_GOAL: _ClassVar[Objective]
ILLEGAL_ACTION_UNSPECIFIED: IllegalAction
ILLEGAL_ACTION_NOOP: IllegalAction
ILLEGAL_ACTION_TERMINATE: IllegalAction
OBJECTIVE_UNSPECIFIED: Objective
OBJECTIVE_SCORE: Objective
OBJECTIVE_MOVES: Objective
OBJECTIVE_GOAL: Objective

class Game2048Config(_message.Message):
    __slots__ = ("rows", "columns", "goal", "stop_at_goal", "four_probability", "start_tiles", "illegal_action", "objective")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    STOP_AT_GOAL_FIELD_NUMBER: _ClassVar[int]
    FOUR_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    START_TILES_FIELD_NUMBER: _ClassVar[int]
    ILLEGAL_ACTION_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    goal: int
    stop_at_goal: bool
    four_probability: float
    start_tiles: int
    illegal_action: IllegalAction
    objective: Objective
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., goal: _Optional[int] = ..., stop_at_goal: bool = ..., four_probability: _Optional[float] = ..., start_tiles: _Optional[int] = ..., illegal_action: _Optional[_Union[IllegalAction, str]] = ..., objective: _Optional[_Union[Objective, str]] = ...) -> None: ...

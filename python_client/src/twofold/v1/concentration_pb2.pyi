from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MatchedCards(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATCHED_CARDS_UNSPECIFIED: _ClassVar[MatchedCards]
    MATCHED_CARDS_REMOVED: _ClassVar[MatchedCards]
    MATCHED_CARDS_FACE_UP: _ClassVar[MatchedCards]

class UnturnableCard(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNTURNABLE_CARD_UNSPECIFIED: _ClassVar[UnturnableCard]
    UNTURNABLE_CARD_NOOP: _ClassVar[UnturnableCard]
    UNTURNABLE_CARD_END_TURN: _ClassVar[UnturnableCard]
    UNTURNABLE_CARD_TERMINATE: _ClassVar[UnturnableCard]
MATCHED_CARDS_UNSPECIFIED: MatchedCards
MATCHED_CARDS_REMOVED: MatchedCards
MATCHED_CARDS_FACE_UP: MatchedCards
UNTURNABLE_CARD_UNSPECIFIED: UnturnableCard
UNTURNABLE_CARD_NOOP: UnturnableCard
UNTURNABLE_CARD_END_TURN: UnturnableCard
UNTURNABLE_CARD_TERMINATE: UnturnableCard

class ConcentrationConfig(_message.Message):
    __slots__ = ("rows", "columns", "symbols", "peek_budget", "unlimited_peeks", "matched_cards", "illegal_action", "observe_last_action", "tell_deck")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    PEEK_BUDGET_FIELD_NUMBER: _ClassVar[int]
    UNLIMITED_PEEKS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_CARDS_FIELD_NUMBER: _ClassVar[int]
    ILLEGAL_ACTION_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_LAST_ACTION_FIELD_NUMBER: _ClassVar[int]
    TELL_DECK_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    symbols: int
    peek_budget: int
    unlimited_peeks: bool
    matched_cards: MatchedCards
    illegal_action: UnturnableCard
    observe_last_action: bool
    tell_deck: bool
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., symbols: _Optional[int] = ..., peek_budget: _Optional[int] = ..., unlimited_peeks: bool = ..., matched_cards: _Optional[_Union[MatchedCards, str]] = ..., illegal_action: _Optional[_Union[UnturnableCard, str]] = ..., observe_last_action: bool = ..., tell_deck: bool = ...) -> None: ...

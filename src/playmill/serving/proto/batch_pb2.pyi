from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Standing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OK: _ClassVar[Standing]
    REPEATED: _ClassVar[Standing]
    NOT_YOUR_TURN: _ClassVar[Standing]
    ILLEGAL: _ClassVar[Standing]
    OVER: _ClassVar[Standing]
    STALE: _ClassVar[Standing]
    AHEAD: _ClassVar[Standing]
    NO_GAME: _ClassVar[Standing]
    WRONG_KEY: _ClassVar[Standing]
OK: Standing
REPEATED: Standing
NOT_YOUR_TURN: Standing
ILLEGAL: Standing
OVER: Standing
STALE: Standing
AHEAD: Standing
NO_GAME: Standing
WRONG_KEY: Standing

class CreateBatchGamesRequest(_message.Message):
    __slots__ = ("game", "options", "count", "seed", "bots", "request")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    BOTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    game: str
    options: _containers.ScalarMap[str, str]
    count: int
    seed: bytes
    bots: _containers.RepeatedScalarFieldContainer[str]
    request: bytes
    def __init__(self, game: _Optional[str] = ..., options: _Optional[_Mapping[str, str]] = ..., count: _Optional[int] = ..., seed: _Optional[bytes] = ..., bots: _Optional[_Iterable[str]] = ..., request: _Optional[bytes] = ...) -> None: ...

class CreateBatchGamesReply(_message.Message):
    __slots__ = ("hall", "game", "key", "seats", "actions", "legal_bytes", "observation_bytes", "roles", "schema_hash", "layout_hash")
    HALL_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    LEGAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_HASH_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_HASH_FIELD_NUMBER: _ClassVar[int]
    hall: int
    game: bytes
    key: bytes
    seats: int
    actions: int
    legal_bytes: int
    observation_bytes: int
    roles: _containers.RepeatedScalarFieldContainer[str]
    schema_hash: int
    layout_hash: int
    def __init__(self, hall: _Optional[int] = ..., game: _Optional[bytes] = ..., key: _Optional[bytes] = ..., seats: _Optional[int] = ..., actions: _Optional[int] = ..., legal_bytes: _Optional[int] = ..., observation_bytes: _Optional[int] = ..., roles: _Optional[_Iterable[str]] = ..., schema_hash: _Optional[int] = ..., layout_hash: _Optional[int] = ...) -> None: ...

class GetBatchStatesRequest(_message.Message):
    __slots__ = ("hall", "game", "seat", "key")
    HALL_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    hall: int
    game: bytes
    seat: bytes
    key: bytes
    def __init__(self, hall: _Optional[int] = ..., game: _Optional[bytes] = ..., seat: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class StreamBatchStatesRequest(_message.Message):
    __slots__ = ("seats", "interval_ms")
    SEATS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    seats: GetBatchStatesRequest
    interval_ms: int
    def __init__(self, seats: _Optional[_Union[GetBatchStatesRequest, _Mapping]] = ..., interval_ms: _Optional[int] = ...) -> None: ...

class BatchStates(_message.Message):
    __slots__ = ("layout_hash", "standing", "turn", "to_act", "role", "over", "rewards", "legal", "observation", "row")
    LAYOUT_HASH_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TO_ACT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    LEGAL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    layout_hash: int
    standing: bytes
    turn: bytes
    to_act: bytes
    role: bytes
    over: bytes
    rewards: bytes
    legal: bytes
    observation: bytes
    row: bytes
    def __init__(self, layout_hash: _Optional[int] = ..., standing: _Optional[bytes] = ..., turn: _Optional[bytes] = ..., to_act: _Optional[bytes] = ..., role: _Optional[bytes] = ..., over: _Optional[bytes] = ..., rewards: _Optional[bytes] = ..., legal: _Optional[bytes] = ..., observation: _Optional[bytes] = ..., row: _Optional[bytes] = ...) -> None: ...

class SubmitBatchActionsRequest(_message.Message):
    __slots__ = ("hall", "game", "seat", "key", "turn", "action")
    HALL_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    hall: int
    game: bytes
    seat: bytes
    key: bytes
    turn: bytes
    action: bytes
    def __init__(self, hall: _Optional[int] = ..., game: _Optional[bytes] = ..., seat: _Optional[bytes] = ..., key: _Optional[bytes] = ..., turn: _Optional[bytes] = ..., action: _Optional[bytes] = ...) -> None: ...

class ResetBatchGamesRequest(_message.Message):
    __slots__ = ("hall", "game", "key", "turn", "seed")
    HALL_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    hall: int
    game: bytes
    key: bytes
    turn: bytes
    seed: bytes
    def __init__(self, hall: _Optional[int] = ..., game: _Optional[bytes] = ..., key: _Optional[bytes] = ..., turn: _Optional[bytes] = ..., seed: _Optional[bytes] = ...) -> None: ...

class DeleteGamesRequest(_message.Message):
    __slots__ = ("hall", "game", "key")
    HALL_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    hall: int
    game: bytes
    key: bytes
    def __init__(self, hall: _Optional[int] = ..., game: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class BatchAnswers(_message.Message):
    __slots__ = ("layout_hash", "standing", "turn", "over")
    LAYOUT_HASH_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    layout_hash: int
    standing: bytes
    turn: bytes
    over: bytes
    def __init__(self, layout_hash: _Optional[int] = ..., standing: _Optional[bytes] = ..., turn: _Optional[bytes] = ..., over: _Optional[bytes] = ...) -> None: ...

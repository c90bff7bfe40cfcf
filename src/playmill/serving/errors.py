"""What can be wrong with a whole request. What is wrong with a row stands in its `standing`."""

from __future__ import annotations

from enum import IntEnum

from playmill.games import PlaymillError


class Code(IntEnum):
    """Why a request was refused; names and numbers are gRPC's."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class ServiceError(PlaymillError):
    """A request that was refused as a whole; nothing was changed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code

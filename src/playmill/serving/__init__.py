"""The batch game service: games behind keys, for clients in this process, on this host or beyond."""

from playmill.serving.client import Client, Games, LocalClient, connect
from playmill.serving.columns import NOBODY, Answers, Layout, Standing, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.house import House
from playmill.serving.limits import Limits

__all__ = [
    "NOBODY",
    "Answers",
    "Client",
    "Code",
    "Games",
    "House",
    "Layout",
    "Limits",
    "LocalClient",
    "ServiceError",
    "Standing",
    "States",
    "connect",
]

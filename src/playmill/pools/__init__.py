"""Pools of games in flight, and adapters to other people's environment interfaces."""

from playmill.pools.native import FIRST_BOT, NativePool, Outcome, Turns

__all__ = ["FIRST_BOT", "NativePool", "Outcome", "Turns"]

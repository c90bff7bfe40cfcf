"""Games on file: a seed and its actions name a game for ever, so that is all a replay holds."""

from playmill.replays.file import ReplayFile, ReplayWriter, Stored
from playmill.replays.replay import Replay, Timeline, rules_signature

__all__ = ["Replay", "ReplayFile", "ReplayWriter", "Stored", "Timeline", "rules_signature"]

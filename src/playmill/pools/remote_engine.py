"""One supervised engine of a RemotePool: its process, its handshake, its clocks."""

from __future__ import annotations

from enum import Enum

from playmill.engines import protocol
from playmill.engines.connection import Connection
from playmill.engines.facts import Welcome, read_welcome
from playmill.engines.names import Launch
from playmill.engines.protocol import HANDSHAKE_LIMIT, TEXT_LIMIT, Decoder, Frame, Kind
from playmill.games import GameSpec, PlaymillError
from playmill.pools.remote_settings import CURABLE, Backoff, End, EngineHealth, Supervision

FAILURES_MOST = 8
"""Games an engine may give up one after another, with no decision in between."""


class State(Enum):
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    OUT = "out"


class Lie(PlaymillError):
    """An answer that cannot be true."""


class Engine:
    """The pool tells it the time; nothing here waits."""

    def __init__(self, number: int, launch: Launch, spec: GameSpec, settings: Supervision, seed: int) -> None:
        self.number, self.spec, self.settings = number, spec, settings
        self._launch = launch
        self._backoff = Backoff(settings, seed)
        self.state = State.WAITING
        self.connection: Connection | None = None
        self.decoder = Decoder(HANDSHAKE_LIMIT)
        self.out: list[bytes] = []
        """Frames to be sent."""
        self.games: dict[int, int] = {}
        """Slots by the engine's number of their game."""
        self.asked: dict[int, float] = {}
        """When games were asked, the longest ago first."""
        self.dropped: set[int] = set()
        """Games of this process whose last answer may still be on its way."""
        self.limit = 0
        self.bots: tuple[str, ...] = ()
        self.reason = ""
        self.start_at = 0.0
        self._since = 0.0
        self._heard = 0.0
        self._pinged = False
        self._pings = 0
        self._next_game = 0
        self._failures = 0
        self._starts = 0
        self.decisions = self.lies = self.lost = 0
        self.again: dict[End, int] = dict.fromkeys(CURABLE, 0)
        self.waited = self.busy = self._busy_since = 0.0
        self._ready_time = 0.0

    # ---- Life ----

    def start(self, now: float) -> None:
        """Starts the process and says HELLO; EngineGone where it cannot be started."""
        self._starts += 1
        self.connection = Connection(self._launch, self.number)
        self.decoder = Decoder(HANDSHAKE_LIMIT)
        self.state = State.STARTING
        self._since = now
        self.out = [protocol.hello(self.spec.name, dict(self.spec.options), self.spec.schema.hash)]

    def greet(self, frame: Frame, now: float, most: int) -> Welcome:
        """Takes in the WELCOME; BadEngine where it is another game."""
        if frame.kind != Kind.WELCOME:
            raise Lie(f"it answered HELLO with a frame of kind {frame.kind}")
        found = read_welcome(frame.payload, self.spec.name, self.spec.options, self.spec)
        seats, spec = 4 * self.spec.seats, self.spec
        turn = 11 + seats + spec.schema.bytes + spec.legal_bytes
        over = 5 + seats + 2 * seats * len(spec.stats)
        self.decoder.limit = max(turn, over, 5 + TEXT_LIMIT)
        self.limit = min(most, found.games)
        self.bots = found.bots
        self.state = State.READY
        self._since = self._heard = now
        self._pinged = False
        self._pings = 0
        return found

    def fail(self, reason: str, now: float, why: End) -> list[int]:
        """Kills the process; the slots whose games are lost. It is started again unless it is out."""
        slots = list(self.games.values())
        if self.connection is not None:
            self.connection.kill()
            words = self.connection.last_words
            self.reason = f"{reason}; its last words: {words}" if words else reason
            self.connection = None
        else:
            self.reason = reason
        self.settle(now)
        if self.state is State.READY:
            self._ready_time += now - self._since
        self.lies += why == "lied"
        self.lost += len(slots)
        self.games.clear()
        self.asked.clear()
        self.dropped.clear()
        self.out.clear()
        self._failures = 0
        gone = why == "unfit" or self.lies >= self.settings.lies_most
        self.state = State.OUT if gone else State.WAITING
        if not gone:
            self.again[why] += 1
        self.start_at = now + self._backoff.next()
        return slots

    def overdue(self, now: float) -> str:
        """Why it must be given up, or nothing. Asks an idle engine for a sign of life."""
        settings = self.settings
        if self.state is State.STARTING:
            if now - self._since > settings.start_timeout:
                return f"it did not answer HELLO within {settings.start_timeout:g} s"
        elif self.state is State.READY:
            if now - self._since > settings.healthy_after:
                self._backoff.reset()
            if self.asked:
                if now - next(iter(self.asked.values())) > settings.decision_timeout:
                    return f"a decision took longer than {settings.decision_timeout:g} s"
            elif self._pinged:
                if now - self._heard > settings.ping_every + settings.decision_timeout:
                    return f"it gave no sign of life for {settings.decision_timeout:g} s"
            elif now - self._heard > settings.ping_every:
                self._pinged = True
                self._pings += 1
                self.out.append(protocol.frame(Kind.PING))
        return ""

    # ---- Games ----

    def open(self, slot: int, seed: int, now: float) -> int:
        """Begins a game; its number here."""
        game = self._next_game
        self._next_game = (game + 1) & 0x7FFFFFFF
        self.games[game] = slot
        self.ask(game, protocol.new(game, seed), now)
        return game

    def ask(self, game: int, frame: bytes, now: float) -> None:
        if not self.asked:
            self._busy_since = now
        self.asked[game] = now
        self.out.append(frame)

    def answered(self, game: int, now: float) -> tuple[int, float]:
        """The slot of a game that was answered, and the seconds it took; -1: it was dropped meanwhile."""
        slot = self.games.get(game)
        if slot is None:
            if game in self.dropped:
                self.dropped.discard(game)
                return -1, 0.0
            raise Lie(f"it answered for game {game}, which it does not play")
        since = self.asked.pop(game, None)
        if since is None:
            raise Lie(f"it answered for game {game} without being asked")
        self.decisions += 1
        self.waited += now - since
        self._failures = 0
        if not self.asked:
            self.busy += now - self._busy_since
        return slot, now - since

    def heard(self, now: float) -> None:
        self._heard = now
        self._pinged = False

    def pong(self) -> None:
        if self._pings == 0:
            raise Lie("it answered a PING that was not sent")
        self._pings -= 1

    def gave_up(self, game: int, text: str, now: float) -> int:
        """A FAILED for one game; its slot, or -1."""
        failures = self._failures + 1
        slot, _ = self.answered(game, now)
        if slot < 0:
            return -1
        self.decisions -= 1
        self.lost += 1
        self.reason = f"it gave up a game: {text}"
        del self.games[game]
        self._failures = failures
        if self._failures >= FAILURES_MOST:
            raise Lie(f"it gave up {self._failures} games one after another; the last: {text}")
        return slot

    def drop(self, game: int) -> None:
        """A game that took too long; nobody asks for it any more."""
        del self.games[game]
        if self.asked.pop(game, None) is not None:
            self.dropped.add(game)
        self.lost += 1
        self.out.append(protocol.drop(game))

    # ---- Numbers ----

    def settle(self, now: float) -> None:
        """Counts the time it is at work up to now."""
        if self.asked:
            self.busy += now - self._busy_since
            self._busy_since = now

    @property
    def first_start(self) -> bool:
        """Whether it starts for the first time."""
        return self.state is State.STARTING and self._starts == 1

    def health(self, now: float) -> EngineHealth:
        self.settle(now)
        ready = self._ready_time + (now - self._since if self.state is State.READY else 0.0)
        running = self.state in (State.STARTING, State.READY) and self.connection is not None
        return EngineHealth(
            number=self.number,
            pid=self.connection.pid if running and self.connection is not None else 0,
            state=self.state.value,
            games=len(self.games),
            decisions=self.decisions,
            restarts=max(0, self._starts - 1),
            again=dict(self.again),
            quarantines=self.lies,
            lost=self.lost,
            waited=self.waited,
            seconds_a_decision=self.busy / self.decisions if self.decisions else 0.0,
            busy=self.busy,
            utilisation=min(1.0, self.busy / ready) if ready > 0 else 0.0,
            reason=self.reason,
        )

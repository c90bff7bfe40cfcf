"""A slow, readable Skull King table. Chance comes from outside, so that a referee can sit
beside any engine: it asks for the deal, for Bendt's cards and for Graybeard's play."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from . import rules as r
from .rules import Play, Rules

View = dict[str, list[list[int]]]  # rows of columns by field
NONE = 255


class Chance(Protocol):
    """Whatever decides what no player decides."""

    def first_leader(self) -> int: ...
    def hands(self, size: int) -> list[set[int]]: ...  # of the players, not of Graybeard
    def drawn(self, table: "Referee", seat: int, count: int) -> set[int]: ...  # Bendt's
    def undealt(self, table: "Referee", seat: int) -> set[int]: ...  # what Jade shows
    def graybeard(self, table: "Referee") -> int: ...  # the card he plays


@dataclass
class Player:
    """One player's round."""

    hand: set[int]
    bid: int | None = None
    cannonball: bool = False
    won: int = 0
    bonus: int = 0
    wager: int | None = None
    discarded: set[int] = field(default_factory=set)
    saw_undealt: set[int] = field(default_factory=set)


class Referee:
    def __init__(self, rules: Rules, chance: Chance) -> None:
        self.rules = rules
        self.chance = chance
        self.scores = [0] * rules.players
        self.round = 0  # index into rules.rounds
        self.over = False
        self.first_leader = chance.first_leader()
        self._deal()

    def _deal(self) -> None:
        self.cards = self.rules.rounds[self.round]
        hands = self.chance.hands(self.cards)
        self.players = [Player(set(hand)) for hand in hands]
        self.hidden = self.rules.cards_in_deck - set().union(*hands)  # undealt, and Graybeard's hand
        self.played: list[list[Play]] = [[] for _ in range(self.rules.places)]
        self.void: list[set[int]] = [set() for _ in range(self.rules.places)]
        self.alliances: list[tuple[int, int]] = []  # who played the loot, who took it
        self.harry: int | None = None  # the player who may still shift his bid
        self.tricks_done = 0
        self.trick: list[Play] = []
        self.leader = self.first_leader
        self.last_player_to_lead = self.first_leader
        self.decisions: deque[tuple[int, str]] = deque()
        self._seat_trick()

    def _seat_trick(self) -> None:
        """The order of play of the next trick. Graybeard plays second unless he leads."""
        if self.rules.players > 2:
            self.order = [(self.leader + i) % self.rules.players for i in range(self.rules.players)]
        elif self.leader == r.GRAYBEARD:
            self.order = [r.GRAYBEARD, self.last_player_to_lead, 1 - self.last_player_to_lead]
        else:
            self.order = [self.leader, r.GRAYBEARD, 1 - self.leader]
            self.last_player_to_lead = self.leader

    # Whose turn, and what may be done

    @property
    def bidding(self) -> bool:
        return any(player.bid is None for player in self.players)

    @property
    def turn(self) -> tuple[int, str]:
        """The seat to decide and the kind of decision."""
        if self.decisions:
            return self.decisions[0]
        if self.bidding:
            seats = [(self.first_leader + i) % self.rules.players for i in range(self.rules.players)]
            return next(seat for seat in seats if self.players[seat].bid is None), "bid"
        return self.order[len(self.trick)], "play"

    def legal(self) -> set[int]:
        seat, role = self.turn
        player = self.players[seat]
        if role == "bid":
            kinds = [r.BID, r.CANNONBALL] if self.rules.scoring == "cannonball" else [r.BID]
            return {kind + tricks for kind in kinds for tricks in range(self.cards + 1)}
        if role == "play":
            cards = r.playable(player.hand, self.trick)
            return cards | {r.TIGRESS_PIRATE} if r.TIGRESS in cards else cards
        if role == "rosie":
            return {r.LEAD_NEXT + k for k in range(self.rules.players)}
        if role == "discard":
            return set(player.hand)
        if role == "wager":
            return {r.WAGER + k for k in range(3)}
        assert player.bid is not None  # the role is harry
        return {r.HARRY_SHIFT + 1 + shift for shift in (-1, 0, 1) if 0 <= player.bid + shift <= self.cards}

    # Acting

    def act(self, action: int) -> list[float]:
        """Carries out a decision and all that follows without one; the reward of every seat."""
        if self.over or action not in self.legal():
            raise ValueError(f"action {action} is not legal")
        seat, role = self.turn
        player = self.players[seat]
        if role == "bid":
            player.cannonball = action >= r.CANNONBALL
            player.bid = action - (r.CANNONBALL if player.cannonball else r.BID)
        elif role == "play":
            card = r.TIGRESS if action == r.TIGRESS_PIRATE else action
            player.hand.remove(card)
            self._put(Play(seat, card, action == r.TIGRESS_PIRATE))
        else:
            self.decisions.popleft()
            self._use_power(seat, role, action)
        return self._run_on()

    def _use_power(self, seat: int, role: str, action: int) -> None:
        player = self.players[seat]
        if role == "rosie":
            self.leader = (seat + action - r.LEAD_NEXT) % self.rules.players
        elif role == "discard":
            player.hand.remove(action)
            player.discarded.add(action)
        elif role == "wager":
            player.wager = 10 * (action - r.WAGER)
        else:
            assert player.bid is not None
            player.bid += action - r.HARRY_SHIFT - 1
            self.harry = None

    def _run_on(self) -> list[float]:
        """Goes on until a player must decide or the game is over."""
        rewards = [0.0] * self.rules.players
        while not self.over and not self.decisions and not self.bidding:
            if len(self.trick) == self.rules.places:
                self._take_trick()
            elif self.tricks_done == self.cards:
                rewards = self._score_round()
            elif not self.trick and self.order[0] != self.leader:
                self._seat_trick()
            elif self.order[len(self.trick)] >= self.rules.players:
                card = self.chance.graybeard(self)
                self.hidden.remove(card)
                self._put(Play(r.GRAYBEARD, card))
            else:
                break
        return rewards

    def _put(self, play: Play) -> None:
        lead = r.lead_suit(self.trick)
        off_suit = lead is not None and r.is_number(play.card) and r.suit(play.card) != lead
        if off_suit and play.place < self.rules.players:
            assert lead is not None
            self.void[play.place].add(lead)
        self.trick.append(play)
        self.played[play.place].append(play)

    def _take_trick(self) -> None:
        outcome = r.resolve(self.trick, self.rules)
        self.tricks_done += 1
        self.leader = outcome.leader
        winner = outcome.winner
        if winner is not None and winner.place < self.rules.players:
            taker = self.players[winner.place]
            taker.won += 1
            taker.bonus += r.trick_bonus(self.trick, outcome, self.rules)
            looters = r.loot_players(self.trick, outcome, self.rules)
            self.alliances += [(looter, winner.place) for looter in looters]
            if self.rules.powers == "on":
                self._call_power(winner.place, winner.card)
        last = self.tricks_done == self.cards
        if self.harry is not None and (last or self.rules.harry == "at_once"):
            self.decisions.append((self.harry, "harry"))
        self.trick = []
        self._seat_trick()

    def _call_power(self, seat: int, pirate: int) -> None:
        player = self.players[seat]
        last = self.tricks_done == self.cards
        if pirate == r.ROATAN:
            self.decisions.append((seat, "wager"))
        elif pirate == r.HARRY:
            self.harry = seat
        elif pirate == r.ROSIE and not last:
            self.decisions.append((seat, "rosie"))
        elif pirate == r.JADE and not last:
            player.saw_undealt = self.chance.undealt(self, seat)
        elif pirate == r.BENDT and not last:
            count = min(2, len(self.hidden) - self.graybeards_cards)
            cards = self.chance.drawn(self, seat, count)
            self.hidden -= cards
            player.hand |= cards
            if cards:
                self.void[seat].clear()
            self.decisions.extend([(seat, "discard")] * count)

    @property
    def graybeards_cards(self) -> int:
        """How many of the hidden cards are in Graybeard's hand."""
        return self.cards - len(self.played[r.GRAYBEARD]) if self.rules.players == 2 else 0

    def _score_round(self) -> list[float]:
        exact = [player.bid == player.won for player in self.players]
        made = [pair for pair in self.alliances if all(exact[seat] for seat in pair)]
        rewards = []
        for seat, player in enumerate(self.players):
            assert player.bid is not None
            alliances = sum(seat in pair for pair in made)
            wager = player.wager or 0
            account = r.Account(
                player.bid, player.won, self.cards, player.bonus, player.cannonball, wager, alliances
            )
            points = r.round_score(account, self.rules)
            self.scores[seat] += points
            rewards.append(points / 100)
        self.round += 1
        self.over = self.round == len(self.rules.rounds)
        if self.over:
            return [reward + bonus for reward, bonus in zip(rewards, self._win_bonus(), strict=True)]
        self.first_leader = (self.first_leader + 1) % self.rules.players
        self._deal()
        return rewards

    @property
    def winners(self) -> list[int]:
        return [seat for seat, score in enumerate(self.scores) if score == max(self.scores)]

    def _win_bonus(self) -> list[float]:
        share = [(seat in self.winners) / len(self.winners) for seat in range(self.rules.players)]
        return [self.rules.win_bonus / 100 * (part - 1 / self.rules.players) for part in share]

    # What a seat may know

    def relative(self, place: int, seat: int) -> int:
        """A place as `seat` counts it: itself 0, then leftwards; Graybeard always last."""
        return place if place >= self.rules.players else (place - seat) % self.rules.players

    def view(self, seat: int) -> View:
        """Every field of the observation, from what this seat has seen."""
        rules, me, bidding = self.rules, self.players[seat], self.bidding
        seats = [(seat + k) % rules.players for k in range(rules.players)]
        places = seats + list(range(rules.players, rules.places))
        shown = [None if bidding and s != seat else self.players[s].bid for s in seats]
        won = [self.players[s].won for s in seats]
        missing = [0 if bid is None else bid - w for bid, w in zip(shown, won, strict=True)]
        allies = {s for pair in self.alliances if seat in pair for s in pair} - {seat}
        on_table = {play.place: play.sight for play in self.trick}
        wagers = [self.players[s].wager for s in seats]
        balls = [self.players[s].cannonball and shown[k] is not None for k, s in enumerate(seats)]
        return {
            "hand": bits([me.hand], r.CARDS),
            "played": bits([{play.card for play in self.played[p]} for p in places], r.CARDS),
            "undealt": bits([me.saw_undealt], r.CARDS),
            "discarded": bits([me.discarded], r.CARDS),
            "trick": column([on_table.get(p, NONE) for p in places]),
            "lead": column([self._lead_seen()]),
            "void": bits([self.void[p] for p in places], 4),
            "bid": column([NONE if bid is None else bid for bid in shown]),
            "won": column(won),
            "need": column([max(0, tricks) for tricks in missing]),
            "over": column([max(0, -tricks) for tricks in missing]),
            "bonus": column([self.players[s].bonus // 10 for s in seats]),
            "score": column([self.scores[s] for s in seats]),
            "round": column([self.round + rules.first_round - 1]),
            "cards": column([self.cards]),
            "tricks_left": column([self.cards - self.tricks_done]),
            "leader": column([self.relative(self.leader, seat)]),
            "position": column([len(self.trick)]),
            "called": row([bidding and self.players[s].bid is not None for s in seats]),
            "role": column([self._role_seen(seat)]),
            "allied": row([s in allies for s in seats]),
            "wager": column([NONE if wager is None else wager // 10 for wager in wagers]),
            "cannonball": row(balls),
            "harry": row([s == self.harry and rules.harry == "round_end" for s in seats]),
        }

    def _lead_seen(self) -> int:
        """0 while nothing has decided, 1 to 4 for a suit, 5 for a trick without one."""
        if r.first_that_counts(self.trick) is None:
            return 0
        lead = r.lead_suit(self.trick)
        return 5 if lead is None else lead + 1

    def _role_seen(self, seat: int) -> int:
        if self.over or self.turn[0] != seat:
            return NONE
        return ROLES.index(self.turn[1])


ROLES = ("bid", "play", "rosie", "discard", "wager", "harry")


def bits(rows: list[set[int]], columns: int) -> list[list[int]]:
    table = []
    for members in rows:
        line = [0] * columns
        for member in members:
            line[member] = 1
        table.append(line)
    return table


def column(values: list[int]) -> list[list[int]]:
    return [[value] for value in values]


def row(values: list[bool]) -> list[list[int]]:
    return [[int(value) for value in values]]


class RandomChance:
    """Chance from Python's generator: the referee as a game of its own."""

    def __init__(self, rules: Rules, seed: int) -> None:
        self.rules = rules
        self.random = random.Random(seed)
        self.stock: list[int] = []
        self.graybeards: list[int] = []

    def first_leader(self) -> int:
        return self.random.randrange(self.rules.players)

    def hands(self, size: int) -> list[set[int]]:
        self.stock = sorted(self.rules.cards_in_deck)
        self.random.shuffle(self.stock)
        dealt = [[self.stock.pop() for _ in range(size)] for _ in range(self.rules.places)]
        self.graybeards = dealt[r.GRAYBEARD] if self.rules.players == 2 else []
        return [set(hand) for hand in dealt[: self.rules.players]]

    def drawn(self, table: Referee, seat: int, count: int) -> set[int]:  # noqa: ARG002
        return {self.stock.pop() for _ in range(count)}

    def undealt(self, table: Referee, seat: int) -> set[int]:  # noqa: ARG002
        return set(self.stock)

    def graybeard(self, table: Referee) -> int:  # noqa: ARG002
        return self.graybeards.pop()

"""A plain, good torch PPO loop on Skull King, to compare the CUDA lane with.

What a careful engineer writes in an afternoon without a kernel of their own: our CPU pool plays with many
threads in two groups of games, so that one group's rules run while the GPU thinks for the other; rows
travel through pinned memory; tables of indices expand them on the GPU with a handful of torch operations;
expanded rows stay on the GPU as bfloat16, so that the update does not expand them again; two networks under
autocast, Gumbel draws, advantages on the GPU, fused Adam. No torch.compile, no CUDA graphs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from playmill.algorithms import PPO
from playmill.games import Encoding, Field, PlaymillError, Schema, registry
from playmill.policies import PolicyOutput, masked_log_softmax, unpack_bits
from playmill.pools import NativePool, Outcome, Turns
from playmill.training.collector import Stopwatch


class Update(TypedDict):
    """What one update took."""

    turns: int
    seconds: float
    phases: dict[str, float]
    """Seconds by phase; `engine` is what the host spent in the pool, `network` the rest of the rollout."""


class Rates(TypedDict):
    """What `measure_plain` found."""

    turns_per_s: float
    shares: dict[str, float]
    """Phase to its share of the time."""
    updates: int
    turns: int
    seconds: float
    games: int
    steps: int
    minibatch: int


class Rows(NamedTuple):
    """A minibatch. N rows."""

    features: Tensor  # [N, features] bfloat16
    legal: Tensor  # [N, actions] bool
    action: Tensor  # [N] int64
    log_probability: Tensor  # [N] of the action when it was chosen
    advantage: Tensor  # [N]
    target: Tensor  # [N] return


class Tables:
    """Expands packed rows with indices made once: a feature is a byte under a mask compared with what it
    should be, or a number out of one or two bytes."""

    def __init__(self, schema: Schema, device: torch.device) -> None:
        byte, mask, want = (torch.zeros(schema.features, dtype=torch.int64) for _ in range(3))
        numbers: list[tuple[int, int, int, float, float]] = []
        for field in schema.fields:
            _check(field)
            for row in range(field.rows):
                for column in range(field.columns):
                    at = field.offset + row * field.row_bytes
                    first = field.feature + (row * field.columns + column) * max(field.size, 1)
                    if field.encoding is Encoding.BITS:
                        byte[first], mask[first] = at + column // 8, 1 << column % 8
                        want[first] = mask[first]
                    elif field.encoding is Encoding.CATEGORY:
                        chosen = slice(first, first + field.size)
                        byte[chosen], mask[chosen] = at + column, 255
                        want[chosen] = torch.arange(field.size)
                    elif field.encoding is Encoding.U8:
                        numbers.append((first, at + column, at + column, field.scale, 0.0))
                    else:
                        low = at + 2 * column
                        numbers.append((first, low, low + 1, field.scale, 256.0 * field.scale))
        self.byte = byte.to(device)
        self.mask, self.want = mask.to(device, torch.uint8), want.to(device, torch.uint8)
        places, weights = [row[:3] for row in numbers], [row[3:] for row in numbers]
        self.number, self.low, self.high = (
            torch.tensor(places, dtype=torch.int64, device=device).reshape(-1, 3).T.contiguous()
        )
        self.low_weight, self.high_weight = torch.tensor(weights, device=device).reshape(-1, 2).T.contiguous()

    def expand(self, packed: Tensor, out: Tensor) -> None:
        """Writes the features [n, features] of packed rows [n, bytes] uint8 into `out`."""
        out.copy_((packed.index_select(1, self.byte) & self.mask) == self.want)
        low = packed.index_select(1, self.low) * self.low_weight
        # The high byte of a signed number carries the sign; one-byte numbers weigh theirs with zero.
        high = packed.view(torch.int8).index_select(1, self.high) * self.high_weight
        out.index_copy_(1, self.number, (low + high).to(out.dtype))


def _check(field: Field) -> None:
    if field.counted or field.encoding in (Encoding.U16, Encoding.LOG16):
        raise PlaymillError(f"the plain loop does not expand fields such as {field.name}; use Skull King")


class PlainPPO:
    """Self-play on all seats: T steps of N games, then `epochs` passes over them."""

    def __init__(
        self,
        device: torch.device | str = "cuda",
        games: int = 65_536,
        steps: int = 64,
        hidden: Sequence[int] = (512, 512, 256),
        threads: int = 16,
        minibatch: int = 32_768,
        epochs: int = 1,
        groups: int = 2,
        seed: int = 0,
    ) -> None:
        """`groups`: games are played in so many turns about; 1 lets the GPU wait for the rules."""
        if games % groups:
            raise PlaymillError(f"games must be a multiple of groups ({groups}), got {games}")
        self.device, self.games, self.steps = torch.device(device), games, steps
        self.cfg = PPO(epochs=epochs, minibatch=minibatch, lr=3e-4)
        self.spec = registry.spec("skull_king")
        part = games // groups
        self.parts = [slice(i * part, (i + 1) * part) for i in range(groups)]
        self.pools = [NativePool(self.spec, part, seed=seed + i, threads=threads) for i in range(groups)]
        self.tables = Tables(self.spec.schema, self.device)
        self._networks(hidden, seed)
        self._host_columns()
        self._device_columns()
        self.watch = Stopwatch()

    def _networks(self, hidden: Sequence[int], seed: int) -> None:
        torch.manual_seed(seed)
        inputs = self.spec.schema.features
        # A small head, so that play begins uniform over the legal actions.
        self.policy = mlp([inputs, *hidden], self.spec.actions, 0.01).to(self.device)
        self.value = mlp([inputs, *hidden], 1, 0.1).to(self.device)
        self.weights = [*self.policy.parameters(), *self.value.parameters()]
        self.optimiser = torch.optim.Adam(self.weights, lr=self.cfg.lr, eps=1e-5, fused=True)

    def _host_columns(self) -> None:
        """Where the pool reads and writes: pinned once, used again and again."""
        spec, steps, games, cuda = self.spec, self.steps, self.games, self.device.type == "cuda"

        def column(*shape: int, dtype: torch.dtype = torch.uint8) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, pin_memory=cuda)

        self.host_packed = column(games, spec.schema.bytes)
        self.host_legal = column(games, spec.legal_bytes)
        self.host_action = column(games, dtype=torch.int32)
        self.host_unused = column(2, games)
        self.host_seat = column(steps, games)
        self.host_rewards = column(steps, games, spec.seats, dtype=torch.float32)
        self.host_over = column(steps, games)
        self.copies = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        self.answered = [_event() if cuda else None for _ in self.parts]

    def _device_columns(self) -> None:
        spec, steps, games = self.spec, self.steps, self.games

        def column(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=self.device)

        self.packed = column(games, spec.schema.bytes, dtype=torch.uint8)
        self.bits = column(games, spec.legal_bytes, dtype=torch.uint8)
        self.features = column(steps, games, spec.schema.features, dtype=torch.bfloat16)
        self.legal = column(steps, games, spec.actions, dtype=torch.bool)
        self.action = column(steps, games, dtype=torch.int64)
        self.log_probability, self.expected = column(steps, games), column(steps, games)

    def update(self) -> Update:
        """Plays a rollout and learns from it. The device is idle before and after."""
        watch = self.watch
        watch.seconds.clear()
        self._synchronise()
        watch.lap(None)
        begun = time.perf_counter()
        self._collect()
        self._synchronise()
        watch.lap("network")
        advantage, usable = self._returns()
        self._synchronise()
        watch.lap("returns")
        self._learn(advantage, usable)
        self._synchronise()
        watch.lap("update")
        seconds = time.perf_counter() - begun
        return {"turns": self.steps * self.games, "seconds": seconds, "phases": dict(watch.seconds)}

    def _collect(self) -> None:
        # One autocast for all steps: the bfloat16 copies of the weights are made once.
        with torch.no_grad(), self._autocast():
            for step in range(self.steps + 1):
                for group in range(len(self.parts)):
                    if step > 0:
                        self._act(group, step - 1)
                    if step < self.steps:
                        self._ask(group, step)

    def _act(self, group: int, step: int) -> None:
        """Waits for a group's actions and lets the pool play them."""
        part, answered = self.parts[group], self.answered[group]
        if answered is not None:
            answered.synchronize()
        self.watch.lap("network")
        outcome = Outcome(self.host_rewards[step, part].numpy(), self.host_over[step, part].numpy())
        self.pools[group].act(self.host_action[part].numpy(), outcome)
        self.watch.lap("engine")

    def _ask(self, group: int, step: int) -> None:
        """Takes a group's rows to the device and leaves their actions on the way back."""
        part = self.parts[group]
        asked = (self.host_packed[part], self.host_legal[part], self.host_seat[step, part])
        self.watch.lap("network")
        self.pools[group].turns(Turns(*(c.numpy() for c in (*asked, *self.host_unused[:, part]))))
        self.watch.lap("engine")
        # A stream of their own lets these rows travel while the device thinks for the other group.
        with torch.cuda.stream(self.copies):
            self.packed[part].copy_(asked[0], non_blocking=True)
            self.bits[part].copy_(asked[1], non_blocking=True)
        if self.copies is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.copies)
        features, legal = self.features[step, part], self.legal[step, part]
        self.tables.expand(self.packed[part], features)
        legal.copy_(unpack_bits(self.bits[part], self.spec.actions))
        out = self.forward(features)
        action, log_probability = draw(out.logits, legal)
        self.host_action[part].copy_(action.int(), non_blocking=True)
        answered = self.answered[group]
        if answered is not None:
            answered.record()
        self.action[step, part] = action
        self.log_probability[step, part] = log_probability
        self.expected[step, part] = out.value

    def forward(self, features: Tensor) -> PolicyOutput:
        """Both networks; call it under autocast."""
        return PolicyOutput(self.policy(features).float(), self.value(features).float().squeeze(-1))

    def _returns(self) -> tuple[Tensor, Tensor]:
        rewards, over, seat = (
            column.to(self.device, non_blocking=True)
            for column in (self.host_rewards, self.host_over, self.host_seat)
        )
        return seat_advantages(rewards, over.bool(), seat.long(), self.expected, self.cfg.gamma, self.cfg.lam)

    def _learn(self, advantage: Tensor, usable: Tensor) -> None:
        columns = Rows(
            self.features.flatten(0, 1),
            self.legal.flatten(0, 1),
            self.action.flatten(),
            self.log_probability.flatten(),
            advantage.flatten(),
            (advantage + self.expected).flatten(),
        )
        rows = usable.flatten().nonzero().squeeze(1)
        for _ in range(self.cfg.epochs):
            order = rows[torch.randperm(len(rows), device=self.device)]
            for index in order.tensor_split(max(1, round(len(rows) / self.cfg.minibatch))):
                self._step(Rows(*(column[index] for column in columns)))

    def _step(self, rows: Rows) -> None:
        gained = rows.advantage
        gained = (gained - gained.mean()) / (gained.std(correction=0) + 1e-8)
        with self._autocast():
            out = self.forward(rows.features)
        loss = clipped_loss(rows._replace(advantage=gained), out, self.cfg)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.weights, self.cfg.max_grad_norm)
        self.optimiser.step()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def mlp(widths: Sequence[int], outputs: int, head: float) -> nn.Sequential:
    """Linear layers with ReLU between them; `head` is the size of the last one's first weights."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    last = nn.Linear(widths[-1], outputs)
    nn.init.orthogonal_(last.weight, gain=head)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def draw(logits: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [n] from the masked softmax, and the logarithms of their probabilities."""
    logs = masked_log_softmax(logits, legal)
    # Gumbel noise is minus the logarithm of exponential noise; what is illegal stays at minus infinity.
    action = (logs - torch.empty_like(logs).exponential_().log_()).argmax(-1)
    return action, logs.gather(1, action[:, None]).squeeze(1)


def seat_advantages(
    rewards: Tensor, over: Tensor, seat: Tensor, value: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Advantages [T, N] along each seat's own turns, and whether they are known; back over time, all games
    and seats at once. Rewards are [T, N, S], the others [T, N]."""
    steps, games, seats = rewards.shape
    # What a seat's earlier turn will be credited with, and whether its next turn or end was seen.
    closing = rewards.new_zeros(games, seats)
    known = torch.zeros(games, seats, dtype=torch.bool, device=rewards.device)
    advantage, usable = torch.empty_like(value), torch.empty_like(over)
    for t in reversed(range(steps)):
        ended, whose = over[t, :, None], seat[t, :, None]
        closing = closing.masked_fill(ended, 0.0) + rewards[t]
        known |= ended
        mine = known.gather(1, whose).squeeze(1)
        gained = (closing.gather(1, whose).squeeze(1) - value[t]).masked_fill(~mine, 0.0)
        closing.scatter_(1, whose, (gamma * value[t] + gamma * lam * gained)[:, None])
        known.scatter_(1, whose, True)
        advantage[t], usable[t] = gained, mine
    return advantage, usable


def clipped_loss(rows: Rows, out: PolicyOutput, cfg: PPO) -> Tensor:
    """PPO's clipped surrogate + value error - entropy, in float32."""
    logs = masked_log_softmax(out.logits, rows.legal)
    entropy = -(logs.exp() * logs.masked_fill(~rows.legal, 0.0)).sum(-1).mean()
    ratio = (logs.gather(1, rows.action[:, None]).squeeze(1) - rows.log_probability).exp()
    clipped = ratio.clamp(1.0 - cfg.clip, 1.0 + cfg.clip)
    policy = -torch.minimum(ratio * rows.advantage, clipped * rows.advantage).mean()
    value = 0.5 * (out.value - rows.target).square().mean()
    return policy + cfg.value_weight * value - cfg.entropy * entropy


def measure_plain(
    device: torch.device | str = "cuda",
    *,
    seconds: float | None = None,
    updates: int = 5,
    loop: PlainPPO | None = None,
) -> Rates:
    """Turns a second of the plain loop (`loop`, or one of the default sizes), after two updates that warm
    it up; over `updates` of them, or for about `seconds`."""
    plain = PlainPPO(device) if loop is None else loop
    for _ in range(2):
        plain.update()
    done: list[Update] = []
    spent = 0.0
    while not done or (len(done) < updates if seconds is None else spent < seconds):
        done.append(plain.update())
        spent += done[-1]["seconds"]
    turns = sum(one["turns"] for one in done)
    phases = {name: sum(one["phases"][name] for one in done) for name in done[0]["phases"]}
    return {
        "turns_per_s": turns / spent,
        "shares": {name: took / spent for name, took in phases.items()},
        "updates": len(done),
        "turns": turns,
        "seconds": spent,
        "games": plain.games,
        "steps": plain.steps,
        "minibatch": plain.cfg.minibatch,
    }

"""Turns rollouts on the card into new weights: minibatches picked, learnt from and stepped in one captured
graph. The host says how often; it never waits for a minibatch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from playmill.algorithms import PPO
from playmill.experience import Rollout
from playmill.games import GameSpec
from playmill.pools.lanes import need_cuda
from playmill.training.cuda.collector import Learnable
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import Layers, Player, captured, stream_now
from playmill.training.learner import kept_of_average, scheduled
from playmill.training.ranks import ALONE, Ranks
from playmill.training.teacher import lesson


class CudaLearner:
    """The optimiser's state of a player, its average, and the average or magnet that holds it back."""

    def __init__(
        self,
        spec: GameSpec,
        player: Player,
        layers: Layers,
        cfg: PPO,
        seed: int,
        control: Control,
        minibatch: int,
        ranks: Ranks = ALONE,
    ) -> None:
        """`layers` have room for a part of a minibatch (minibatch / cfg.accumulate rows). Every rank has a
        minibatch like this, and what is learnt is learnt from all of them."""
        self.spec, self.player, self.layers, self.cfg, self.seed = spec, player, layers, cfg, seed
        self.control, self.ranks = control, ranks
        self.native = need_cuda()
        self.part = max(1, minibatch // cfg.accumulate)
        self.minibatch = self.part * cfg.accumulate
        self.magnet = player.twin() if cfg.regulariser != "none" else None
        self.average = player.twin() if cfg.weight_average else None
        self.gradients = torch.zeros_like(player.flat)
        self.mean, self.square = torch.zeros_like(player.flat), torch.zeros_like(player.flat)
        self.heads = torch.zeros(self.part, layers.stride, device="cuda")
        self.magnet_heads = torch.zeros_like(self.heads) if self.magnet is not None else None
        self.index = torch.zeros(self.minibatch, dtype=torch.int32, device="cuda")
        self.blocks = int(self.native.loss_blocks(self.part))
        self.sums = _doubles(2 * self.native.pick_blocks(self.minibatch))
        self.terms = _doubles(cfg.accumulate * self.blocks * 6)
        self.norms = _doubles(self.native.adam_blocks())
        self._graphs: list[torch.cuda.CUDAGraph] = []  # of a step, with what ranks add up between them
        self._taught = False  # what the graphs learn from

    @property
    def judged(self) -> Player:
        """What the learning has come to: the average where there is one."""
        return self.player if self.average is None else self.average

    def update(
        self,
        rollout: Rollout,
        learnable: Learnable,
        usable: int,
        number: int,
        progress: float,
        taught: bool = False,
    ) -> tuple[float, float]:
        """Puts one update on the stream: `epochs` passes over about `usable` rows of all ranks. Learning rate
        and entropy weight it was told. `taught`: the rollout's actions are a teacher's, all of them good."""
        if not self._graphs or taught != self._taught:
            self._capture(rollout, learnable, taught)
        cfg = lesson(self.cfg) if taught else self.cfg
        lr, entropy_weight = scheduled(cfg, progress)
        stream, control = stream_now(), self.control.address
        self.native.begin_update(control, lr, entropy_weight, stream)
        for epoch in range(cfg.epochs):
            self.native.begin_pass(control, self._key(number, epoch), cfg.target_kl, stream)
            for _ in range(max(1, usable // (self.minibatch * self.ranks.count))):
                self._replay()
        self._follow(number)
        return lr, entropy_weight

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, as named tensors on the host; the names are those of the CPU's learner."""
        out = {f"policy/{n}": v for n, v in self.player.views(_to_host(self.judged.flat)).items()}
        if self.average is not None:
            out |= {f"learning/{n}": v for n, v in self.player.views(_to_host(self.player.flat)).items()}
        means, squares = self.player.views(_to_host(self.mean)), self.player.views(_to_host(self.square))
        step = float(self.control.parse(self.control.tensor.cpu())["adam_step"])
        for name in means:
            out[f"adam/{name}/step"] = torch.tensor(step)
            out[f"adam/{name}/exp_avg"] = means[name]
            out[f"adam/{name}/exp_avg_sq"] = squares[name]
        if self.magnet is not None:
            out |= {f"magnet/{n}": v for n, v in self.magnet.views(_to_host(self.magnet.flat)).items()}
        return {name: tensor.contiguous().clone() for name, tensor in out.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Back to what `state` returned."""
        for name, view in self.judged.views(self.judged.flat).items():
            view.copy_(state[f"policy/{name}"])
        if self.average is not None:
            self.average.refresh()
            for name, view in self.player.views(self.player.flat).items():
                view.copy_(state[f"learning/{name}"])
        for flat, key in ((self.mean, "exp_avg"), (self.square, "exp_avg_sq")):
            for name, view in self.player.views(flat).items():
                view.copy_(state[f"adam/{name}/{key}"])
        self.player.refresh()
        if self.magnet is not None:
            for name, view in self.magnet.views(self.magnet.flat).items():
                view.copy_(state[f"magnet/{name}"])
            self.magnet.refresh()

    def _key(self, number: int, epoch: int) -> int:
        """Names the order of rows: a function of seed, update and epoch."""
        return int(np.random.SeedSequence((self.seed, number, epoch)).generate_state(1, np.uint64)[0])

    def _capture(self, rollout: Rollout, learnable: Learnable, taught: bool) -> None:
        torch.cuda.synchronize()
        self._graphs, self._taught = [], taught
        # The trial run that loads kernels and chooses algorithms must leave no trace.
        kept = [self.player.flat, self.player.small, self.mean, self.square, self.control.tensor]
        before = [tensor.clone() for tensor in kept]
        parts: list[Callable[[], None]] = [
            lambda: self._pick(learnable),
            lambda: self._slopes(rollout, learnable, taught),
            self._move,
        ]
        for part in parts:
            part()
        torch.cuda.synchronize()
        # One process needs no word from others, and has one graph.
        for together in [parts] if self.ranks.count == 1 else [[part] for part in parts]:
            graph = torch.cuda.CUDAGraph()
            with captured(graph):
                for part in together:
                    part()
            self._graphs.append(graph)
        for tensor, was in zip(kept, before, strict=True):
            tensor.copy_(was)
        torch.cuda.synchronize()

    def _replay(self) -> None:
        """One gradient step on the control's minibatch of every rank."""
        if self.ranks.count == 1:
            self._graphs[0].replay()
            return
        pick, slopes, move = self._graphs
        pick.replay()
        self.ranks.sum(self.control.counter("live"))
        self.ranks.sum(self.sums)
        slopes.replay()
        # After this every rank has the same numbers, and comes to the same ends.
        self.ranks.sum(self.gradients)
        self.ranks.sum(self.terms)
        move.replay()

    def _pick(self, learnable: Learnable) -> None:
        """The rows of the minibatch, and the sums of their advantages."""
        self.native.pick_rows(
            self.control.address,
            learnable.rows.data_ptr(),
            learnable.advantage.data_ptr(),
            self.minibatch,
            self.index.data_ptr(),
            self.sums.data_ptr(),
            stream_now(),
        )

    def _slopes(self, rollout: Rollout, learnable: Learnable, taught: bool) -> None:
        """The gradient on the minibatch."""
        for part in range(self.cfg.accumulate):
            self._part(rollout, learnable, part, taught)

    def _move(self) -> None:
        """The step along it."""
        self.native.adam_step(
            self.control.address,
            len(self.player.flat),
            self.player.flat.data_ptr(),
            0 if self.player.small is self.player.flat else self.player.small.data_ptr(),
            self.layers.gradient_precision,
            self.gradients.data_ptr(),
            self.mean.data_ptr(),
            self.square.data_ptr(),
            self.layers.head_cells,
            self.cfg.max_grad_norm,
            self.control.precision == "float16",
            self.terms.data_ptr(),
            self.cfg.accumulate * self.blocks,
            self.norms.data_ptr(),
            stream_now(),
        )

    def _part(self, rollout: Rollout, learnable: Learnable, part: int, taught: bool) -> None:
        """Forward, loss and backward of one part of the minibatch."""
        cfg = lesson(self.cfg) if taught else self.cfg
        advantages = "taught" if taught else "normalised" if cfg.normalise else "raw"
        index = self.index[part * self.part : (part + 1) * self.part]
        packed = rollout.flat(rollout.observation)
        view = self._views(rollout, index)
        if self.magnet is not None and self.magnet_heads is not None:
            self.layers.forward(self.magnet, packed, index, self.part, self.magnet_heads, view)
        self.layers.forward(self.player, packed, index, self.part, self.heads, view)
        self.native.loss(
            self.control.address,
            self.part,
            self.minibatch,
            self.spec.actions,
            self.layers.stride,
            self.spec.legal_bytes,
            index.data_ptr(),
            self.heads.data_ptr(),
            0 if self.magnet_heads is None else self.magnet_heads.data_ptr(),
            self.sums.data_ptr(),
            rollout.legal.data_ptr(),
            rollout.action.data_ptr(),
            rollout.log_probability.data_ptr(),
            learnable.advantage.data_ptr(),
            rollout.value.data_ptr(),
            cfg.clip,
            cfg.value_weight,
            cfg.kl_weight,
            advantages,
            self.layers.gradient_precision,
            self.layers.gradient,
            self.terms[part * self.blocks * 6 :].data_ptr(),
            stream_now(),
        )
        self.layers.backward(self.player, self.part, part > 0, self.gradients)

    def _views(self, rollout: Rollout, index: Tensor) -> Tensor | None:
        if not self.cfg.symmetries:
            return None
        rows = index.clamp(min=0).long()
        return self.player.policy.views.of(rows % rollout.games, rollout.flat(rollout.seat)[rows])

    def _follow(self, number: int) -> None:
        """Moves the averages, or refreshes the magnet."""
        if self.average is not None:
            self.average.flat.lerp_(self.player.flat, 1.0 - kept_of_average(self.cfg, number))
            self.average.refresh()
        if self.magnet is None:
            return
        if self.cfg.regulariser == "average":
            self.magnet.flat.lerp_(self.player.flat, 1.0 - self.cfg.average_decay)
            self.magnet.refresh()
        elif (number + 1) % self.cfg.magnet_every == 0:
            self.magnet.copy_from(self.player)


def _doubles(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64, device="cuda")


def _to_host(flat: Tensor) -> Tensor:
    """A copy on the host, through pinned memory."""
    host = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
    host.copy_(flat, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return host

"""The loss with its gradient and the optimiser on the card, beside ppo_loss and torch's Adam."""

import numpy as np
import pytest
import torch

from playmill.algorithms import PPO, Batch, ppo_loss
from playmill.policies import PolicyOutput, masked_log_softmax
from playmill.pools.lanes import need_cuda
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import TYPES, stream_now
from playmill.training.learner import LOSS_TERMS

pytestmark = pytest.mark.cuda

ROWS = 700
ENTROPY = 0.07


def read(control):
    return control.parse(control.tensor.cpu())


class Case:
    """A rollout of random rows on the card, and a minibatch of some of them; the last places are empty."""

    def __init__(self, actions, whole=400, live=370, seed=0):
        rng = np.random.default_rng((seed, actions))
        self.native, self.control = need_cuda(), Control("float32")
        self.actions, self.whole, self.live = actions, whole, live
        self.stride, self.legal_bytes = (actions + 8) // 8 * 8, (actions + 63) // 64 * 8
        legal = rng.random((ROWS, actions)) < rng.random((ROWS, 1))
        legal[np.arange(ROWS), rng.integers(0, actions, ROWS)] = True
        self.action = np.array([rng.choice(np.flatnonzero(row)) for row in legal], np.int32)
        bits = np.zeros((ROWS, self.legal_bytes), np.uint8)
        packed = np.packbits(legal, axis=1, bitorder="little")
        bits[:, : packed.shape[1]] = packed
        self.legal = torch.from_numpy(bits).cuda()
        self.advantage, self.value = (
            torch.from_numpy(rng.normal(m, s, ROWS).astype(np.float32)).cuda()
            for m, s in ((0.5, 2.0), (0, 1))
        )
        # Which rows, and the sums of their advantages.
        usable = np.sort(rng.choice(ROWS, live, replace=False)).astype(np.int32)
        listed = torch.from_numpy(usable).cuda()
        self.index = torch.zeros(whole, dtype=torch.int32, device="cuda")
        self.sums = torch.zeros(self.native.pick_blocks(whole), 2, dtype=torch.float64, device="cuda")
        self.control.write(usable=live)
        self.native.begin_update(self.control.address, 1e-3, ENTROPY, stream_now())
        self.native.begin_pass(self.control.address, 3, 0.0, stream_now())
        self.native.pick_rows(
            self.control.address,
            listed.data_ptr(),
            self.advantage.data_ptr(),
            whole,
            self.index.data_ptr(),
            self.sums.data_ptr(),
            stream_now(),
        )
        torch.cuda.synchronize()
        self.rows = self.index.cpu().long()
        self.heads, self.magnet = (
            torch.from_numpy(rng.normal(0, 2, (whole, self.stride)).astype(np.float32)).cuda()
            for _ in range(2)
        )
        # Ratios on both sides of the clip.
        logs = torch.zeros(ROWS)
        used = self.rows >= 0
        rows = self.rows[used]
        mask = torch.from_numpy(legal)[rows]
        now = masked_log_softmax(self.heads.cpu()[used, :actions], mask)
        logs[rows] = now.gather(1, torch.from_numpy(self.action)[rows].long()[:, None]).squeeze(1)
        logs += torch.from_numpy(rng.normal(0, 0.3, ROWS).astype(np.float32))
        self.log_probability = logs.cuda()
        self.acted = torch.from_numpy(self.action).cuda()

    def on_card(self, cfg, precision="float32", magnet=True, parts=1, taught=False):
        """Gradient [whole, stride] and terms, part after part."""
        gradient = torch.full((self.whole, self.stride), 5.0, dtype=TYPES[precision], device="cuda")
        size = self.whole // parts
        blocks = self.native.loss_blocks(size)
        advantages = "taught" if taught else "normalised" if cfg.normalise else "raw"
        terms = torch.full((parts, blocks, 6), 5.0, dtype=torch.float64, device="cuda")
        for part in range(parts):
            mine = slice(part * size, (part + 1) * size)
            self.native.loss(
                self.control.address,
                size,
                self.whole,
                self.actions,
                self.stride,
                self.legal_bytes,
                self.index[mine].data_ptr(),
                self.heads[mine].data_ptr(),
                self.magnet[mine].data_ptr() if magnet else 0,
                self.sums.data_ptr(),
                self.legal.data_ptr(),
                self.acted.data_ptr(),
                self.log_probability.data_ptr(),
                self.advantage.data_ptr(),
                self.value.data_ptr(),
                cfg.clip,
                cfg.value_weight,
                cfg.kl_weight,
                advantages,
                precision,
                gradient[mine].data_ptr(),
                terms[part].data_ptr(),
                stream_now(),
            )
        torch.cuda.synchronize()
        return gradient.cpu(), terms.cpu().sum((0, 1))

    def plain(self, cfg, magnet=True, taught=False):
        """The same by ppo_loss and autograd."""
        used = self.rows >= 0
        rows = self.rows[used]
        heads = self.heads.cpu()[used]
        logits = heads[:, : self.actions].clone().requires_grad_()
        value = heads[:, self.actions].clone().requires_grad_()
        raw = self.advantage.cpu()[rows]
        advantage = (raw - raw.mean()) / (raw.std(correction=0) + 1e-8) if cfg.normalise else raw
        if taught:
            advantage = torch.ones_like(raw)
        batch = Batch(
            observation=torch.zeros(len(rows), 1, dtype=torch.uint8),
            legal=self.legal.cpu()[rows],
            action=self.acted.cpu()[rows].long(),
            log_probability=self.log_probability.cpu()[rows],
            advantage=advantage,
            target=raw + self.value.cpu()[rows],
        )
        other = self.magnet.cpu()[used, : self.actions] if magnet else None
        loss = ppo_loss(batch, PolicyOutput(logits, value), cfg, ENTROPY, other)
        loss.total.backward()
        gradient = torch.zeros(self.whole, self.stride)
        gradient[used.nonzero().squeeze(1), : self.actions] = logits.grad
        gradient[used, self.actions] = value.grad
        return gradient, torch.stack([getattr(loss, name) for name in LOSS_TERMS]).double()


def close(found, wanted):
    torch.testing.assert_close(found[0].float(), wanted[0], rtol=1e-3, atol=2e-7)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("actions", [1, 2, 7, 31, 32, 33, 88, 127, 128, 129, 1024, 1025, 3201])
@pytest.mark.parametrize("magnet", [False, True])
def test_the_loss_and_its_gradient_are_those_of_autograd(actions, magnet):
    cfg = PPO(clip=0.2, value_weight=0.7, kl_weight=0.3)
    case = Case(actions)
    wanted = case.plain(cfg, magnet)
    close(case.on_card(cfg, magnet=magnet), wanted)
    assert wanted[1][5] > 0.1 or actions == 1  # some ratios are clipped


@pytest.mark.parametrize(
    "settings",
    [{"normalise": False}, {"clip": 0.01}, {"clip": 5.0}, {"value_weight": 0.0}, {"kl_weight": 3.0}],
    ids=str,
)
def test_every_setting_of_the_loss_is_heeded(settings):
    cfg = PPO(**settings)
    case = Case(45, seed=1)
    close(case.on_card(cfg), case.plain(cfg))


@pytest.mark.parametrize("actions", [2, 33, 111, 1024, 3201])
@pytest.mark.parametrize("magnet", [False, True])
@pytest.mark.parametrize("clip", [0.2, 1.0])
def test_a_lesson_has_advantage_one_and_the_values_of_the_real_returns(actions, magnet, clip):
    cfg = PPO(clip=clip, value_weight=0.7, kl_weight=0.3)
    case = Case(actions, seed=2)
    found = case.on_card(cfg, magnet=magnet, taught=True)
    close(found, case.plain(cfg, magnet, taught=True))
    assert not torch.allclose(found[0], case.plain(cfg, magnet)[0], rtol=1e-2, atol=1e-6)


def test_there_are_three_kinds_of_advantages():
    with pytest.raises(ValueError, match="no kind of advantages is called thought"):
        need_cuda().loss(*[0] * 15, 0.2, 0.5, 0.0, "thought", "float32", 0, 0, 0)


@pytest.mark.parametrize(("whole", "live"), [(400, 400), (400, 1), (600, 257), (9, 8)])
def test_rows_left_out_have_no_gradient_and_no_share(whole, live):
    cfg = PPO(normalise=live > 1)
    case = Case(20, whole, live)
    gradient, terms = case.on_card(cfg)
    close((gradient, terms), case.plain(cfg))
    assert not gradient[case.rows < 0].any()
    assert int((case.rows >= 0).sum()) == live


def test_parts_of_a_minibatch_add_up_to_the_whole():
    cfg = PPO()
    case = Case(45)
    whole, terms = case.on_card(cfg)
    parts, sums = case.on_card(cfg, parts=4)
    assert torch.equal(parts, whole)
    torch.testing.assert_close(sums, terms)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_gradients_are_scaled_and_then_rounded(precision):
    cfg = PPO()
    case = Case(45)
    exact, _ = case.on_card(cfg)
    case.control.write(scale=1024.0)
    scaled, terms = case.on_card(cfg, precision)
    torch.testing.assert_close(scaled, (1024.0 * exact).to(TYPES[precision]), rtol=0, atol=0)
    close((exact, terms), case.plain(cfg))  # the terms are not scaled


# The optimiser


class Stepper:
    """Flat weights under the kernel's Adam, and the same under torch's."""

    def __init__(self, size=1024, precision="float32", max_norm=0.5, head=(), lr=3e-3):
        self.native, self.control = need_cuda(), Control(precision)
        self.precision, self.max_norm, self.head = precision, max_norm, list(head)
        generator = torch.Generator().manual_seed(4)
        start = torch.randn(size, generator=generator)
        self.weights = start.cuda()
        self.small = self.weights.to(TYPES[precision]) if precision != "float32" else None
        self.mean, self.square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.norms = torch.zeros(self.native.adam_blocks(), dtype=torch.float64, device="cuda")
        self.theirs = torch.nn.Parameter(start.cuda())
        self.adam = torch.optim.Adam([self.theirs], lr=lr, eps=1e-5)
        self.native.begin_update(self.control.address, lr, 0.0, stream_now())
        self.native.begin_pass(self.control.address, 1, 0.0, stream_now())
        self.control.write(live=1)

    def state(self):
        kept = [self.weights, self.mean, self.square, *([self.small] if self.small is not None else [])]
        return [tensor.clone() for tensor in kept]

    def step(self, gradient, terms=None):
        """With gradients as the layers leave them: times the control's scale."""
        scale = float(read(self.control)["scale"])
        given = (gradient * scale).contiguous()
        count = 0 if terms is None else len(terms)
        self.native.adam_step(
            self.control.address,
            len(self.weights),
            self.weights.data_ptr(),
            0 if self.small is None else self.small.data_ptr(),
            self.precision,
            given.data_ptr(),
            self.mean.data_ptr(),
            self.square.data_ptr(),
            self.head,
            self.max_norm,
            self.precision == "float16",
            0 if terms is None else terms.data_ptr(),
            count,
            self.norms.data_ptr(),
            stream_now(),
        )
        torch.cuda.synchronize()

    def step_theirs(self, gradient):
        self.theirs.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_([self.theirs], self.max_norm)
        self.adam.step()
        return float(norm)

    def agree(self):
        torch.testing.assert_close(self.weights, self.theirs.detach(), rtol=1e-5, atol=2e-6)
        if self.small is not None:
            assert torch.equal(self.small, self.weights.to(self.small.dtype))


def gradients(size, steps, seed=6):
    """Some long enough to be shortened, some not, most of very unequal parts."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        size_of = torch.rand(size, generator=generator) ** 4
        yield (torch.randn(size, generator=generator) * size_of * 10.0 ** (-(step % 4))).cuda()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("size", [64, 1024, 1_000_000])
def test_the_steps_are_those_of_torchs_adam_with_clipping(precision, size):
    stepper = Stepper(size, precision)
    norms = []
    for gradient in gradients(size, 12):
        norms.append(stepper.step_theirs(gradient))
        stepper.step(gradient)
        stepper.agree()
        assert read(stepper.control)["gradient_norm"] == pytest.approx(norms[-1], rel=1e-4)
    assert max(norms) > 0.5
    assert size > 1024 or min(norms) < 0.5
    numbers = read(stepper.control)
    assert (numbers["adam_step"], numbers["steps"], numbers["skipped"]) == (12, 12, 0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(bad, precision):
    stepper = Stepper(2048, precision)
    steps = list(gradients(2048, 6))
    for number, gradient in enumerate(steps):
        if number == 3:
            before = stepper.state()
            broken = gradient.clone()
            broken[1777] = bad
            stepper.step(broken)
            for was, now in zip(before, stepper.state(), strict=True):
                assert torch.equal(was, now)
            numbers = read(stepper.control)
            assert (numbers["adam_step"], numbers["skipped"]) == (3, 1)
        stepper.step(gradient)
        stepper.step_theirs(gradient)
    stepper.agree()
    numbers = read(stepper.control)
    assert (numbers["adam_step"], numbers["skipped"], numbers["steps"]) == (6, 1, 6)


def test_the_scale_of_float16_halves_after_a_bad_step_and_grows_after_many_good_ones():
    stepper = Stepper(256, "float16")
    good = next(gradients(256, 1))
    bad = torch.full_like(good, torch.inf)
    assert read(stepper.control)["scale"] == 65536.0
    for wanted in (32768.0, 16384.0):
        stepper.step(bad)
        assert read(stepper.control)["scale"] == wanted
    stepper.step(good)
    assert (read(stepper.control)["scale"], read(stepper.control)["good_steps"]) == (16384.0, 1)
    stepper.control.write(good_steps=1999)
    stepper.step(good)
    assert (read(stepper.control)["scale"], read(stepper.control)["good_steps"]) == (32768.0, 0)
    stepper.control.write(scale=1.0)
    stepper.step(bad)
    assert read(stepper.control)["scale"] == 1.0  # never below one


def test_the_other_precisions_keep_a_scale_of_one():
    stepper = Stepper(256, "bfloat16")
    stepper.step(torch.full((256,), torch.nan, device="cuda"))
    assert read(stepper.control)["scale"] == 1.0


def test_cells_that_are_no_weights_are_neither_moved_nor_measured():
    """Two trunks of width 3, two actions: rows of 8 cells, of which each trunk has its own and a bias."""
    begin, stride, actions, width, trunks = 64, 8, 2, 3, 2
    head = [begin, 128, stride, actions, width, trunks]
    own = torch.zeros(8, stride, dtype=torch.bool)
    own[:actions, :width] = True  # the policy's trunk
    own[actions, width : 2 * width] = True  # the value's
    own[: actions + 1, 2 * width] = True  # biases
    cells = torch.ones(128, dtype=torch.bool)
    cells[begin:] = own.flatten()
    stepper = Stepper(128, "bfloat16", head=head)
    before = stepper.weights.clone()
    for gradient in gradients(128, 3):
        norm = stepper.step_theirs(torch.where(cells.cuda(), gradient, 0.0))
        stepper.step(gradient)
        assert read(stepper.control)["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    stepper.agree()
    assert torch.equal(stepper.weights[~cells.cuda()], before[~cells.cuda()])
    assert not stepper.mean[~cells.cuda()].any()
    assert (stepper.weights[cells.cuda()] != before[cells.cuda()]).all()


def test_terms_are_summed_over_the_steps_and_the_target_kl_ends_the_update():
    stepper = Stepper(256)
    native, control = stepper.native, stepper.control
    terms = torch.rand(5, 6, dtype=torch.float64, device="cuda")
    steps = list(gradients(256, 5))
    for gradient in steps[:2]:
        stepper.step(gradient, terms)
    numbers = read(control)
    np.testing.assert_allclose(numbers["terms"], 2 * terms.sum(0).cpu().numpy())
    kl = float(terms[:, 3].sum())
    native.begin_pass(control.address, 2, 1.1 * kl, stream_now())  # not so far: goes on
    before = stepper.state()
    stepper.step(steps[2], terms)
    assert not torch.equal(before[0], stepper.weights)
    assert read(control)["passes"] == 2
    native.begin_pass(control.address, 3, 0.9 * kl, stream_now())
    before = stepper.state()
    stepper.step(steps[3], terms)
    assert all(torch.equal(was, now) for was, now in zip(before, stepper.state(), strict=True))
    numbers = read(control)
    assert (numbers["passes"], numbers["steps"], numbers["adam_step"]) == (2, 3, 3)
    native.begin_update(control.address, 1e-3, 0.0, stream_now())  # the next update learns again
    native.begin_pass(control.address, 4, 0.9 * kl, stream_now())
    stepper.step(steps[4], terms)
    assert not torch.equal(before[0], stepper.weights)
    numbers = read(control)
    assert (numbers["passes"], numbers["steps"], numbers["adam_step"]) == (1, 1, 4)


def test_rows_of_other_drivers_are_answered_by_others():
    rng = np.random.default_rng(1)
    driver = torch.from_numpy(rng.integers(0, 4, 300).astype(np.uint8)).cuda()
    heads, other = (torch.from_numpy(rng.normal(size=(300, 48)).astype(np.float32)).cuda() for _ in range(2))
    wanted = torch.where((driver == 2)[:, None], other, heads)
    need_cuda().answer_rows(driver.data_ptr(), 2, other.data_ptr(), 300, 48, heads.data_ptr(), stream_now())
    torch.cuda.synchronize()
    assert torch.equal(heads, wanted)


def test_a_minibatch_without_a_live_row_moves_nothing():
    stepper = Stepper()
    stepper.step(next(gradients(1024, 1)))
    before, steps = stepper.state(), read(stepper.control)["steps"]
    stepper.control.write(live=0)
    stepper.step(torch.zeros(1024, device="cuda"))
    assert all(torch.equal(a, b) for a, b in zip(stepper.state(), before, strict=True))
    assert read(stepper.control)["steps"] == steps == 1

"""What is said where there is no card to train on, what is said where one is too small, and who sits where
in its games. None of it needs a card."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from playmill.algorithms import PPO
from playmill.cli.main import main
from playmill.games import PlaymillError, registry
from playmill.policies import Network
from playmill.pools import FIRST_BOT, NativePool, lanes
from playmill.pools.cuda import CudaPool, DeviceArray
from playmill.training.config import Opponents, Train, from_dict
from playmill.training.cuda.collector import block_seating, past_blocks
from playmill.training.cuda.room import SPARE, minibatch_bytes, out_of_room, rollout_bytes

H200 = ("NVIDIA H200", 9, 0, 150 * 10**9, 132)
V100 = ("Tesla V100", 7, 0, 16 * 2**30, 80)


def module(devices=(), driver=13000, runtime=13000, error="", problem=""):
    """playmill._cuda as far as it describes a machine."""
    status = {"driver": driver, "runtime": runtime, "error": error, "devices": list(devices)}
    return SimpleNamespace(
        device_status=lambda: status, kernel_problem=lambda: problem, ARCHITECTURES="86,89,90"
    )


MACHINES = {
    "not built": (None, ["not built: "]),
    "no driver": (
        module(driver=0, error="CUDA driver version is insufficient"),
        ["no NVIDIA driver was found"],
    ),
    "old driver": (
        module(driver=12040, error="CUDA driver version is insufficient"),
        ["driver is too old", "it serves CUDA 12.4", "built with 13.0", "update the driver"],
    ),
    "no card": (module(), ["no NVIDIA card can be used: the driver sees none"]),
    "broken card": (module(error="unknown error"), ["no NVIDIA card can be used: unknown error"]),
    "no kernels": (
        module([V100], problem="running a kernel: no kernel image is available for execution on the device"),
        [
            "Tesla V100 has compute capability 7.0",
            "built for 8.6, 8.9, 9.0 and newer",
            "-C cmake.define.PLAYMILL_CUDA_ARCHITECTURES=70",
        ],
    ),
    "other trouble": (
        module([H200], problem="running a kernel: out of memory"),
        ["NVIDIA H200 does not run Playmill's kernels: running a kernel: out of memory"],
    ),
}
every_machine = pytest.mark.parametrize(
    ("machine", "says"), MACHINES.values(), ids=[name.replace(" ", "-") for name in MACHINES]
)


@every_machine
def test_what_is_missing_is_one_line_with_a_way_out(monkeypatch, machine, says):
    monkeypatch.setattr(lanes, "cuda_module", lambda: machine)
    found = lanes.cuda_lane()
    assert not found.available
    assert "\n" not in found.reason
    for words in says:
        assert words in found.reason
    with pytest.raises(PlaymillError, match=r"^--device cuda: .*; or train on the CPU with --device cpu$"):
        lanes.need_cuda()
    for build in (lambda: CudaPool("kuhn", 4), lambda: DeviceArray((3,), "uint8")):
        with pytest.raises(PlaymillError, match="--device cuda: "):
            build()


@pytest.mark.parametrize("reason", ["no CUDA compiler was found; put nvcc on the PATH", ""])
def test_a_build_without_cuda_says_why_it_was_made_so(monkeypatch, reason):
    monkeypatch.setattr(lanes, "cuda_module", lambda: None)
    monkeypatch.setattr(lanes._native, "WITHOUT_CUDA", reason)
    assert lanes.cuda_lane().reason == f"not built: {reason or 'its module is missing'}"


def test_a_driver_of_the_same_generation_is_not_too_old(monkeypatch):
    monkeypatch.setattr(lanes, "cuda_module", lambda: module(driver=12040, runtime=12090))
    assert "the driver sees none" in lanes.cuda_lane().reason


def test_a_card_that_runs_the_kernels_is_named(monkeypatch):
    machine = module([H200, V100])
    monkeypatch.setattr(lanes, "cuda_module", lambda: machine)
    found = lanes.cuda_lane()
    assert found.available
    assert found.reason == "NVIDIA H200, 140 GB"
    assert found.card == lanes.Card("NVIDIA H200", (9, 0), 150 * 10**9, 132)
    assert lanes.need_cuda() is machine


def test_looking_at_this_machine_raises_nothing():
    found = lanes.cuda_lane()
    assert found.reason
    assert (found.card is not None) or not found.available


# The command line


SMALL = "--games 16 --steps 8 --threads 1 --network.hidden 16 --ppo.minibatch 128 --turns 256"
SMALL += " --evaluation.every 0 --evaluation.final-deals 2 --evaluation.no-exploitability --plain"


def refused(capsys, line):
    """A command that ends with exit code 2 and one line; the line."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    return said


@pytest.fixture
def no_card(monkeypatch, tmp_path):
    monkeypatch.setattr(lanes, "cuda_module", lambda: MACHINES["no driver"][0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", ["", "--seeds 0 1", "--vary ppo.lr=1e-3,3e-3"], ids=["run", "seeds", "vary"])
def test_training_on_a_card_that_is_not_there_leaves_nothing_behind(no_card, capsys, more):
    said = refused(capsys, f"train kuhn --device cuda {SMALL} {more}")
    assert said.startswith("playmill: --device cuda: no NVIDIA driver was found on this machine; or train on")
    refused(capsys, f"train kuhn --device cuda --run mine {SMALL} {more}")
    assert list(no_card.iterdir()) == []


def test_the_same_folder_can_be_used_on_the_next_try(no_card, capsys):
    refused(capsys, f"train kuhn --device cuda --run mine {SMALL}")
    main(f"train kuhn --device cpu --run mine {SMALL}".split())
    assert (no_card / "mine" / "report.html").exists()


def test_a_run_of_the_card_is_not_resumed_without_one(no_card, capsys):
    main(f"train kuhn --run mine {SMALL}".split())
    config = no_card / "mine" / "config.json"
    config.write_text(config.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    before = config.read_text()
    said = refused(capsys, "train --resume mine --turns 512 --plain")
    assert "no NVIDIA driver was found" in said
    assert config.read_text() == before


def test_a_torch_without_cuda_is_told_apart_from_a_missing_card(monkeypatch, no_card, capsys):
    monkeypatch.setattr(lanes, "cuda_module", lambda: module([H200]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = refused(capsys, f"train kuhn --device cuda {SMALL}")
    assert "is built for the CPU alone" in said
    assert torch.__version__ in said
    assert list(no_card.iterdir()) == []


def test_float16_is_for_the_card_alone(no_card, capsys):
    with pytest.raises(
        PlaymillError, match="float16 is for --device cuda; on the CPU use float32 or bfloat16"
    ):
        from_dict(Train, {"game": "kuhn", "precision": "float16"})
    assert Train(game="kuhn", precision="float16", device="cuda").precision == "float16"
    assert "float16 is for --device cuda" in refused(capsys, f"train kuhn --precision float16 {SMALL}")
    assert list(no_card.iterdir()) == []


# Room


@pytest.fixture
def card_of(monkeypatch):
    def make(memory):
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory)
        )

    return make


def suggestion(error):
    """The setting, what it is and what it should be, from the error's words."""
    words = str(error).split("lower ")[1].split()
    number = [int(word.strip("()").replace(",", "")) for word in (words[2], words[4])]
    return words[0], *number


@pytest.mark.parametrize("gigabytes", [4, 24, 80])
def test_too_many_games_are_told_how_many_fit(card_of, gigabytes):
    card_of(gigabytes * 2**30)
    config = Train(game="skull_king", device="cuda", games=2**26, steps=64)
    error = out_of_room(config, config.spec, "taking 99 MB of the card: out of memory\nand a long story")
    setting, now, fits = suggestion(error)
    assert (setting, now) == ("--games", 2**26)
    room = gigabytes * 2**30
    assert (
        fits * rollout_bytes(config, config.spec)
        < SPARE * room
        < 4 * fits * rollout_bytes(config, config.spec)
    )
    assert fits & (fits - 1) == 0
    assert str(error).endswith("(taking 99 MB of the card: out of memory)")


@pytest.mark.parametrize("accumulate", [1, 4])
def test_too_large_a_minibatch_is_told_what_fits(card_of, accumulate):
    card_of(8 * 2**30)
    wide = Network(hidden=(2048, 2048, 2048))
    ppo = PPO(minibatch=2**21, accumulate=accumulate)
    config = Train(game="skull_king", device="cuda", games=2**15, steps=64, network=wide, ppo=ppo)
    error = out_of_room(config, config.spec, "")
    setting, now, fits = suggestion(error)
    assert (setting, now) == ("--ppo.minibatch", 2**21)
    assert 128 <= fits < now
    assert fits * minibatch_bytes(config, config.spec) < SPARE * 8 * 2**30
    assert "or raise --ppo.accumulate (out of memory)" in str(error)


@pytest.mark.parametrize("minibatch", [128, 8192])
def test_what_is_suggested_is_always_lower_than_what_was_asked(card_of, minibatch):
    """Also where the card is large and others have filled it."""
    card_of(140 * 2**30)
    config = Train(game="kuhn", device="cuda", games=512, steps=16, ppo=PPO(minibatch=minibatch))
    _, now, fits = suggestion(out_of_room(config, config.spec, "out of memory"))
    assert fits < now


# Seats


@pytest.mark.parametrize("games", [1, 15, 16, 100, 4096, 10_000])
@pytest.mark.parametrize("keep", [1, 2, 4, 31])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 1.0])
def test_past_policies_have_equal_blocks_at_the_end(games, keep, share):
    blocks = past_blocks(games, keep, share)
    assert len(blocks) == keep
    assert blocks[-1].stop == games
    sizes = {block.stop - block.start for block in blocks}
    assert len(sizes) == 1
    assert blocks[0].start >= 0
    for before, after in itertools.pairwise(blocks):
        assert before.stop == after.start
    size = sizes.pop()
    wanted = games * share / keep
    assert size <= max(wanted, 16)
    if wanted >= 16:
        assert size % 16 == 0
        assert size > wanted - 16
    elif games >= keep:
        assert size > 0


def test_without_past_policies_there_are_no_blocks():
    assert past_blocks(4096, 0, 0.5) == []


@pytest.mark.parametrize("game", registry.names())
@pytest.mark.parametrize("filled", [0, 1, 3])
def test_bots_sit_in_the_first_games_and_past_policies_in_their_blocks(game, filled):
    spec, games = registry.spec(game), 2000
    opponents = Opponents(past=0.4, bots=0.3, keep=3)
    blocks = past_blocks(games, 3, opponents.past)
    drivers = block_seating(spec, opponents, games, blocks, filled, seed=8)
    assert drivers.shape == (games, spec.seats)
    assert drivers.dtype == np.uint8
    with_bots = drivers[:600]
    assert ((with_bots == 0).sum(axis=1) == 1).all()  # the learner has one seat there
    assert set(np.unique(with_bots[with_bots > 0])) == {FIRST_BOT + i for i in range(len(spec.bots))}
    assert not drivers[600 : blocks[0].start].any()
    for number, block in enumerate(blocks, start=1):
        seated = drivers[block]
        if number > filled:
            assert not seated.any()
            continue
        assert set(np.unique(seated)) == {0, number}
        assert (seated == 0).any(axis=1).all()
        assert (seated == number).any(axis=1).all()
    # The learner's seat is drawn: no seat is favoured.
    share = (with_bots == 0).mean(axis=0)
    assert np.abs(share - 1 / spec.seats).max() < 0.1
    NativePool(spec, games).set_drivers(drivers)  # and the pool takes it


def test_seating_is_named_by_its_seed():
    spec, opponents = registry.spec("skull_king"), Opponents(past=0.5, bots=0.5, keep=2)
    blocks = past_blocks(640, 2, 0.5)
    first, again, other = (block_seating(spec, opponents, 640, blocks, 2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.1
    assert (first[:320] > 0).any(axis=1).all()  # all games have opponents: the shares are one together


def test_named_bots_alone_are_seated():
    spec = registry.spec("skull_king")
    opponents = Opponents(bots=1.0, bot_names=("hard",))
    drivers = block_seating(spec, opponents, 100, [], 0, seed=1)
    assert set(np.unique(drivers)) == {0, FIRST_BOT + spec.bot("hard")}

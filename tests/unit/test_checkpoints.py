"""Checkpoints are whole or not there: bit flips, kills and full disks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from playmill.checkpoints import BackgroundWriter, CheckpointError, Store, fingerprint, read, verify, write
from playmill.checkpoints import folder as folders

TENSORS = {
    "layer.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "count": torch.tensor(7, dtype=torch.int64),
    "empty": torch.zeros(0, 4),
    "mask": torch.tensor([True, False]),
}
META = {"turns": 123, "config": {"name": "kuhn"}, "history": [1, 2.5, None]}
BLOBS = {"pool.bin": bytes(range(256)), "empty.bin": b""}


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    # The child finds the package where this process found it, installed or not.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def hidden(root: Path) -> list[str]:
    return [entry.name for entry in root.iterdir() if entry.name.startswith(".")]


# One folder


def test_what_is_written_is_read_bit_for_bit(tmp_path: Path) -> None:
    write(tmp_path / "a", TENSORS, META, BLOBS)
    found = read(tmp_path / "a")
    assert fingerprint(found.tensors) == fingerprint(TENSORS)
    assert found.meta == META
    assert found.blobs == BLOBS
    assert hidden(tmp_path) == []


def test_shared_strided_and_learning_tensors_can_be_saved(tmp_path: Path) -> None:
    base = torch.randn(4, 6)
    tensors = {"tied": base, "tied_too": base, "view": base[1:3], "turned": base.t(), "grad": base.clone()}
    tensors["grad"].requires_grad_()
    write(tmp_path / "a", tensors, {})
    assert fingerprint(read(tmp_path / "a").tensors) == fingerprint(tensors)


def test_a_new_checkpoint_takes_the_place_of_the_old(tmp_path: Path) -> None:
    write(tmp_path / "a", TENSORS, {"version": 1}, BLOBS)
    write(tmp_path / "a", TENSORS, {"version": 2})
    assert read(tmp_path / "a").meta == {"version": 2}
    assert read(tmp_path / "a").blobs == {}
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("name", ["weights.safetensors", "meta.json", "manifest.json", "pool.bin"])
def test_every_flipped_bit_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a", TENSORS, META, BLOBS)
    path = tmp_path / "a" / name
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match=name):
            verify(tmp_path / "a")
    path.write_bytes(content)
    verify(tmp_path / "a")


@pytest.mark.parametrize("name", ["weights.safetensors", "meta.json", "manifest.json", "pool.bin"])
def test_a_truncated_or_missing_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a", TENSORS, META, BLOBS)
    path = tmp_path / "a" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=rf"{name}.*(truncated|damaged)"):
        read(tmp_path / "a")
    path.write_bytes(content + b"x")
    with pytest.raises(CheckpointError, match=name):
        read(tmp_path / "a")
    path.unlink()
    with pytest.raises(CheckpointError, match=f"missing|it has no {name}"):
        read(tmp_path / "a")


def test_a_folder_without_a_manifest_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for folder in (tmp_path / "a", tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            read(folder)


def test_a_newer_format_is_refused_as_such(tmp_path: Path) -> None:
    write(tmp_path / "a", TENSORS, META)
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(CheckpointError, match=r"format 99.*newer Playmill"):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    "name", ["../out", "/etc/passwd", "a/b", "..", ".hidden", "", "manifest.json", "x" * 200]
)
def test_names_never_become_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="cannot name"):
        write(tmp_path / "a", TENSORS, META, {name: b"x"})
    # A manifest whose checksum is right can still be hostile.
    write(tmp_path / "a", TENSORS, META)
    path = tmp_path / "a" / "manifest.json"
    body = json.loads(path.read_text())
    body["files"][name] = {"sha256": "0" * 64, "size": 1}
    path.write_bytes(folders._seal(body))
    with pytest.raises(CheckpointError, match="unsafe file name"):
        read(tmp_path / "a")


def test_meta_that_json_cannot_carry_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for bad in ({"score": float("nan")}, {"when": object()}):
        with pytest.raises(CheckpointError, match=r"meta\.json"):
            write(tmp_path / "a", TENSORS, bad)
    assert list(tmp_path.iterdir()) == []


def test_the_old_folder_is_found_when_a_crash_cut_the_swap_in_two(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=2)
    store.save(5, TENSORS, META)
    store.path(5).rename(folders.aside(store.path(5)))
    assert store.latest() == store.path(5)
    assert read(store.path(5)).meta == META
    store.clean()
    assert store.path(5).is_dir()
    assert hidden(tmp_path) == []


def test_fingerprints_tell_names_types_shapes_and_bytes_apart() -> None:
    zeros = torch.zeros(4)
    same = fingerprint({"a": zeros, "b": torch.ones(2)})
    assert same == fingerprint({"b": torch.ones(2), "a": zeros.clone()})
    different = [{"b": zeros}, {"a": zeros.reshape(2, 2)}, {"a": zeros.int()}, {"a": -zeros}, {}]
    assert len({fingerprint(tensors) for tensors in [{"a": zeros}, *different]}) == 6


# The store


def test_the_store_keeps_the_newest_the_best_and_the_pinned(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=2)
    for step in range(1, 8):
        store.save(step, TENSORS, {"step": step}, pin=step == 2, best_score=0.5 if step == 3 else None)
    assert store.steps() == [2, 3, 6, 7]
    assert store.latest() == tmp_path / "step-000000000007"
    assert store.best() == store.path(3)
    assert store.best_score() == 0.5
    store.mark_best(7, 0.9)
    store.unpin(2)
    store.save(8, TENSORS, {})
    assert Store(tmp_path, keep=2).steps() == [7, 8]


def test_latest_skips_damaged_ones_with_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, keep=3, on_warning=warnings.append)
    assert store.latest() is None
    for step in (1, 2, 3):
        store.save(step, TENSORS, {})
    (store.path(3) / "meta.json").write_bytes(b"")
    assert store.latest() == store.path(2)
    assert len(warnings) == 1
    assert "meta.json" in warnings[0]
    # Damaged newer folders must not push out what is saved after a resume.
    narrow = Store(tmp_path, keep=1, on_warning=warnings.append)
    narrow.save(2, TENSORS, {"again": True})
    assert narrow.latest() == store.path(2)


def test_a_run_wound_back_forgets_its_future(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=9)
    for step in (1, 2, 3, 4):
        store.save(step, TENSORS, {}, pin=step == 4, best_score=step)
    store.drop_after(2)
    assert store.steps() == [1, 2]
    assert store.best() is None
    assert store.pins() == frozenset()


def test_unreadable_marks_stop_pruning_instead_of_losing_the_best(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, keep=1, on_warning=warnings.append)
    store.save(1, TENSORS, {}, best_score=1.0)
    (tmp_path / "marks.json").write_text("{")
    store.save(2, TENSORS, {})
    assert store.steps() == [1, 2]
    assert "nothing was pruned" in warnings[-1]
    with pytest.raises(CheckpointError, match=r"marks\.json"):
        store.mark_best(2, 2.0)


def test_only_a_saved_step_can_be_best_and_keep_is_checked(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not saved"):
        Store(tmp_path, keep=1).mark_best(1, 0.5)
    with pytest.raises(ValueError, match="keep"):
        Store(tmp_path, keep=0)


def test_looking_at_a_store_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".step-000000000001.new-0011aabb").mkdir()
    store = Store(tmp_path, keep=1)
    store.latest()
    assert hidden(tmp_path) != []
    store.save(1, TENSORS, {})
    assert hidden(tmp_path) == []


# One process imports torch and forks a saver for each kill: fifty kills cost what two starts cost.
SAVE_UNTIL_KILLED = """
    import os, signal, sys, time, torch
    from pathlib import Path
    from playmill.checkpoints import Store, read

    def save_for_ever():
        store = Store(Path(sys.argv[1]), keep=2)
        latest = store.latest()
        step = read(latest).meta["step"] if latest else 0
        while True:
            step += 1
            # Every third step is saved twice, so that kills also fall between the two renames.
            for _ in range(2 if step % 3 == 0 else 1):
                fill = {"w": torch.full((20_000,), float(step))}
                store.save(step, fill, {"step": step}, {"b": bytes([step % 256]) * 50_000}, best_score=step)

    for delay in sys.stdin:
        child = os.fork()
        if child == 0:
            save_for_ever()
        time.sleep(float(delay))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else "ended", flush=True)
"""


def test_kill_9_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    start = time.monotonic()
    Store(tmp_path / "timed", keep=1).save(
        1, {"w": torch.zeros(20_000)}, {}, {"b": bytes(50_000)}, best_score=1
    )
    # Moments are spread over several saves, whether the disk is fast or slow.
    longest = 0.03 + 6 * (time.monotonic() - start)
    root = tmp_path / "killed"
    chance = random.Random(9)
    before = 0
    saver = python(SAVE_UNTIL_KILLED, root)
    assert saver.stdin is not None
    assert saver.stdout is not None
    for kills in range(300):
        if kills >= 50 and before > 20:  # on a busy machine fewer saves fit between two kills
            break
        saver.stdin.write(f"{chance.uniform(0.005, longest)}\n")
        saver.stdin.flush()
        assert saver.stdout.readline() == f"{int(signal.SIGKILL)}\n"
        latest = Store(root, keep=2, on_warning=pytest.fail).latest()
        if latest is None:
            continue
        found = read(latest)
        step = found.meta["step"]
        assert step >= before
        before = step
        assert torch.equal(found.tensors["w"], torch.full((20_000,), float(step)))
        assert found.blobs["b"] == bytes([step % 256]) * 50_000
    saver.communicate()
    assert before > 20
    store = Store(root, keep=2)
    store.save(before + 1, TENSORS, {})
    assert hidden(root) == []
    assert store.best() is not None


FILL_THE_DISK = """
    import resource, sys, torch
    from pathlib import Path
    from playmill.checkpoints import BackgroundWriter, Store
    root, limited = Path(sys.argv[1]), sys.argv[2] == "limit"
    store, told = Store(root, keep=2), []
    with BackgroundWriter(store, on_error=told.append) as writer:
        writer.submit(1, {"w": torch.ones(1000)}, {})
        writer.wait()
        if limited:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        writer.submit(2, {"w": torch.ones(1_000_000)}, {})
        writer.wait()
        writer.submit(3, {"w": torch.ones(1000)}, {})
    assert [type(error) for error in told] == [OSError], told
    assert len(writer.warnings) == 1 and "step 2" in writer.warnings[0], writer.warnings
    assert store.steps() == [1, 3] and store.latest() == store.path(3)
    assert not [entry for entry in root.iterdir() if entry.name.startswith(".")]
    print(told[0].errno)
"""


def test_a_file_that_cannot_grow_costs_one_checkpoint_only(tmp_path: Path) -> None:
    child = python(FILL_THE_DISK, tmp_path, "limit")
    output, _ = child.communicate()
    assert child.returncode == 0
    assert output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_costs_one_checkpoint_only(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip("this machine does not allow mounts")
    try:
        child = python(FILL_THE_DISK, tmp_path, "tmpfs")
        output, _ = child.communicate()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert child.returncode == 0
    assert output.strip() == str(28)


# The background writer


class SlowStore(Store):
    """A store whose disk waits until the test lets it go on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, keep=99)
        self.started = threading.Event()
        self.go = threading.Event()

    def save(self, step: int, *arguments: object, **options: object) -> Path:
        self.started.set()
        assert self.go.wait(10)
        return super().save(step, *arguments, **options)  # type: ignore[arg-type]


def test_submit_copies_at_once_and_does_not_hold_up(tmp_path: Path) -> None:
    store, saved = SlowStore(tmp_path), list[Path]()
    weights, meta = torch.zeros(1000), {"list": [1]}
    with BackgroundWriter(store, on_saved=saved.append) as writer:
        start = time.monotonic()
        writer.submit(1, {"w": weights}, meta)
        assert time.monotonic() - start < 1
        weights += 1
        meta["list"].append(2)
        assert not writer.wait(0.01)
        store.go.set()
        assert writer.wait(10)
        assert saved == [store.path(1)]
    found = read(store.path(1))
    assert found.tensors["w"].sum() == 0
    assert found.meta == {"list": [1]}


def test_a_newer_save_replaces_a_waiting_one_unless_it_must_happen(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    with BackgroundWriter(store) as writer:
        writer.submit(1, TENSORS, {})
        assert store.started.wait(10)
        writer.submit(2, TENSORS, {})
        writer.submit(3, TENSORS, {}, must=True)
        writer.submit(4, TENSORS, {}, pin=True)
        writer.submit(5, TENSORS, {})
        writer.submit(6, TENSORS, {})
        store.go.set()
    assert store.steps() == [1, 3, 4, 6]
    assert store.pins() == {4}
    with pytest.raises(RuntimeError, match="closed"):
        writer.submit(7, TENSORS, {})


def test_a_save_is_told_of_by_itself_when_it_is_whole(tmp_path: Path) -> None:
    whole: list[tuple[int, Path]] = []
    with BackgroundWriter(Store(tmp_path, keep=9)) as writer:
        for number, meta in enumerate([{}, {"bad": float("inf")}, {}]):
            writer.submit(1, TENSORS, meta, must=True, after=lambda path, n=number: whole.append((n, path)))
    assert whole == [(0, writer.store.path(1)), (2, writer.store.path(1))]


def test_a_listener_that_fails_does_not_end_the_writer(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no")

    with BackgroundWriter(Store(tmp_path, keep=9), on_saved=fail, on_error=fail) as writer:
        writer.submit(1, TENSORS, {}, must=True)
        writer.submit(2, TENSORS, {"bad": float("inf")}, must=True)
        writer.submit(3, TENSORS, {}, must=True)
    assert writer.store.steps() == [1, 3]
    assert len(writer.warnings) == 4

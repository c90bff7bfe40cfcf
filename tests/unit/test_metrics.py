"""Metrics: nothing lost, nothing counted twice, whatever happened to the last line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from playmill.telemetry import MetricsLog, read_metrics


def log(folder: Path, resume_step: int | None = None) -> MetricsLog:
    return MetricsLog(folder, resume_step, use_tensorboard=False)


def python(code: str, *arguments: object) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_lines_are_readable_at_once(tmp_path: Path) -> None:
    metrics = log(tmp_path)
    metrics.write(1, {"loss/policy": 0.5})
    metrics.write(2, {"loss/policy": 0.25, "eval/greedy/win_share": 1})
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[1]["eval/greedy/win_share"] == 1.0
    assert lines[0]["time"] > 1.7e9
    metrics.close()


def test_what_is_no_number_stays_strict_json_and_comes_back(tmp_path: Path) -> None:
    with log(tmp_path) as metrics:
        metrics.write(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1e-300})
    text = (tmp_path / "metrics.jsonl").read_text()

    def refuse(word: str) -> None:
        raise AssertionError(word)

    raw = json.loads(text, parse_constant=refuse)
    assert (raw["a"], raw["b"], raw["c"]) == ("nan", "inf", "-inf")
    line = read_metrics(tmp_path)[0]
    assert math.isnan(line["a"])
    assert (line["b"], line["c"], line["d"]) == (math.inf, -math.inf, 1e-300)


def test_resume_takes_out_later_lines_and_the_torn_one(tmp_path: Path) -> None:
    with log(tmp_path) as metrics:
        for step in range(10):
            metrics.write(step, {"x": step})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 10, "ti')
    assert len(read_metrics(path)) == 10
    with log(tmp_path, resume_step=6) as metrics:
        metrics.write(7, {"x": 70})
    assert [line["x"] for line in read_metrics(path)] == [0, 1, 2, 3, 4, 5, 6, 70]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_file_cut_anywhere_can_be_read_and_resumed(tmp_path: Path, cut: int) -> None:
    with log(tmp_path) as metrics:
        metrics.write(1, {"x": 1})
        metrics.write(2, {"x": 2})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert [line["step"] for line in read_metrics(path)] == [1]
    with log(tmp_path, resume_step=2) as metrics:
        metrics.write(3, {"x": 3})
    assert [line["step"] for line in read_metrics(path)] == [1, 3]


def test_damage_in_the_middle_is_named_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nrubbish\n{"step": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_metrics(tmp_path)


def test_a_new_run_sets_an_older_file_aside(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        with log(tmp_path) as metrics:
            metrics.write(1, {"x": value})
    assert read_metrics(tmp_path)[0]["x"] == 3
    assert read_metrics(tmp_path / "metrics.1.jsonl")[0]["x"] == 1
    assert read_metrics(tmp_path / "metrics.2.jsonl")[0]["x"] == 2
    assert read_metrics(tmp_path / "nowhere.jsonl") == []


def test_own_keys_cannot_be_overwritten(tmp_path: Path) -> None:
    with log(tmp_path) as metrics, pytest.raises(ValueError, match="another name"):
        metrics.write(1, {"step": 2})


def test_a_full_disk_costs_a_line_not_the_training(tmp_path: Path) -> None:
    code = """
        import resource, sys
        from pathlib import Path
        from playmill.telemetry import MetricsLog, read_metrics
        log = MetricsLog(Path(sys.argv[1]), use_tensorboard=False)
        log.write(1, {"x": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, 400))
        log.write(2, {"long/" + "x" * 200: 2})
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
        log.write(3, {"x": 3})
        print([line["step"] for line in read_metrics(Path(sys.argv[1]))], len(log.warnings))
    """
    assert python(code, tmp_path) == "[1, 3] 1\n"


def test_tensorboard_events_are_written_and_purged_on_resume(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as metrics:
        assert metrics.tensorboard
        for step in range(5):
            metrics.write(step, {"loss/policy": step})
    with MetricsLog(tmp_path, resume_step=2) as metrics:
        metrics.write(3, {"loss/policy": 30})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/policy")] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 30),
    ]


def test_telemetry_needs_neither_torch_nor_tensorboard(tmp_path: Path) -> None:
    code = """
        import sys
        sys.modules["tensorboard"] = None
        from pathlib import Path
        import importlib.util
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "tensorboard" else real(name, *rest)
        from playmill.telemetry import MetricsLog
        log = MetricsLog(Path(sys.argv[1]))
        log.write(1, {"x": 1})
        print(log.tensorboard, "torch" in sys.modules, log.warnings)
    """
    assert python(code, tmp_path) == "False False []\n"

"""Utilisation: work counted by hand, shares of the ceilings, what limits, and its place in the report."""

import json

import pytest

from playmill.games import registry
from playmill.policies import Network, forward_flops
from playmill.telemetry import MetricsLog
from playmill.training.report import write_report
from playmill.training.report_data import load_run, panels
from playmill.training.units import quantity
from playmill.training.utilisation import (
    FILE,
    Ceilings,
    Work,
    measure_ceilings,
    read_utilisation,
    utilisation,
    utilisation_lines,
    utilisation_metrics,
    work_per_turn,
    write_utilisation,
)

CARD = Ceilings(matrix_flops_per_s=1e12, bytes_per_s=1e9, name="a <small> card")
WORK = {"rollout": Work(100.0, 2.0), "update": Work(300.0, 4.0)}


def used(seconds, work=WORK, turns=10**9, epochs=2.0, **sizes):
    return utilisation(work, seconds, turns, epochs, CARD, **sizes)


def test_the_work_of_skull_king_counted_by_hand():
    """121 packed bytes, 16 of legal bits, 1,008 features, 111 actions, 4 seats."""
    work = work_per_turn(registry.spec("skull_king"), Network(hidden=(512, 512, 256)))
    forward = 2 * (2 * (1008 * 512 + 512 * 512 + 512 * 256) + 256 * 112)
    assert work["rollout"].flops == forward == 3_694_592
    assert work["update"].flops == 3 * forward - 2 * 1008 * 1024 == 9_019_392
    assert work["rollout"].bytes == 2 * 137 + 32 + 4 * (1008 + 2560 + 112) == 15_026
    assert work["update"].bytes == 137 + 16 + 2 * (3 * 1008 + 5 * 2560 + 4 * 112) == 32_697


def test_shared_layers_are_counted_once():
    spec = registry.spec("leduc")
    apart, shared = (work_per_turn(spec, Network((64, 32), separate=separate)) for separate in (True, False))
    trunk = 2 * (spec.schema.features * 64 + 64 * 32)
    assert apart["rollout"].flops - shared["rollout"].flops == trunk
    assert apart["rollout"].bytes - shared["rollout"].bytes == 4 * 96
    assert apart["update"].bytes - shared["update"].bytes == 10 * 96


def test_attention_counts_the_stream_of_its_tokens():
    spec = registry.spec("skull_king")
    network = Network((64,), separate=False, attention=2, token_width=16, heads=2)
    plain, work = work_per_turn(spec, Network((64,), separate=False)), work_per_turn(spec, network)
    assert work["rollout"].bytes - plain["rollout"].bytes == 4 * (75 * 16) * (1 + 2 * 10)
    assert work["update"].flops == 3 * forward_flops(spec, network) - 2 * 1008 * 16


def test_rates_and_shares_worked_by_hand():
    """A thousand million turns: 100 GFLOP in 1 s, then twice 300 GFLOP in 3 s, then a second of returns."""
    found = used({"rollout": 1.0, "update": 3.0, "returns": 1.0})
    rollout, update, whole = found.phases["rollout"], found.phases["update"], found.whole
    assert (rollout.flops_per_s, rollout.matrix_share) == (1e11, 0.1)
    assert (rollout.bytes_per_s, rollout.memory_share) == (2e9, 2.0)
    assert (update.flops_per_s, update.bytes_per_s) == pytest.approx((2e11, 8e9 / 3))
    assert (found.phases["returns"].flops_per_s, found.phases["returns"].seconds) == (0.0, 1.0)
    assert (whole.seconds, whole.flops_per_s, whole.bytes_per_s) == (5.0, 7e11 / 5, 1e10 / 5)
    assert (whole.matrix_share, whole.memory_share) == pytest.approx((0.14, 2.0))
    assert utilisation_metrics(found) == {
        "gpu/flops_per_s": whole.flops_per_s,
        "gpu/bytes_per_s": whole.bytes_per_s,
        "gpu/matrix_share": whole.matrix_share,
        "gpu/memory_share": whole.memory_share,
    }


def test_the_matrix_units_limit():
    found = used({"update": 1.0}, {"update": Work(720.0, 0.6)}, epochs=1.0)
    assert found.limit == "matrix"
    assert found.verdict == "the matrix units (72 % of what this card was measured to do)"


def test_memory_limits():
    found = used({"update": 1.0}, {"update": Work(510.0, 0.64)}, epochs=1.0)
    assert found.limit == "memory"
    assert found.verdict == "memory (64 % of what this card was measured to do)"


def test_neither_limits_and_the_phase_that_loses_time_is_named():
    work = {"rollout": Work(100.0, 0.01), "update": Work(400.0, 0.02)}
    found = used({"rollout": 1.0, "update": 0.5}, work, epochs=1.0, games=4096, minibatch=8192)
    # Lost: 0.9 s in the rollout at 10 %, 0.1 s in the update at 80 %.
    assert found.limit == "neither"
    assert found.verdict == (
        "neither (matrix units 33 %, memory 2 %): small batches or launch gaps, "
        "mostly in phase rollout; try --games 8192"
    )
    both = used({"rollout": 1.0, "update": 1.5}, work, epochs=1.0, games=4096, minibatch=8192)
    assert both.verdict.endswith("mostly in phase update; try --games 8192, --ppo.minibatch 16384")


def test_no_advice_on_sizes_that_are_not_to_blame_or_not_known():
    slow = used({"rollout": 0.1, "update": 0.1, "returns": 9.0}, games=64, minibatch=64, turns=10**7)
    assert slow.verdict.endswith("mostly in phase returns")
    assert used({"rollout": 9.0}, turns=10**7).verdict.endswith("mostly in phase rollout")


def test_no_time_gives_no_rates():
    found = used({"rollout": 0.0})
    assert (found.whole.flops_per_s, found.limit) == (0.0, "neither")
    assert len(utilisation_lines(found)) == 5


def test_the_ceilings_of_this_machine_are_measured():
    found = measure_ceilings("cpu")
    assert found.name == "CPU"
    assert 1e7 < found.matrix_flops_per_s < 1e15
    assert 1e6 < found.bytes_per_s < 1e14


def test_the_lines_line_up_and_end_with_what_limits():
    first, *table, last = utilisation_lines(used({"rollout": 1.0, "update": 3.0}))
    assert first == "a <small> card, measured: 1 TFLOP/s in matrix products, 1 GB/s in copies"
    assert len({len(line) for line in table}) == 1
    assert [line.split()[0] for line in table] == ["phase", "rollout", "update", "in"]
    assert "100 GFLOP/s" in table[1]
    assert last.startswith("what limits: memory (")


def test_it_is_read_back_as_it_was_written(tmp_path):
    found = used({"rollout": 1.0, "update": 3.0})
    assert write_utilisation(tmp_path, found) == tmp_path / FILE
    assert read_utilisation(tmp_path) == found


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"ceilings": 3}', '{"ceilings": {"bytes_per_s": "x"}}'])
def test_a_damaged_file_is_left_out(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_utilisation(tmp_path) is None
    assert "What the card did" not in write_report(tmp_path).read_text()


def test_the_report_has_a_section_where_there_is_something_to_show(tmp_path):
    assert "What the card did" not in write_report(tmp_path).read_text()
    found = used({"rollout": 1.0, "update": 3.0})
    write_utilisation(tmp_path, found)
    text = write_report(tmp_path).read_text()
    for words in ("What the card did", found.verdict, "100 GFLOP/s", "of the matrix units", "in all"):
        assert words in text
    assert "a &lt;small&gt; card" in text
    saved = json.loads((tmp_path / FILE).read_text())
    saved["verdict"], saved["phases"]["<i>"] = "<script>", saved["phases"].pop("update")
    (tmp_path / FILE).write_text(json.dumps(saved))
    text = write_report(tmp_path).read_text()
    assert "<script>" not in text
    assert "&lt;i&gt;" in text


def test_the_shares_are_drawn_over_the_run(tmp_path):
    with MetricsLog(tmp_path, use_tensorboard=False) as log:
        for step in range(3):
            log.write(step, utilisation_metrics(used({"rollout": 1.0, "update": 3.0 + step})))
    (panel,) = panels(load_run(tmp_path))
    assert panel.title == "Share of what the card was measured to do"
    assert [line.name for line in panel.lines] == ["matrix units", "memory"]
    assert panel.share


def test_quantities_read_well():
    assert [quantity(n, "B/s") for n in (0, 12, 4.1e12, 989e9)] == ["0 B/s", "12 B/s", "4.1 TB/s", "989 GB/s"]

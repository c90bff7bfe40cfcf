"""Tests marked `cuda` need an NVIDIA card. Without one they are left out, and a single skipped test
(tests/cuda/test_card.py) says why. With PLAYMILL_NEED_CUDA=1 they run all the same, and fail."""

import functools
import os

import pytest
import torch

from playmill.pools.lanes import cuda_lane
from tests.redis_server import redis_server

__all__ = ["redis_server"]

NEEDED = os.environ.get("PLAYMILL_NEED_CUDA") == "1"


@functools.cache
def card_problem():
    """Why tests cannot run on a card here, or an empty string."""
    lane = cuda_lane()
    if not lane.available:
        return lane.reason
    return "" if torch.cuda.is_available() else f"this torch ({torch.__version__}) is built for the CPU alone"


def pytest_collection_modifyitems(config, items):
    on_card = [item for item in items if item.get_closest_marker("cuda")]
    if on_card and not NEEDED and card_problem():
        config.hook.pytest_deselected(items=on_card)
        items[:] = [item for item in items if not item.get_closest_marker("cuda")]


@pytest.fixture(autouse=True)
def _needed_card(request):
    if request.node.get_closest_marker("cuda") and card_problem():
        pytest.fail(f"PLAYMILL_NEED_CUDA is 1, but {card_problem()}")

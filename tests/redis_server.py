"""A real redis-server for a test; where there is none, the test is left out, but never by the CI."""

import contextlib
import os
import shutil

import pytest

from benchmarks.broker import running_broker


@contextlib.contextmanager
def running_redis(*options):
    if shutil.which("redis-server") is None and not os.environ.get("CI"):
        pytest.skip("redis-server is not installed")
    with running_broker(*options) as broker:
        yield broker


@pytest.fixture
def redis_server():
    with running_redis() as server:
        yield server

"""What holds after each of these tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from support.hooks import LIFECYCLE


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    yield
    names = {*LIFECYCLE, "before_observation", "after_observation", "om_observer"}
    ends_at = time.monotonic() + 60
    while any(thread.name in names for thread in threading.enumerate()):
        assert time.monotonic() < ends_at, threading.enumerate()
        time.sleep(0.01)

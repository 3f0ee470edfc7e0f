"""What holds after each of these tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.hooks import LIFECYCLE
from support.waiting import eventually


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    yield
    names = {*LIFECYCLE, "before_observation", "after_observation", "om_observer"}
    eventually(lambda: not any(thread.name in names for thread in threading.enumerate()))

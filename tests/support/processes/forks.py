"""Processes that are forked from a server that has imported what they need, once for all tests."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("workers", "queued", "lease_workers", "shared_worker", "archive_workers")


@cache
def forking() -> ForkServerContext:
    """Start the server, in which the tests' folder is on the path."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"support.processes.{name}" for name in NAMES])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        forkserver.ensure_running()
    return context


def start(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run a worker in a process of its own."""
    process = forking().Process(target=work, args=arguments)
    process.start()
    return process

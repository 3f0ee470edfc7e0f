"""`langgraph dev` as a process of its own: started in a folder, killed, and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

COMPLAINTS = re.compile(r"Blocking call|UserWarning|Traceback \(most recent call last\)")


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def client(self) -> LangGraphClient:
        return get_client(url=self.url, api_key=None)

    def sync_client(self) -> SyncLangGraphClient:
        return get_sync_client(url=self.url, api_key=None)

    def wait_until_state_is_written(self) -> None:
        """Wait until the server has written its state, which it does every few seconds."""
        state, began = self.log.parent / ".langgraph_api" / ".langgraph_ops.pckl", time.time()
        while time.time() < began + 120:
            if state.exists() and state.stat().st_mtime > began:
                time.sleep(1)  # its files are written one after the other
                return
            time.sleep(0.1)
        pytest.fail("the server does not write its state")

    def kill(self) -> None:
        """Let it end at once, with whatever it is doing."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)


@contextmanager
def serve(
    folder: Path, *, jobs: int = 8, more: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[Server]:
    """Serve a folder with a `langgraph.json`.

    Args:
        folder: Where it lies; the server keeps its state there.
        jobs: How many runs it carries out at once.
        more: What is added to its environment.
        port: Where it listens; `None`: where nobody does.
    """
    port, log = port or free_port(), folder / "server.log"
    options = ("--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", str(jobs))
    with (
        log.open("ab") as output,
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", *options],
            cwd=folder,
            env={**environment(), **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            started = Server(f"http://127.0.0.1:{port}", log, process)
            wait_until_ready(started)
            yield started
        finally:
            stop(process)


def write_graphs(folder: Path, code: str, graphs: Mapping[str, str]) -> None:
    """Make a folder one that can be served.

    Args:
        folder: The folder.
        code: A Python file, `graphs.py`.
        graphs: Which graph is which object of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graphs.py").write_text(code, encoding="utf-8")
    paths = {name: f"./graphs.py:{given}" for name, given in graphs.items()}
    settings = {"dependencies": ["."], "graphs": paths}
    (folder / "langgraph.json").write_text(json.dumps(settings), encoding="utf-8")


def check_log(log: Path, start: int = 0) -> None:
    """Fail where the server complained."""
    said = log.read_bytes()[start:].decode()
    if found := COMPLAINTS.search(said):
        pytest.fail(said[max(0, found.start() - 500) :][:6000])


def environment() -> dict[str, str]:
    """Nothing that asks a model, sends traces, counts users or looks for newer versions."""
    unwanted = re.compile(r"(LANGSMITH|LANGCHAIN|LANGGRAPH)_|(GOOGLE|GEMINI|OPENAI)_API_KEY$")
    kept = {name: value for name, value in os.environ.items() if not unwanted.match(name)}
    folders = [str(Path(__file__).parents[1]), *filter(None, sys.path)]  # graphs import `support`
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(folders),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_until_ready(server: Server) -> None:
    give_up = time.monotonic() + 180
    while server.process.poll() is None and time.monotonic() < give_up:
        with suppress(urllib.error.URLError, TimeoutError):
            urllib.request.urlopen(f"{server.url}/ok", timeout=5).close()  # noqa: S310
            return
        time.sleep(0.1)
    pytest.fail(f"the server does not answer:\n{server.log.read_text(encoding='utf-8')[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    for mildness in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, mildness)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
            return

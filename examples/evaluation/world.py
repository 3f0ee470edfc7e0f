"""The simulators' side of a shift: their own Python, the process that speaks to them, their tools.

`bfcl-eval` needs packages that this one does not, so it is installed in an environment of its own
and never imported here. What is said to the process stands in `worker.py`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

PACKAGES = ("bfcl-eval==2026.3.23", "mpmath==1.3.0")
"""The benchmark's own, and what its simulators import; the rest of its needs is for its models."""
WORKER = Path(__file__).with_name("worker.py")
TIMEOUT = 300


class WorldError(Exception):
    """The simulators can not be reached."""


class RefusedError(Exception):
    """A simulator refused a call."""


def prepare_environment(folder: Path) -> Path:
    """Return the Python that has `bfcl-eval`, which is installed into a folder unless it is there.

    Args:
        folder: Where the environment is made.

    Raises:
        WorldError: When it can not be installed.
    """
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    ready = folder / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == "\n".join(PACKAGES):
        return python
    print(f"installing {PACKAGES[0]} into {folder}", file=sys.stderr)
    try:
        venv.create(folder, clear=True, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # noqa: S603
        reason = "" if done.returncode == 0 else _last_line(done.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    if reason:
        msg = (
            f"{PACKAGES[0]} could not be installed from the package index: {reason}. Where the "
            "index is out of reach, name a Python that has the package with --python"
        )
        raise WorldError(msg)
    ready.write_text("\n".join(PACKAGES), encoding="utf-8")
    return python


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()
    return lines[-1] if lines else "no reason was given"


class World:
    """A process with simulators, one task open at a time.

    Args:
        command: What starts it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = shlex.join(command)
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
            )
        except OSError as error:
            msg = f"`{self._command}` does not start: {error}"
            raise WorldError(msg) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()

    def tasks(self, system: str, without: Sequence[str]) -> list[dict[str, Any]]:
        """Return the tasks of a simulator with their ground truth, some calls left out."""
        found: list[dict[str, Any]] = self._ask("tasks", system=system, without=list(without))
        return found

    def tools(self, systems: Sequence[str]) -> list[dict[str, Any]]:
        """Return name, description and parameters of each tool."""
        found: list[dict[str, Any]] = self._ask("tools", systems=list(systems))
        return found

    def open(self, task: str) -> None:
        """Begin a task anew."""
        self._ask("open", task=task)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool.

        Raises:
            RefusedError: When the simulator refuses it.
        """
        return str(self._ask("call", name=name, arguments=arguments))

    def grade(self, calls: Sequence[dict[str, Any]]) -> list[str]:
        """Return what differs from the state that these calls lead to."""
        found: list[str] = self._ask("grade", calls=list(calls))
        return found

    def _ask(self, do: str, **arguments: Any) -> Any:
        line = json.dumps({"do": do, **arguments}, default=str)
        with self._lock:
            reply = self._exchange(f"{line}\n")
        if not reply:
            msg = f"`{self._command}` ended; run it by itself to see why"
            raise WorldError(msg)
        told = json.loads(reply)
        if "error" in told:
            raise RefusedError(told["error"])
        return told["ok"]

    def _exchange(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except OSError:
            return ""

"""Programs in a Python of their own, with `support` on their path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, and see that it ends well.

    Args:
        options: Those of `subprocess.run`; `env` is added to what this process has.
    """
    folders = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": folders, **options.pop("env", {})}
    given: Any = {"env": env, "encoding": "utf-8", "capture_output": True, "timeout": 250}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, check=False, **given, **options)  # noqa: S603 our own programs
    assert done.returncode == 0, done.stderr
    return done

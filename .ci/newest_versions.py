"""Print the versions of LangChain and LangGraph that are installed, and refuse older lines."""

from __future__ import annotations

import sys
from importlib.metadata import version

LINES = {"langchain": (1, 5), "langchain-core": (1, 8), "langgraph": (1, 2)}
"""The newest line of each that the project is tested with, beside the lowest versions."""


def main() -> int:
    """Return how many packages are of an older line than the newest one."""
    found = {name: version(name) for name in LINES}
    print(*(f"{name} {number}" for name, number in found.items()), sep=", ")  # noqa: T201
    older = [
        name
        for name, number in found.items()
        if tuple(map(int, number.split(".")[:2])) < LINES[name]
    ]
    if older:
        print(f"older than the newest line: {', '.join(older)}", file=sys.stderr)  # noqa: T201
    return len(older)


if __name__ == "__main__":
    raise SystemExit(main())

"""The examples with a key of one provider alone, against a server that answers as providers do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.pages import ROOT
from support.wire_server import Today, serve

RUNS = [
    ("quickstart", "OPENAI_API_KEY"),
    ("agent", "GOOGLE_API_KEY"),
    ("deep_agent", "ANTHROPIC_API_KEY"),
    ("state_graph", "ANTHROPIC_API_KEY"),
    ("stream_events", "OPENAI_API_KEY"),
    ("studio/graphs", "GOOGLE_API_KEY"),
]
"""Every key, and every example: each run brings a provider's client anew."""
PLAY = """
from graphs import agent, middleware_agent, own_graph

said = {"messages": [("user", "My boat is red. " * 80), ("user", "What is red?")]}
print(*(graph.invoke(said) for graph in (agent, middleware_agent)))
"""
"""What a person does in Studio."""


@pytest.fixture(scope="module")
def provider() -> Iterator[Today]:
    with serve(Today()) as provider:
        yield provider


@pytest.mark.slow
@pytest.mark.parametrize(("example", "key"), RUNS)
def test_an_example_runs_and_observes_with_one_key(provider: Today, example: str, key: str) -> None:
    provider.requests.clear()
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    places = {
        "GOOGLE_GEMINI_BASE_URL": provider.url,
        "OPENAI_API_BASE": f"{provider.url}/v1",
        "ANTHROPIC_BASE_URL": provider.url,
    }
    where, _, name = f"{ROOT}/examples/{example}.py".rpartition("/")
    done = subprocess.run(  # noqa: S603
        [sys.executable, *(["-c", PLAY] if name == "graphs.py" else [name])],
        cwd=where,
        env={**kept, **places, key: "dummy", "PYTHONUTF8": "1"},
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "observation failed" not in done.stderr
    assert provider.remembered

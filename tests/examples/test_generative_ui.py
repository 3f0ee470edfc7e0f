"""The generative-UI example: what it pushes, and that its files fit each other."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

EXAMPLE = Path(__file__).parents[2] / "examples" / "generative_ui"


def load() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "graph.py"))


def test_the_panel_is_pushed_and_replaced() -> None:
    example = load()
    graph = example["builder"].compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    pushed: list[Any] = []
    for number in range(5):
        said = {"messages": [("user", f"My sister Ana likes trip {number} to Cork. " * 8)]}
        parts = list(graph.stream(said, config, stream_mode="custom"))
        pushed += [part for part in parts if part["type"] == "ui"]
    assert len(pushed) == 5
    state = graph.get_state(config).values
    [kept] = state["ui"]
    assert kept == pushed[-1]
    assert kept["name"] == example["PANEL"]
    assert kept["metadata"]["message_id"] == state["messages"][-1].id
    assert any("Ana likes trip" in line for line in kept["props"]["lines"])
    assert kept["props"]["messages"]["threshold"] == 120


def test_what_is_pushed_fits_the_component_that_the_server_bundles() -> None:
    example = load()
    named = json.loads((EXAMPLE / "langgraph.json").read_text(encoding="utf-8"))
    assert named["ui"].keys() == named["graphs"].keys()
    path, _, name = named["graphs"]["agent"].partition(":")
    assert (EXAMPLE / path).samefile(EXAMPLE / "graph.py")
    assert name in example
    component = (EXAMPLE / named["ui"]["agent"]).read_text(encoding="utf-8")
    exported = re.search(r"export default \{(.*?)\}", component, re.DOTALL)
    assert exported is not None
    assert f'"{example["PANEL"]}"' in exported[1]
    [kind] = re.findall(r"type Props = \{(.*?)\n\};", component, re.DOTALL)
    sent = example["builder"].compile().invoke({"messages": [("user", "Hi")]})["ui"][0]["props"]
    assert set(re.findall(r"^  (\w+):", kind, re.MULTILINE)) == set(sent)

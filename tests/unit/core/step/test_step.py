"""A step is made once: its window is opened, and its view made, no more often than it changes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import InlineBuffering, ObservationalMemory, features
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step import step as step_module
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.testing import ScriptedChatModel

FOLDER = Path(features.__file__).parents[1]


def counted(monkeypatch: pytest.MonkeyPatch, *names: str) -> Counter[str]:
    """How often functions are called that a step works things out with."""
    calls: Counter[str] = Counter()

    def count(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*args, **options)

        return call

    for name in names:
        monkeypatch.setattr(step_module, name, count(name, getattr(step_module, name)))
    return calls


@pytest.mark.parametrize("keeps_archive", [False, True])
def test_an_idle_step_opens_the_window_and_makes_the_view_once(
    monkeypatch: pytest.MonkeyPatch, *, keeps_archive: bool
) -> None:
    archive = "sqlite://" if keeps_archive else None
    memory = ObservationalMemory(ScriptedChatModel(), archive=archive, buffering=InlineBuffering())
    said: list[BaseMessage] = [HumanMessage("Hello", id="h1")]
    record = memory.step(None, said, thread_id="t").record
    said += [AIMessage("Hi", id="a1"), HumanMessage("And?", id="h2")]
    calls = counted(monkeypatch, "open_window", "make_view")
    memory.step(record, said, thread_id="t")
    assert calls == {"open_window": 1, "make_view": 1}


def list_kinds(kind: type[Feature]) -> list[type[Feature]]:
    """All features below a class, without those that are made for others to extend."""
    below = kind.__subclasses__()
    own = [each for each in below if "is_base" not in vars(each)]
    return own + [deeper for each in below for deeper in list_kinds(each)]


def profile(act: Callable[[], object]) -> Counter[str]:
    """Count the package's functions that are called, by folder.

    The interpreter tells of them; models for tests are left out.
    """
    entered: Counter[str] = Counter()

    def find_folder(frame: FrameType) -> str:
        path = Path(frame.f_code.co_filename)
        return path.relative_to(FOLDER).parts[0] if path.is_relative_to(FOLDER) else "testing"

    def note(frame: FrameType | None, event: str, _: Any) -> None:
        if frame is None or event != "call" or (folder := find_folder(frame)) == "testing":
            return
        entered[folder] += 1

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return entered


def test_a_feature_that_has_nothing_to_do_is_never_entered() -> None:
    memory = ObservationalMemory(ScriptedChatModel(), buffering=InlineBuffering())
    said: list[BaseMessage] = [HumanMessage("Hello", id="h1")]
    record = memory.step(None, said, thread_id="t").record
    said += [AIMessage("Hi", id="a1"), HumanMessage("And?", id="h2")]
    memory.step(record, said, thread_id="t")  # some things are read once for each process
    entered = profile(lambda: memory.step(record, said, thread_id="t"))
    # One looks at the answers of each turn, and nobody can switch it off.
    assert entered["features"] <= 2


class _Names(Feature):
    """Gives a thread its title within a step, as a person does before one."""

    name = "names"

    @classmethod
    def build(cls, setup: Setup) -> Feature:
        del setup
        return cls()

    def collect(self, step: Step) -> EffectFlow[None]:
        event: Any = {"type": "titled", "by": "person", "id": "act-1", "title": "Garden"}
        step.apply([{**event, "at": "2026-03-02T09:00:00Z"}])
        yield from ()


def test_a_feature_is_entered_in_the_step_that_gives_it_something_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(features, "FEATURES", (_Names, *features.FEATURES))
    memory = ObservationalMemory(ScriptedChatModel(), buffering=InlineBuffering())
    done = memory.step(None, [HumanMessage("Hello", id="h1")], thread_id="t")
    told = [part["data"] for part in done.events if part["type"] == "data-om-thread-update"]
    assert [each["newTitle"] for each in told] == ["Garden"]


def test_the_table_has_each_feature_once() -> None:
    own = {kind for kind in list_kinds(Feature) if kind.__module__.startswith("langgraph_om.")}
    assert set(features.FEATURES) == own
    names = [feature.name for feature in features.FEATURES]
    assert len(names) == len(set(names))

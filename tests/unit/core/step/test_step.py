"""A step is made once: its window is opened, and its view made, no more often than it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import InlineBuffering, ObservationalMemory, features
from langgraph_om.core.step import step as step_module
from langgraph_om.core.step.step import Feature
from langgraph_om.testing import ScriptedChatModel

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


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


@pytest.mark.needs("archive")
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


@pytest.mark.needs("steering")
def test_a_feature_that_is_off_is_never_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    def enter(feature: Feature, *_: Any) -> Any:
        entered.append(feature.name)
        yield from ()

    for kind in list_kinds(Feature):
        for hook in ("enter", "collect", "before_actor", "after"):
            if hook in vars(kind):
                monkeypatch.setattr(kind, hook, enter)
    memory = ObservationalMemory(ScriptedChatModel(), buffering=InlineBuffering())
    memory.step(None, [HumanMessage("Hello", id="h1")], thread_id="t")
    # These have no option, so nobody can switch them off.
    assert set(entered) <= {"named_threads", "steering", "pinned", "cache_watch"}


def test_the_table_has_each_feature_once() -> None:
    own = {kind for kind in list_kinds(Feature) if kind.__module__.startswith("langgraph_om.")}
    assert set(features.FEATURES) == own
    names = [feature.name for feature in features.FEATURES]
    assert len(names) == len(set(names))

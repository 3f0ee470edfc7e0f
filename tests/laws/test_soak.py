"""The soak: that it finds what it looks for, and nothing in a few turns."""

from __future__ import annotations

from typing import Any

import pytest

from support.laws import world
from support.laws.laws import DOUBLED, LOST
from support.laws.soak import Episode, Figures, soak


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["thread", "resource"])
def test_few_random_turns_break_no_law(scope: str) -> None:
    figures = soak(scope, 1, minutes=2, worlds=2, turns=25)
    assert figures.first == ""
    assert figures.counts["turns"] == 50
    assert figures.counts["forks"] > 0
    assert str(figures).endswith("violations 0, losses 0, unread 0, doubles 0, uncovered 0")


@pytest.mark.slow
def test_same_seed_is_the_same_world() -> None:
    traces = []
    for _ in range(2):
        episode = Episode("resource", 1, 7, Figures())
        episode.run(12)
        traces.append(episode.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 12


def test_broken_law_is_counted_and_told_with_what_happened(monkeypatch: Any) -> None:
    problems = [f"m1 {LOST}", f"m2 {DOUBLED} 2 times"]
    monkeypatch.setattr(world, "broken", lambda *_: problems)
    figures = soak("thread", 5, minutes=2, worlds=2, turns=3)
    counts = figures.counts
    assert [counts[kind] for kind in Figures.WRONG] == [2, 2, 0, 2, 0]
    first = figures.first.splitlines()
    assert first[0].startswith("world 0 of seed 5: Rules(")
    assert first[-2:] == problems
    assert [line.split(":")[0] for line in figures.worlds] == ["world 0", "world 1"]


def test_what_a_deletion_leaves_is_told(monkeypatch: Any) -> None:
    home = world.World(world.Rules(storage="archive", buffering="off"))
    thread, worker = home.threads["a"], home.workers[0]
    home.talk(thread, worker, 12)
    monkeypatch.setattr(type(worker.memory), "delete_thread", lambda *_, **__: [])
    with pytest.raises(AssertionError, match="words of u0 is in om_messages"):
        home.delete([thread], worker, None)
    home.close()

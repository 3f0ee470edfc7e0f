"""Law 7: every door, sync or async, gives the same record, the same events and the same prompts.

The same random conversation is held through all doors, with buffering inside of the step, where
nothing depends on when a job ends. `create_memory_agent` is the one that the others are compared
to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.agents import dumped
from support.examples import EXAMPLES
from support.laws.cast import CONDENSES, MOODS
from support.laws.doors import DOORS
from support.laws.world import Rules, World
from support.real_ids import Naming

Turn = tuple[int, list[list[int]], str, str]
"""Words of the request, of the results of its tools, and the moods of both models."""

turns = st.lists(
    st.tuples(
        st.sampled_from([1, 12, 40, 90, 250]),
        st.lists(st.lists(st.sampled_from([2, 60, -4]), min_size=1, max_size=2), max_size=2),
        st.sampled_from(["short", "long", "two days", *MOODS]),
        st.sampled_from([CONDENSES, CONDENSES, *MOODS]),
    ),
    min_size=1,
    max_size=8,
)
LONG_TALK: list[Turn] = [(60, [], "long", CONDENSES)] * 9
TALKS = (LONG_TALK, LONG_TALK[:5])
"""One long enough for a reflection, and a shorter one."""


def held(rules: Rules, said: list[Turn], *, is_async: bool) -> dict[str, Any]:
    """Hold a conversation through one door; tell what came of it."""
    world = World(rules, workers=1)
    threads, (worker,) = (
        [world.threads[name] for name in "ab"[: 1 + rules.is_shared]],
        world.workers,
    )
    parts: list[Any] = []
    try:
        for number, (size, rounds, observer, reflector) in enumerate(said):
            thread = threads[number % len(threads)]
            world.oracle.observer, world.oracle.reflector = observer, reflector
            parts += world.talk(thread, worker, size, rounds=rounds, is_async=is_async)
            world.clock.advance(hours=1 if rules.marks_gaps else 0, minutes=10)
        state = worker.graph.get_state(threads[0].config).values
    finally:
        world.close()
    return {
        "record": state["om"],
        "parts": parts,
        "messages": dumped(state["messages"]),
        "prompts": [dumped(_without_system(prompt)) for prompt in world.actor.prompts],
        "questions": world.oracle.asked,
    }


@cache
def expected_of(rules: Rules, at: int) -> dict[str, Any]:
    """What comes of one of `TALKS` behind the door that the others are compared to."""
    return held(replace(rules, door="agent"), TALKS[at], is_async=False)


def _without_system(prompt: list[Any]) -> list[Any]:
    """The prompt without the agent's own system text, which `memory.step` is not given here."""
    return [message for message in prompt if message.type != "system"]


SETTINGS = [Rules(buffering="inline", storage=kind) for kind in ("checkpoints", "evicting")]
SETTINGS.append(
    Rules(buffering="inline", storage="archive", scope="resource", naming=Naming(1), thinks=True)
)
SETTINGS.append(
    Rules(thinks=True, buffering="off", shares_budget=True, recalls=True, max_input_tokens=2000)
)
SETTINGS.append(Rules(buffering="inline", thinks=True, marks_gaps=True, hints=False, knows=True))
SETTINGS.append(Rules(buffering="inline", thinks=True, activates_after=300))
SETTINGS.append(Rules(buffering="inline", token_budget=300))


TALKED = [
    (SETTINGS[0], TALKS[0]),
    (SETTINGS[2], TALKS[1]),
    (SETTINGS[3], TALKS[1]),
    (SETTINGS[4], TALKS[1]),
]


def hold_each(test: Callable[..., None]) -> Callable[..., None]:
    """Hold the first of the talks by default, and all of them where `OM_EXAMPLES` asks for more."""
    for rules, said in TALKED if EXAMPLES else TALKED[:1]:
        test = example(rules, said)(test)
    return test


@pytest.mark.parametrize(
    ("door", "mode"), [(door, ("async", "sync")[at % 2]) for at, door in enumerate(DOORS)]
)
@hypothesis_settings(
    deadline=None, max_examples=EXAMPLES or 1, phases=[*Phase] if EXAMPLES else [Phase.explicit]
)
@hold_each
@given(st.sampled_from(SETTINGS), turns)
def test_every_door_remembers_the_same(
    door: str, mode: str, rules: Rules, said: list[Turn]
) -> None:
    if said in TALKS:
        expected = expected_of(rules, TALKS.index(said))
    else:
        expected = held(replace(rules, door="agent"), said, is_async=False)
    found = held(replace(rules, door=door), said, is_async=mode == "async")
    for each in (found, expected):  # the agent's own prompt and tools leave previews another room
        each["record"]["token_cache"] = {**each["record"]["token_cache"], "counter": ""}
    for key in expected:
        assert found[key] == expected[key], f"another {key}"
    assert said != LONG_TALK or found["record"]["generation"] > 0

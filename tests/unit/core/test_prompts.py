"""Prompts are product: their wording is reviewed as snapshots, their slots and form are held here.

After a change of wording run this file once with `OM_UPDATE_PROMPTS=1` and review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import langgraph_om.features  # noqa: F401 it adds the prompts of features
from support.inside import fill, load, names, parse_edits

SNAPSHOTS = Path(__file__).parent / "snapshots" / "prompts"

PROGRESS = {
    "freed_tokens": "9700",
    "refused": "Left out of them:\n- 14: its items have no number '12'",
}
CUSTOM = "Note every allergy and every medicine the user mentions."

HINTS = {
    "hints": load("observer_hints"),
    "hints_example": load("observer_hints_example"),
    "ends": load("standing_ends"),
}
THREADS_HINTS = {
    "hints_rule": load("observer_threads_hints"),
    "first_hints": load("observer_threads_hints_first"),
    "second_hints": load("observer_threads_hints_second"),
}
MOOD = "4. `<mood>`: how merry the user is."
MORE = {**HINTS, "hints": "\n\n".join(filter(None, (HINTS["hints"], MOOD)))}
OBSERVER_FORM = fill("observer_output", **MORE)
SECTION_FORM = fill("observer_output", **HINTS)

SAMPLES: dict[str, dict[str, str]] = {
    "actor_hints": {},
    "actor_instructions": {"hints": load("actor_hints")},
    "actor_threads": {},
    "continuation": {},
    "pinned_messages": {
        "messages": '<pinned-message id="m1" role="user">\nThe contract\n</pinned-message>'
    },
    "standing_ends": {},
    "standing_held": {"instructions": "S1: Never book a flight before you have asked me."},
    "standing_rules": {"rules": '* Mar 3, 2026: "Never book a flight before you have asked me."'},
    "state_in_sight": {"blocks": '<state name="todos">\n- [~] Book the inn\n</state>'},
    "trimmed": {
        "count": "12",
        "ranges": "_range: `h3:a9`_",
        "how": "Call `recall` with one of these two ids as `cursor` to read them.",
    },
    "preview": {"characters": "151,000", "cursor": '"h4"', "part": "0", "offset": "6000"},
    "shortened_log": {
        "count": "40",
        "how": "Call `recall` in the mode `search` to find what they were made from.",
    },
    "preview_unread": {"characters": "151,000"},
    "other_conversations": {
        "conversations": '<other-conversation id="t2">\nUser (09:00): Which tent?\n'
        "</other-conversation>"
    },
    "recalled_messages": {
        "messages": '<recalled-messages thread="t2">\nDate: Mon, May 4, 2026\n'
        "User (09:12) [m1]: Which tent?\n</recalled-messages>"
    },
    "observer": {"output_format": OBSERVER_FORM, "custom": CUSTOM},
    "observer_hints": {},
    "observer_hints_example": {},
    "actor_hint": {"tag": "current-task"},
    "observer_threads_hint": {"hint": "current task"},
    "observer_threads_hints": {},
    "observer_threads_hints_first": {},
    "observer_threads_hints_second": {},
    "observer_output": MORE,
    "observer_log_values": {
        "log": "<observations>\n* User cooks for six.\n</observations>",
        "forms": '{"profile": {"type": "object"}}',
        "known": '{"profile": null}',
    },
    "observer_retry": {
        "problem": "the answer has no `<observations>` block.",
        "least": "At least one item says what was talked about.",
    },
    "observer_task": {
        "timezone": "America/New_York",
        "previous_observations": (
            "<previous-observations>\nDate: Mar 2, 2026\n"
            "- User is allergic to walnuts\n</previous-observations>"
        ),
        "hints": "<current-task>\nPlan Saturday's dinner.\n</current-task>",
        "conversation": "Date: Mar 3, 2026\nUser (09:12): Make it six people, Ilse is coming too.",
    },
    "observer_threads_output": {"section_form": SECTION_FORM, **THREADS_HINTS},
    "observer_threads_retry": {
        "problem": "the answer holds no `<thread id=...>` section.",
        "least": "At least one item says what was talked about.",
    },
    "observer_threads_task": {
        "timezone": "America/New_York",
        "previous_observations": (
            '<previous-observations>\n<thread id="a1">\nDate: Mar 2, 2026\n'
            "- User is allergic to walnuts\n</thread>\n</previous-observations>"
        ),
        "threads": (
            '<thread id="a1">\n<current-task>Plan the dinner.</current-task>\n'
            "Date: Mar 3, 2026\nUser (09:12): Make it six people.\n</thread>\n\n"
            '<thread id="b2">\nDate: Mar 3, 2026\nUser (09:30): Rename `rates.py`.\n</thread>'
        ),
    },
    "observer_title": {},
    "title": {
        "conversation": "User: Which tent for March?\nAssistant: A tunnel tent.",
        "custom": "Name the product where there is one.",
    },
    "recall": {
        "custom": "Look up every booking number before you name it.",
    },
    "working_memory": {
        "purpose": load("working_memory_text"),
        "content": "# About the user\n\n- Name: Mirela",
    },
    "working_memory_json": {},
    "working_memory_template": {},
    "working_memory_text": {},
    "observer_values": {
        "forms": '{"profile": {"type": "object", "properties": {"name": {"type": "string"}}}}',
        "known": '{"profile": {"name": "Sam"}}',
    },
    "reflector": {"custom": "Keep doses with their units."},
    "reflector_progress": PROGRESS,
    "reflector_task": {
        "observations": "Date: Mar 2, 2026\n[1 ~12] * 🔴 (18:05) User is allergic to walnuts",
        "hints": "<current-task>Plan Saturday's dinner.</current-task>",
        "threads": "The log is about several conversations.",
        "progress": fill("reflector_progress", **PROGRESS),
        "log_tokens": "41200",
        "free_tokens": "12300",
    },
    "reflector_threads": {},
    "reflector_retry": {"problem": "- 14: its items have no number '12'"},
}

MOST_TOKENS = 300
LONGER = {  # of the file alone, its slots open
    "actor_instructions": 350,
    "observer": 1400,
    "observer_output": 400,
    "reflector": 950,
}


def test_every_prompt_has_a_sample_and_a_snapshot() -> None:
    assert names() == sorted(SAMPLES)
    if not os.environ.get("OM_UPDATE_PROMPTS"):
        assert sorted(path.stem for path in SNAPSHOTS.glob("*.md")) == sorted(SAMPLES)


@pytest.mark.parametrize("name", names())
def test_filled_prompt_equals_its_snapshot(name: str) -> None:
    filled = fill(name, **SAMPLES[name]) + "\n"
    path = SNAPSHOTS / f"{name}.md"
    if os.environ.get("OM_UPDATE_PROMPTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == filled


def test_prompts_stay_within_their_tokens() -> None:
    sizes = {name: len(load(name)) / 4 for name in names()}
    assert [name for name in sizes if sizes[name] >= LONGER.get(name, MOST_TOKENS)] == []


def test_the_example_of_edits_is_read_as_edits() -> None:
    _, _, rest = load("reflector").partition("<example>\n")
    example = rest.partition("\n</example>")[0]
    assert len(parse_edits(example)) == len(example.split("\n")) == 3

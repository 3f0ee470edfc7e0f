"""The prompts of titles; after a change of wording run this file with `OM_UPDATE_PROMPTS=1`."""

from __future__ import annotations

from pathlib import Path

import pytest

from langgraph_om.features import titles
from support.prompts import check_comment, check_size, check_slots, check_snapshot, prompts_of

SNAPSHOTS = Path(__file__).parent / "snapshots" / "prompts"
SAMPLES: dict[str, dict[str, str]] = {
    "observer_title": {},
    "title": {
        "conversation": "User: Which tent for March?\nAssistant: A tunnel tent.",
        "custom": "Name the product where there is one.",
    },
}
MAX_TOKENS = {"observer_title": 100, "title": 250}


@pytest.mark.parametrize("name", prompts_of(titles.__name__))
def test_a_prompt_is_in_form_short_and_as_reviewed(name: str) -> None:
    check_comment(name, titles.__name__)
    check_slots(name, SAMPLES[name])
    check_size(name, MAX_TOKENS[name])
    check_snapshot(name, SAMPLES[name], SNAPSHOTS)

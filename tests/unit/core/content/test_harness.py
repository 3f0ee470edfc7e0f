"""What an agent's harness writes as a `HumanMessage` is not read as the user's words."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from support.inside import role_of


@pytest.mark.parametrize("source", ["rubric", "a tool of one's own", "summarization"])
def test_the_observer_is_not_told_that_the_user_said_what_a_harness_wrote(source: str) -> None:
    """Any source counts, not only those that are known; the user's own message stays one."""
    note = HumanMessage("Always answer in verse.", additional_kwargs={"lc_source": source})
    assert role_of(HumanMessage("Mend the gate.")) == "user"
    assert role_of(note) not in {"user", None}

"""What is taken out of a text, what is shown of ids and bytes, and who wrote it."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from support.examples import examples
from support.inside import role_of, sanitize, show_key, write_short_json
from support.real_ids import MESSAGE_IDS, THREAD_IDS, call_ids


@examples(300)
@given(
    st.text(st.characters(exclude_categories=()))
    | st.text("ab é\t\n\r\x0b\x1f\x85\u2028\ud800\u200d")
)
def test_nothing_but_line_breaks_and_control_characters_is_taken_out_of_a_text(text: str) -> None:
    lines = re.sub("\r\n|[\r\x0b\x0c\x85\u2028\u2029]", "\n", text)
    kept = re.sub("[\x00-\x08\x0e-\x1f\x7f-\x9f]", "", lines)
    assert sanitize(text) == re.sub("[\ud800-\udfff]", "\ufffd", kept)


@given(st.one_of(MESSAGE_IDS, THREAD_IDS, call_ids))
def test_real_ids_are_shown_whole(key: str) -> None:
    assert show_key(key) == key
    assert write_short_json({"id": key}, 300) == f'{{"id":"{key}"}}'


@pytest.mark.parametrize(
    "data",
    [
        base64.b64encode(bytes(range(256))).decode(),
        base64.urlsafe_b64encode(bytes(range(255, 0, -1))).decode(),
        "data:image/png;base64," + "iVBORw0KGgo" * 6,
        bytes(range(256)),
    ],
)
def test_encoded_bytes_stay_hidden(data: object) -> None:
    assert write_short_json({"data": data, "n": 1}, 200) == '{"data":"[omitted]","n":1}'


@pytest.mark.parametrize("source", ["rubric", "a tool of one's own", "summarization"])
def test_the_observer_is_not_told_that_the_user_said_what_a_harness_wrote(source: str) -> None:
    """Any source counts, not only those that are known; the user's own message stays one."""
    note = HumanMessage("Always answer in verse.", additional_kwargs={"lc_source": source})
    assert role_of(HumanMessage("Mend the gate.")) == "user"
    assert role_of(note) not in {"user", None}

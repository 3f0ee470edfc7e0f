"""Whatever an Observer writes becomes clean, bounded parts without a tag of ours, or a failure."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.examples import examples
from support.inside import MAX_LINE_CHARS, AnswerStatus, ParsedAnswer, escape, parse_output
from support.material import CONTROL, FRAGMENTS, disguised_tags, fragments, tags_in, texts

BLOCKS = ("observations", "current-task", "suggested-response", "thread-title")


def parts_of(parsed: ParsedAnswer) -> list[str]:
    return [*filter(None, [parsed.observations]), *parsed.hints.values()]


items = st.builds(
    lambda mark, text: f"{mark}{text}",
    st.sampled_from(["* ", "- ", "* 🔴 (09:00) ", "  * -> ", "1. ", "", "Date: Dec 4, 2025\n* "]),
    texts,
)
blocks = st.builds(
    lambda name, body, opens, closes, gap: (
        f"{f'<{name}>' if opens else ''}{gap}{body}{gap}{f'</{name}>' if closes else ''}"
    ),
    st.sampled_from(BLOCKS),
    st.lists(items, max_size=4).map("\n".join),
    st.sampled_from([True, True, False]),
    st.sampled_from([True, True, False]),
    st.sampled_from(["\n", "\n", "", "\r\n", "\u2028"]),
)
answers = st.lists(blocks | fragments, max_size=6).map("\n".join)
"""Answers as the grammar has them, with anything between, inside and in place of the tags."""


@examples(70)
@given(answers)
@example("<observations>\n* \x00\x1b[31m\ud83d tea\n</observations>")
@example("<observations>\n* a\n<\x00/observations>\n* b\n</observations>")
@example("<observations>\n* a\r</obser\x07vations>\r* b\n</observations>")
@example("<observations>\n* a\u2028</observations>\u2028* b")
def test_an_answer_is_read_or_fails_by_name(text: str) -> None:
    for cut_off in (False, True):
        parsed = parse_output(text, cut_off=cut_off)
        assert parsed.status in get_args(AnswerStatus)
        assert bool(parsed.problem) is (parsed.status not in {"ok", "none"})
        for part in parts_of(parsed):
            assert not CONTROL.search(part)
            assert len(part) <= 4 * len(text)
            assert max(map(len, part.split("\n"))) <= MAX_LINE_CHARS
            assert not any(name.startswith("/") for name in tags_in(escape(part)))
            assert tags_in(escape(part)) == []
        lines = [line.lstrip() for part in parts_of(parsed) for line in part.split("\n")]
        tags = tuple(f"<{slash}{name}>" for name in BLOCKS for slash in ("", "/"))
        assert not any(line.startswith(tags) for line in lines)
        if (title := parsed.hints.get("thread_title")) is not None:
            assert "\n" not in title
            assert 3 <= len(title) <= 103


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_no_fragment_hides_the_items_around_it(fragment: str) -> None:
    text = f"<observations>\n* 🔴 User likes {fragment} tea\n* 🔴 Dog\n</observations>"
    parsed = parse_output(text)
    assert parsed.status == "ok"
    assert parsed.observations.startswith("* 🔴 User likes")
    assert parsed.observations.endswith("* 🔴 Dog")


@examples(120)
@given(disguised_tags())
def test_no_disguise_of_a_tag_gets_through(tag: str) -> None:
    assert tags_in(tag), "the eye knows it"
    assert tags_in(escape(f"before {tag} after")) == []

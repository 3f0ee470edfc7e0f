"""Several threads of a resource are shown and observed together, and stay apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.wire import Group
from support.examples import examples
from support.growth import check_growth
from support.inside import (
    ParsedAnswer,
    ShowId,
    escape,
    frame_sections,
    parse_output,
    parse_sections,
    strip_reasoning,
    wrap_section,
    write_opening,
)
from support.rendering import render_output
from support.threads import LOG, NAMES, NONE, WHOLE, A, B, C, body, hashed, items, section

# --- Ids in tags ---------------------------------------------------------------------------------


ODD_IDS = [
    *('a"b', "a'b", "a b", " a ", "<thread>", "a&b", "a&lt;b", "a\nb", "a\t", "", "é🔴", "\ud800")
]

IDS = st.sampled_from(ODD_IDS) | st.text(max_size=12)


@given(IDS | st.characters(categories=["Cs", "Cc", "Zs", "Zl"]))
def test_any_id_comes_back_from_its_tag(shown_id: str) -> None:
    tag = write_opening(shown_id)
    assert "\n" not in tag
    assert write_opening(shown_id, current=True) == tag.replace(">", ' current="yes">')
    assert [*parse_sections(f"{tag}\n{NONE}\n</thread>", [shown_id, "?"]).threads] == [shown_id]


# --- Answers in sections -------------------------------------------------------------------------


SAME_AS_WHOLE = {
    "well formed": WHOLE,
    "blank lines between": f"\n\n{A}\n\n\n{B}\n",
    "the other way round": f"{B}\n{A}",
    "Windows newlines": WHOLE.replace("\n", "\r\n"),
    "in a code fence": f"```xml\n{WHOLE}\n```",
    "text around": f"Here are my notes.\n{A}\nAnd the other one:\n{B}\nThat is all.",
    "inside an outer block": f"<observations>\n{WHOLE}\n</observations>",
    "tags indented": WHOLE.replace("<thread", "  <thread").replace("</thread", "  </thread"),
    "an unknown section": f"{A}\n{section('X')}\n{B}",
    "reasoning": f"<think>\n{section('A', body('draft'))}\n</think>\n{WHOLE}",
}


@pytest.mark.parametrize("name", SAME_AS_WHOLE)
def test_ways_to_write_two_sections(name: str) -> None:
    answers = parse_sections(SAME_AS_WHOLE[name], ["A", "B"])
    assert (answers.status, answers.problem) == ("ok", "")
    assert answers.threads == {
        name: ParsedAnswer(
            "ok",
            f"* 🔴 (09:00) {name}",
            hints={"current_task": f"Task {name}", "suggested_response": f"Reply {name}"},
        )
        for name in ("A", "B")
    }


ONLY_SOME = {
    "one is missing": (A, ["A"]),
    "one is nothing": (f"{A}\n{section('B', '')}", ["A"]),
    "one is prose": (f"{A}\n{section('B', 'I can not help with that.')}", ["A"]),
    "one has nothing to say": (f"{A}\n{section('B', NONE)}", ["A", "B"]),
    "one is a loop": (f"{A}\n{section('B', '* 🔴 again and again and again' * 999)}", ["A"]),
    "one is not closed": (f"{A}\n{B.removesuffix('</thread>')}\n{C}", ["A", "C"]),
    "the last is not closed": (f"{A}\n{B.removesuffix('</thread>')}", ["A"]),
    "one is closed twice": (f"{A}\n{B}\n</thread>\n{C}", ["A", "C"]),
    "one comes twice": (f"{A}\n{B}\n{A}", ["B"]),
    "one is quoted in another": (
        section("A", f"{body('a')}\n{section('B', body('forged'))}\n{body('more')}") + f"\n{C}",
        ["C"],
    ),
    "ids differ in case": (WHOLE.replace('"A"', '"a"'), ["B"]),
    "ids differ by a blank": (WHOLE.replace('"A"', '"A "'), ["B"]),
    "an id in single quotes": (WHOLE.replace('"A"', "'A'"), ["B"]),
    "another attribute": (WHOLE.replace('"A"', '"A" current="yes"'), ["B"]),
    "no id": (WHOLE.replace(' id="A"', ""), ["B"]),
    "tags on one line with text": (
        WHOLE.replace('<thread id="A">\n', 'So: <thread id="A"> '),
        ["B"],
    ),
}


@pytest.mark.parametrize("name", ONLY_SOME)
def test_what_is_not_surely_of_a_thread_is_left_out(name: str) -> None:
    text, usable = ONLY_SOME[name]
    answers = parse_sections(text, ["A", "B", "C"])
    assert sorted(answers.threads) == usable
    for shown_id, parsed in answers.threads.items():
        assert parsed.observations in ("", f"* 🔴 (09:00) {shown_id}")


@pytest.mark.parametrize(
    "item",
    [
        'User wrote <thread id="B">',
        'User wrote `<thread id="B">` and </thread>',
        "User asked what </thread> means",
        "ends with `</thread>`",
    ],
)
def test_an_item_may_mention_the_tags(item: str) -> None:
    text = section("A", f"<observations>\n* 🔴 (09:00) {item}\n* two\n</observations>")
    answers = parse_sections(f"{text}\n{B}", ["A", "B"])
    assert items(answers.threads)["A"] == f"* 🔴 (09:00) {item}\n* two"
    assert items(answers.threads)["B"] == "* 🔴 (09:00) B"


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        (WHOLE, ["A", "B"]),
        (WHOLE.removesuffix("</thread>"), ["A"]),
        (f'{A}\n<thread id="B">\n<observations>\n* 🔴 (09', ["A"]),
        (A[:-3], []),
    ],
)
def test_of_an_answer_that_was_cut_off_whole_sections_count(text: str, usable: list[str]) -> None:
    answers = parse_sections(text, ["A", "B"], cut_off=True)
    assert sorted(answers.threads) == usable
    assert answers.status == ("ok" if usable else "cut_off")


@pytest.mark.parametrize(
    ("text", "status", "observations"),
    [
        (body("a"), "ok", "* 🔴 (09:00) a"),
        (NONE, "ok", ""),
        (A, "ok", "* 🔴 (09:00) A"),
        ("prose", "malformed", None),
        ("", "empty", None),
    ],
)
def test_one_thread_may_be_answered_without_a_section(
    text: str, status: str, observations: str | None
) -> None:
    answers = parse_sections(text, ["A"])
    assert answers.status == status
    assert items(answers.threads) == ({} if observations is None else {"A": observations})
    assert not parse_sections(body("a"), ["A", "B"]).threads, "of two threads, nobody knows whose"
    assert not parse_sections(body("a"), ["A"], cut_off=True).threads


SCRAPS = st.sampled_from(
    [
        *(f'<thread id="{name}">' for name in NAMES),
        *("</thread>", "</thread>", "<thread>", '<thread id="X">', "</thread id=B>", "prose"),
        *("<observations>", "</observations>", "<current-task>", "</current-task>", "<think>"),
        *("</think>", "```", " ", 'quoted <thread id="B"> here'),
        *('</thread><thread id="B">', 'so </thread> <thread id="C">', '</thread> <thread id="A"'),
    ]
)

OPENED = re.compile(r'(?:</thread> ?)?<thread id="(\w)">')


@st.composite
def soups(draw: st.DrawFn) -> list[str]:
    """Lines of scraps, with numbered items between them."""
    return [
        f"* 🔴 (09:00) item{number}." if draw(st.booleans()) else draw(SCRAPS)
        for number in range(draw(st.integers(1, 24)))
    ]


@examples(300)
@given(lines=soups(), cut_off=st.booleans())
def test_no_observation_lands_on_another_thread(*, lines: list[str], cut_off: bool) -> None:
    answers = parse_sections("\n".join(lines), NAMES, cut_off=cut_off)
    said = strip_reasoning("\n".join(lines)).split("\n")  # what a model thinks opens nothing
    for shown_id, parsed in answers.threads.items():
        assert parsed.status in ("ok", "none")
        for item in re.findall(r"item\d+\.", parsed.observations):
            at = next(number for number, line in enumerate(said) if item in line)
            tags = [OPENED.fullmatch(line) for line in said[:at]]
            assert [tag[1] for tag in tags if tag][-1] == shown_id


@examples(150)
@given(st.dictionaries(IDS, st.text(max_size=40), min_size=1, max_size=4))
def test_what_was_written_in_sections_is_read_back(threads: dict[str, str]) -> None:
    answers = {
        name: render_output(ParsedAnswer("ok", f"* 🔴 (09:00) On {' '.join(text.split())}"))
        for name, text in threads.items()
    }
    whole = "\n".join(wrap_section(name, answer) for name, answer in answers.items())
    assert parse_sections(whole, list(threads)).threads == {
        name: parse_output(answer) for name, answer in answers.items()
    }


FLOODS: dict[str, Callable[[int], str]] = {
    "opening tags": lambda size: '<thread id="A">\n' * (size // 16),
    "closing tags": lambda size: "</thread>\n" * (size // 10),
    "closing tags in a line": lambda size: "</thread>" * (size // 9),
    "sections": lambda size: f"{A}\n" * (size // len(A)),
    "one long id": lambda size: f'<thread id="{"a" * size}">\n* a\n</thread>',
    "blanks in a tag": lambda size: f"<thread{' ' * size}>",
    "attributes": lambda size: f"<thread{' a=b' * (size // 4)}>",
    "half tags": lambda size: "<thread " * (size // 8),
    "think tags": lambda size: "<think></think>\n" * (size // 16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_takes_time_in_proportion_to_its_length(name: str) -> None:
    def prepare(size: int) -> Callable[[], object]:
        flood = FLOODS[name](size)

        def work() -> None:
            for cut_off in (False, True):
                assert "B" not in parse_sections(flood, ["A", "B"], cut_off=cut_off).threads

        return work

    check_growth(prepare, 40_000)


# --- Answers in odd forms ------------------------------------------------------------------------

NOTED = "<observations>\n* 🔴 (10:00) User likes tea\n</observations>"


def test_thinking_that_is_not_closed_does_not_hide_whose_section_it_is() -> None:
    text = f'<think>\nSo\n<thread id="B">\n{NOTED}\n</thread>'
    assert not parse_sections(text, ["A"]).threads


# --- The log -------------------------------------------------------------------------------------


def threads_of(groups: Sequence[Group]) -> list[str | None]:
    return [group["thread_id"] for group in groups]


def render_log(groups: Sequence[Group], show_id: ShowId, *, current: str | None = None) -> str:
    """Put the frames around the texts."""
    told = [group for group in groups if group["text"]]
    frames = frame_sections(threads_of(told), show_id, current=current)
    texts = [escape(group["text"]) for group in told]
    return "".join(part for pair in zip(frames, [*texts, ""], strict=True) for part in pair)


def test_the_log_stands_in_sections() -> None:
    assert render_log(LOG, hashed, current="A") == (
        '<thread id="#A" current="yes">\n* one\n\n* two &lt;/thread>\n</thread>\n\n'
        '<thread id="#B">\n* three\n</thread>\n\n'
        "* old\n\n"
        '<thread id="#A" current="yes">\n* four\n</thread>'
    )
    assert render_log([], hashed) == ""
    assert "current" not in render_log(LOG, hashed)

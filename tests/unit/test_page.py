"""A memory as a page: what is on it, and that no text becomes markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from langgraph_om.tools.shown import STATIC
from support.examples import examples
from support.groups import day_log, group
from support.inside import MemoryRecord, blank_record, fold

PERSON = ObservationalMemory(ScriptedChatModel())
LOG = [
    group("g0", day_log(0, "* 🔴 (09:00) User lives in Lyon", "  * -> since 2020"), 0, 1),
    group("g1", day_log(1, "* 🟡 (10:00) Tea", "* ✅ Done"), 2, 3),
]


class Reader(HTMLParser):
    """Reads a page as a browser would: its tags, their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def record(**fields: Any) -> MemoryRecord:
    return {**blank_record(), "id": "om-1", "thread_id": "t", "log": LOG, **fields}  # type: ignore[typeddict-item]


def page_of(own: MemoryRecord, history: Sequence[MemoryRecord] = ()) -> str:
    view = PERSON.view({"om": own, "messages": []})
    return replace(view, record=own, history=history).to_html()


def text_of(page: str) -> str:
    """The text of a page, with one blank where a browser shows one."""
    return " ".join(Reader(page).text.split())


def test_the_log_stands_by_day_with_times_sub_items_and_messages() -> None:
    text = text_of(page_of(record()))
    for said in ("Mar 1, 2026", "09:00", "User lives in Lyon", "→ since 2020", "messages t0:t1"):
        assert said in text
    assert text.index("Mar 1") < text.index("Lyon") < text.index("Mar 2") < text.index("Tea")


def test_both_windows_say_how_full_they_are() -> None:
    attributes = Reader(page_of(record())).attributes
    assert [value for name, value in attributes if name == "aria-label"][:2] == [
        "unobserved messages",
        "observations",
    ]
    assert ("aria-valuemax", "30000") in attributes


def test_what_a_person_did_is_marked_and_listed() -> None:
    own = fold(
        record(), [PERSON.updates.correct("Lyon", "User lives in Ghent"), PERSON.updates.pin("Tea")]
    )
    text = text_of(page_of(own))
    assert "User lives in Ghent corrected by a person" in text
    assert "Correct: User lives in Lyon → User lives in Ghent" in text
    assert "Tea pinned" in text


def test_failures_hints_and_costs_are_told_and_absent_ones_are_not() -> None:
    attempt = {"failures": 2, "at_tokens": 1, "retry_at_tokens": 2, "error": "no key"}
    usage = {"calls": 3, "input_tokens": 4567, "output_tokens": 8}
    own = record(
        attempts={"observation": attempt}, usage={"observation": usage}, current_task="Ask Ana"
    )
    text = text_of(page_of(own))
    assert "Observing messages failed: no key (2 in a row)" in text
    assert "4,567" in text
    assert "Ask Ana" in text
    calm = text_of(page_of(record()))
    assert not any(word in calm for word in ("failed", "cost", "Current task", "Generation "))


def test_what_is_over_its_threshold_is_told() -> None:
    large = [group("g", day_log(0, "* 🔴 " + "User likes long walks by the river. " * 9_000), 0, 1)]
    view = PERSON.view({"om": record(log=large), "messages": []})
    assert "over the threshold" in text_of(view.to_html())
    assert "over the threshold" in str(view)
    assert "over the threshold" not in text_of(page_of(record()))


def test_a_restart_is_no_failure() -> None:
    attempt = {"failures": 0, "at_tokens": 1, "retry_at_tokens": 2, "error": "lost: restarted"}
    assert "lost" not in Reader(page_of(record(attempts={"observation": attempt}))).text


def test_generations_show_what_each_changed() -> None:
    before = record()
    after = record(generation=1, log=[group("n", day_log(0, "* 🔴 User lives in Ghent"), 0, 3)])
    page = page_of(after, history=[after, before])
    assert 'class="cut">-* 🔴 (09:00) User lives in Lyon</span>\n' in page
    assert 'class="add">+* 🔴 User lives in Ghent</span>\n' in page


def test_it_can_be_read_where_a_notebook_drops_its_styles() -> None:
    before = record()
    after = record(generation=1, log=[group("n", day_log(0, "* 🔴 (08:00) Ghent"), 0, 3)])
    text = text_of(page_of(after, history=[after, before]))
    assert "Unobserved messages 0 of 30,000 tokens" in text
    assert re.search("🔴 08:00Ghent +#", text)  # what stands in a block of its own needs no space
    assert re.search(r"Generation 1 \d+ to \d+ tokens", text)
    assert "Lyon - * -> since" in text


def test_a_page_runs_nothing_and_asks_for_nothing_from_elsewhere() -> None:
    page = page_of(record())
    read = Reader(page)
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert not any(name.startswith("on") or name in {"src", "href"} for name, _ in read.attributes)
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page.replace(
        "prefers-color-scheme:", "prefers-color-scheme: "
    ).replace("  ", " ")


def test_a_shared_log_names_its_threads() -> None:
    groups = [group("a", "* one", thread="a"), group("b", "* two", thread="b")]
    text = Reader(page_of(record(scope="resource", resource_id="u", thread_id="", log=groups))).text
    assert text.index("Thread a") < text.index("\none") < text.index("Thread b") < text.index("two")


HOSTILE = st.one_of(
    st.sampled_from(
        (
            *("<script>x</script>", "</style><script>", '" onload="x', "'><img src=x onerror=y>"),
            *("<!--", "]]>", "&lt;b&gt;", "\x00\x1b[31m", "\ud800", "\u202eabc"),
            "</details></div></body>",
        )
    ),
    st.text(max_size=20),
)
PLAIN = Reader(page_of(record()))
FOUND = {"previous": None, "cycle_id": "c", "at": ""}


@examples(60)
@given(st.lists(HOSTILE, min_size=6, max_size=6))
def test_no_text_becomes_markup(texts: list[str]) -> None:
    told, task, title, thread, resource, error = texts
    log = [group(told or "g", f"Date: {told}\n* 🔴 {told}\n{told}", thread=thread)]
    attempt = {"failures": 1, "at_tokens": 1, "retry_at_tokens": 2, "error": error}
    own = record(
        log=log,
        current_task=task,
        thread_title=title,
        thread_id=thread,
        resource_id=resource,
        attempts={"observation": attempt},
        tripwire={"operation": "observation", "reason": error, "last_message": None},
        extracted={title: {**FOUND, "value": {thread: task}, "error": error}},
    )
    own = fold(own, [PERSON.updates.remember(f"x{told}")])
    page = page_of(own, history=[own, record()])
    read = Reader(page)
    assert read.open == []
    allowed = set(PLAIN.tags) | {"dl", "dt", "dd", "b", "s", "details", "summary", "pre", "time"}
    assert set(read.tags) <= allowed
    assert not any(name.startswith("on") for name, _ in read.attributes)
    page.encode("utf-8")
    assert not any(ord(letter) < 32 and letter not in "\n\t\r" for letter in page)


def test_without_jinja2_the_page_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    view = PERSON.view({"om": record(current_task="<b>Ask</b>"), "messages": []})
    monkeypatch.setattr("langgraph_om.tools.view.find_spec", lambda _: None)
    assert view._repr_html_() is None
    page = view.to_html()
    assert "User lives in Lyon" in page
    assert "&lt;b&gt;Ask" in page


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    view = PERSON.view({"om": record(), "messages": []})
    assert view.to_html(tmp_path / "memory.html") == (tmp_path / "memory.html").read_text("utf-8")
    assert view._repr_html_() in view.to_html()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser is installed")
def test_a_browser_reads_the_same_text_and_runs_nothing(tmp_path: Path) -> None:
    hostile = "<script>document.body.innerHTML='run'</script><img src=x onerror=alert(1)>"
    own = fold(record(current_task=hostile), [PERSON.updates.remember(hostile)])
    path = tmp_path / "memory.html"
    PERSON.view({"om": own, "messages": []}).to_html(path)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", str(path)]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250).stdout  # noqa: S603
    assert Reader(seen).text.split() == Reader(path.read_text("utf-8")).text.split()
    assert "User lives in Lyon" in seen


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser is installed")
def test_the_rules_of_a_notebook_do_not_break_its_labels(tmp_path: Path) -> None:
    view = PERSON.view({"om": record(suggested_response="Go on"), "messages": []})
    path = tmp_path / "notebook.html"
    rules = ".lab dt{float:left;width:20%;font-weight:bold}.lab dd{float:left;width:50%}"
    read = "document.title = document.querySelector('dt').getClientRects()[0].height"
    path.write_text(
        f"<meta charset=utf-8><title></title><style>{rules}</style>"
        f"<div class=lab>{view._repr_html_()}</div><script>{read}</script>",
        encoding="utf-8",
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", str(path)]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250).stdout  # noqa: S603
    assert float(seen.partition("<title>")[2].partition("<")[0]) < 30  # one line


def test_values_stand_below_the_log() -> None:
    trip = {"to": "Oslo <b>"}
    found = {
        "value": trip,
        "previous": None,
        "cycle_id": "c",
        "at": "",
        "error": "`age`: no Number",
    }
    own = record(extracted={"Trip": found})
    text = text_of(page_of(own))
    assert text.index("Tea") < text.rindex("Trip") < text.index('"to": "Oslo <b>"')
    assert "`age`: no Number" in text
    assert "Values beside the observations" not in Reader(page_of(record())).text
    assert "Oslo <b>" in str(PERSON.view({"om": own, "messages": []}))


STYLE = (STATIC / "memory.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", part))
    for part in STYLE.split("@media (prefers-color-scheme: dark)", 1)
)
PAIRS = [
    *((ink, on) for ink in ("ink", "soft", "accent", "green") for on in ("paper", "card")),
    *((f"{name}-ink", name) for name in ("warn", "add", "cut", "pin")),
]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) > 4 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "on"), PAIRS)
def test_texts_stand_out(colours: dict[str, str], ink: str, on: str) -> None:
    dark, bright = sorted((luminance(colours[ink]), luminance(colours[on])))
    assert (bright + 0.05) / (dark + 0.05) >= 4.5

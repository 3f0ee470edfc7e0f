"""Check what the Observer wrote: what can be looked up has to stand in what it was shown.

Lines that hold something else are named to it in one further question. What it does not mend is cut
out of them, or the line is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Self

from langchain_core.messages import AIMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, name_fields
from langgraph_om.core.config.options import Hint, Preset
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.content.text import compile_late, escape
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.effects import AskModel, EffectFlow, ModelReply
from langgraph_om.core.items import LineSpan, cut_spans, find_spans, read_head, replace_spans
from langgraph_om.core.observe.answer_tags import LOG
from langgraph_om.core.observe.parse_answer import ParsedAnswer, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import Event
from langgraph_om.features.check.words import Shown, cut_unfounded, find_unfounded

NAME: Final = "check"

_MOST_NAMED: Final = 6
"""Words of one item that the further question names."""
_ANSWER: Final = compile_late(r"^\[(\d{1,4})\][ \t]*(.*(?:\n(?!\[\d).*)*)", re.MULTILINE)


class CheckOptions(TypedDict, total=False):
    """The option of the check."""

    check_observations: Annotated[bool, Hint("True or False"), Preset(value=False)]
    """Whether numbers from 100 on, names of code and quotations in a note are looked up in the
    Observer's messages. Names of code are identifiers, paths, addresses and versions. The
    Observer is asked once more about a line that fails; parts that it does not mend are cut
    out."""


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """An item of an answer with words that are not founded."""

    key: str
    """Of the answer."""
    span: LineSpan
    text: str
    words: Sequence[str]


class Check(Feature):
    """Has the Observer mend what it was not shown."""

    name = NAME
    prompts = __name__
    additions = Additions(
        streamed={
            "checked": name_fields("cycle_id", "thread_id", "mended", "cut", "left_out", "at")
        },
    )
    job_settings: ClassVar[Mapping[str, Any]] = {"check_observations": True}

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `check_observations`."""
        return cls() if setup.options["check_observations"] else None

    def review(
        self, info: CycleInfo, asked: AskModel, answers: Mapping[str, ParsedAnswer]
    ) -> EffectFlow[tuple[dict[str, ParsedAnswer], list[Any]]]:
        """Return the answers with what the Observer mended, or without what it did not."""
        checked = dict(answers)
        if asked.attachments:  # what a picture shows cannot be looked up
            return checked, []
        shown = Shown(
            [str(asked.messages[-1].content), info.settings.observation.instruction or ""]
        )
        doubtful = [
            item for key, parsed in answers.items() for item in _list_doubtful(key, parsed, shown)
        ]
        if not doubtful:
            return checked, []
        reply: ModelReply = yield _ask(asked, doubtful, answers)
        mended = {} if reply.error is not None else _read_mended(reply.text, doubtful, shown)
        # Items that the Observer mended, those that something was cut out of, and the others.
        entry = {"mended": len(mended), "cut": 0, "left_out": 0}
        cuts: dict[str, dict[LineSpan, str]] = {}
        for item in doubtful:
            text = mended.get(item)
            if text is None:
                text = cut_unfounded(item.text, shown)
                entry["cut" if text else "left_out"] += 1
            cuts.setdefault(item.key, {})[item.span] = text
        for key, spans in cuts.items():
            text = replace_spans(answers[key].observations, spans)
            status = answers[key].status if text else "none"
            checked[key] = replace(answers[key], observations=text, status=status)
        return checked, [entry]

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
        """Return an event for each answer that held something else."""
        return [info.event("checked", at, **entry) for entry in entries]


def _list_doubtful(key: str, parsed: ParsedAnswer, shown: Shown) -> list[_Doubtful]:
    spans = find_spans(parsed.observations)
    found: list[_Doubtful] = []
    for span, text in zip(spans, cut_spans(parsed.observations, spans), strict=True):
        words = [word.text for line in text.split("\n") for word in find_unfounded(line, shown)]
        if words:
            found.append(_Doubtful(key, span, text, tuple(dict.fromkeys(words))))
    return found


def _ask(
    asked: AskModel, doubtful: Sequence[_Doubtful], answers: Mapping[str, ParsedAnswer]
) -> AskModel:
    """Return the further question, on the same prompt."""
    lines: list[str] = []
    for number, item in enumerate(doubtful, 1):
        words = ", ".join(f"`{word}`" for word in item.words[:_MOST_NAMED])
        lines += [f"[{number}] {item.text}", f"    stands nowhere: {words}"]
    said = "\n\n".join(parsed.observations for parsed in answers.values())
    answer = f"<{LOG}>\n{escape(said)}\n</{LOG}>"
    task = fill("check_again", items=escape("\n".join(lines)))
    return replace(asked, messages=[*asked.messages, AIMessage(answer), HumanMessage(task)])


def _read_mended(text: str, doubtful: Sequence[_Doubtful], shown: Shown) -> dict[_Doubtful, str]:
    """Return the items that an answer mends; one that it leaves out is empty."""
    mended: dict[_Doubtful, str] = {}
    for match in _ANSWER.finditer(text):
        number, said = int(match[1]), match[2].strip()
        if not 1 <= number <= len(doubtful):
            continue
        item = doubtful[number - 1]
        if said.casefold().strip(".()") == "none":
            mended[item] = ""
            continue
        head = item.text[: read_head(item.text).end]
        said = said if read_head(said).mark else f"{head}{said[read_head(said).end :]}"
        parsed = parse_output(f"<{LOG}>\n{said}\n</{LOG}>")
        is_one = parsed.status == "ok" and len(find_spans(parsed.observations)) == 1
        lines = parsed.observations.split("\n")
        if is_one and not any(find_unfounded(line, shown) for line in lines):
            mended[item] = parsed.observations
    return mended

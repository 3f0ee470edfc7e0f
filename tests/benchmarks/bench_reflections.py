"""Reflection by edits beside rewriting: what each asks, writes, keeps and leaves as it was.

By itself: `python tests/benchmarks/bench_reflections.py [--quick] [--markdown]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from agents import noon
from bench_facts import ROUGHLY, SEED
from conversation import conversation
from facts import Fact, plant, words_of
from langchain_core.messages import BaseMessage
from metered import Metered, common_prefix
from report import Budget, Options, Report, show_alone

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import (
    ExtractiveObserver,
    ExtractiveReflector,
    RoughObserver,
    RoughReflector,
)

FORMS = ("edits", "rewrite")
LATER = (1, 5, 20)
"""After how many reflections facts are counted."""
MESSAGE_TOKENS, OBSERVATION_TOKENS = 892, 1_190
QUESTIONS = 1.3
NOTES = f"""\
No Actor: messages are given to memory two at a time. Thresholds: {MESSAGE_TOKENS} tokens of
messages, {OBSERVATION_TOKENS} of observations.
Facts kept: of those in messages that were observed by then, how many the log tells.
Changed: of the log's bytes before a reflection, those from the first that is another afterwards; so
much of the prompt a provider's cache can not use again.
"""


@dataclass
class Course:
    """What came of the reflections of one conversation."""

    name: str
    kept: list[tuple[int, int]] = field(default_factory=list)
    """After each reflection: facts that the log tells, and all that were observed."""
    changed: list[float] = field(default_factory=list)
    """By each reflection, the share of the log's bytes that a cache loses."""
    questions: int = 0
    read: int = 0
    written: int = 0
    failures: int = 0

    @property
    def reflections(self) -> int:
        return len(self.kept)

    def kept_after(self, number: int) -> str:
        if number > self.reflections:
            return "-"
        kept, told = self.kept[number - 1]
        return f"{kept}/{told}"


def follow(
    form: str, messages: Sequence[BaseMessage], facts: Sequence[Fact], *, is_rough: bool
) -> Course:
    """Give a conversation to memory, and look at the log whenever it was reflected."""
    observe = RoughObserver(SEED).reply if is_rough else ExtractiveObserver().reply
    reflect = RoughReflector(SEED).reply if is_rough else ExtractiveReflector().reply
    reflector = Metered(reflector=reflect)
    reflection: Any = {"model": reflector, "form": form, "observation_tokens": OBSERVATION_TOKENS}
    course = Course(form + ROUGHLY * is_rough)
    record: Any = None
    log, generation = "", 0
    with ObservationalMemory(
        observation={"model": Metered(observer=observe), "message_tokens": MESSAGE_TOKENS},
        reflection=reflection,
        buffering=InlineBuffering(),
        clock=noon,
    ) as memory:
        for end in range(2, len(messages) + 1, 2):
            said = list(messages[:end])
            result = memory.step(record, said, thread_id="t")
            record = result.record
            course.failures += sum(part["type"].endswith("-failed") for part in result.events)
            text = "\n".join(group["text"] for group in record["log"])
            if record["generation"] > generation:
                course.kept.append(_kept(text, said, record, facts))
                course.changed.append(1 - common_prefix(log, text) / max(1, len(log)))
                generation = record["generation"]
            log = text
    reflector.measure()
    course.questions, course.read = reflector.prompts.calls, reflector.prompts.tokens
    course.written = reflector.written
    return course


def _kept(
    log: str, said: Sequence[BaseMessage], record: Any, facts: Sequence[Fact]
) -> tuple[int, int]:
    ids = [str(message.id) for message in said]
    observed = set(ids[: ids.index(record["log"][-1]["ranges"][-1][1]) + 1])
    told, words = [fact for fact in facts if fact.message_id in observed], words_of(log)
    return sum(fact.is_in(log, words) for fact in told), len(told)


def compare(messages: Sequence[BaseMessage], facts: Sequence[Fact]) -> list[Course]:
    return [
        follow(form, messages, facts, is_rough=is_rough)
        for is_rough in (False, True)
        for form in FORMS
    ]


def run(options: Options) -> Report:
    messages, facts = plant(conversation(options.pick(700, 200), words=30, seed=4, calls_every=0))
    return report_on(compare(messages, facts))


def report_on(courses: Sequence[Course]) -> Report:
    return Report(
        "Reflections by edits and by rewriting",
        [
            *("form", "reflections", "questions each", "read each", "written each"),
            *(f"facts kept after {number}" for number in LATER),
            *("changed each", "failures"),
        ],
        [_row(each) for each in courses],
        [
            Budget(
                f"questions for a reflection: {each.name}",
                f"<= {QUESTIONS}",
                f"{each.questions / max(1, each.reflections):.2f}",
                each.questions <= QUESTIONS * each.reflections,
            )
            for each in courses
            if each.name.startswith(FORMS[0])
        ],
        NOTES.splitlines(),
        {each.name: vars(each) for each in courses},
    )


def _row(each: Course) -> list[object]:
    count = max(1, each.reflections)
    return [
        each.name,
        each.reflections,
        f"{each.questions / count:.2f}",
        f"{each.read / count:,.0f}",
        f"{each.written / count:,.0f}",
        *(each.kept_after(number) for number in LATER),
        f"{fmean(each.changed):.0%}" if each.changed else "-",
        each.failures,
    ]


if __name__ == "__main__":
    show_alone(run, "Compare the two forms of a reflection.", "a shorter conversation")

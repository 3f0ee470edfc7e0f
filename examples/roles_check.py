# Asks one model in every role what was said: it observes, condenses, and answers as the agent.
#
#     pip install "langgraph-om[examples,openai]"
#     python examples/roles_check.py                                # offline: the plumbing alone
#     python examples/roles_check.py --model openai:gpt-6-luna --runs 3
#
# The English talks of `talks/` are one conversation, in another order in each run. Every memory has
# the same room, which does not hold it; the full history has the model's whole window. A line of a
# talk's `asks` is `question = key|other key`; an answer is right if it has a key. No model judges.

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from evaluation.comparing import ARMS
from evaluation.formats import Conversation, Question, Session, Turn
from evaluation.memories import Players, Setup, remember
from evaluation.rules import system_prompt
from evaluation.spending import Meter
from observer_check import TALKS, Talk, add_model, has, normalize, open_model

CHOSEN = [arm for arm in ARMS if arm != "deepagents"]
ROOM = 700
"""Tokens; the conversation has about 1,500."""
SHORT = "\n\nAnswer with a short phrase."


@dataclass(frozen=True)
class OneModel(Players):
    """Plays every role with one model."""

    one: Any = None

    def model(self, name: str, role: str, questions: Any = ()) -> Any:  # noqa: ARG002 each the same
        return self.one


def split_ask(ask: str) -> tuple[str, str]:
    question, _, keys = ask.rpartition(" = ")
    return question, keys


def converse(talks: list[Talk]) -> Conversation:
    """Return talks as one conversation, a day after the other, with what is asked of them."""
    day, number = datetime(2026, 5, 4, 9, tzinfo=UTC), count_from(1)
    sessions = []
    for talk in talks:
        for part in talk.parts:
            turns = [
                Turn(("user", "assistant")[at % 2], text, day + timedelta(minutes=2 * at))
                for at, text in enumerate(part)
            ]
            sessions.append(Session(next(number), day, tuple(turns), opens=False))
            day += timedelta(days=1)
    questions = [
        Question(f"{talk.name}-{at}", question, keys, "single-hop", day)
        for talk in talks
        for at, (question, keys) in enumerate(map(split_ask, talk.asks))
    ]
    return Conversation("talks", tuple(sessions), tuple(questions))


def ask_all(model: Any, arm: str, conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Have one kind of memory take the talks in, and yield what comes of each question."""
    room = None if arm == "full" else ROOM
    setup = Setup(**ARMS[arm], actor="it", observer="it", reflector="it", prompt_tokens=room)
    prompt = system_prompt("LongMemEval", conversation)
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        remember(setup, OneModel(one=model), conversation, prompt, Path(folder)) as memory,
    ):
        for session in conversation.sessions:
            memory.take_in(session, Meter("summarizer"), lambda *_: None)
        for question in conversation.questions:
            try:
                said = memory.ask(question.text + SHORT, question.asked_at, Meter("actor")).text
            except Exception as error:  # noqa: BLE001 a small model fails in many ways
                said = f"{type(error).__name__}: {error}"[:200]
            keys = question.answer.split("|")
            right = any(has(normalize(said), key) for key in keys)
            yield {"arm": arm, "question": question.text, "said": said, "right": right}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ask one model in every role what was said.")
    option = parser.add_argument
    add_model(parser, runs=1)
    option("--arms", default=",".join(CHOSEN), help="default: %(default)s")
    option("--json", type=Path, metavar="FILE", help="questions and answers are written there")
    options = parser.parse_args(arguments)
    model = open_model(options.model, options.settings)
    talks = [Talk(path) for path in sorted(TALKS.glob("*_english.toml"))]
    came: list[dict[str, Any]] = []
    print("| memory | right, mean | least to most | of |\n|---|---|---|---|")
    for arm in options.arms.split(","):
        scores = []
        for run in range(options.runs):
            conversation = converse([*talks[run:], *talks[:run]])
            answers = list(ask_all(model, arm, conversation))
            came += [{"run": run + 1, **answer} for answer in answers]
            scores.append(sum(answer["right"] for answer in answers))
        told = f"{mean(scores):.1f} | {min(scores)} to {max(scores)} | {len(answers)}"
        print(f"| {arm} | {told} |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(came, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads `story.txt`: what the user says and when, and how the agent answers offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage

_TEXT = Path(__file__).with_name("story.txt").read_text(encoding="utf-8")
SECTIONS = {
    title: text.strip()
    for title, _, text in (part.partition("\n") for part in _TEXT.split("\n=== ")[1:])
}

Step = str | AIMessage | Callable[[list[BaseMessage]], str]


@dataclass
class Turn:
    """What the user says at some time, and the offline agent's steps until it has answered."""

    at: datetime
    text: str
    steps: list[Step] = field(default_factory=list)
    recalls: str = ""
    """Words that the answer holds, if it has to come from memory."""


def read_turns(section: str) -> list[Turn]:
    day, turns = "", list[Turn]()
    for line in SECTIONS[section].splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "DAY":
            day = rest
        elif mark == "SAY":
            turns[-1].steps.append(rest)
        elif mark == "RECALL":
            turns[-1].recalls = rest
            turns[-1].steps.append(lambda prompt, words=rest: answer_from_memory(prompt, words))
        elif mark == "CALL":
            name, _, args = rest.partition(" ")
            call = {"name": name, "args": json.loads(args), "id": f"call-{day}-{len(turns)}"}
            turns[-1].steps.append(AIMessage("", tool_calls=[call]))
        elif mark:
            turns.append(Turn(datetime.fromisoformat(f"{day} {mark}").replace(tzinfo=UTC), rest))
    return turns


def find_observation(prompt: list[BaseMessage], words: str) -> tuple[str, str]:
    """Return the day and the text of the newest observation in a prompt that holds some words."""
    day, found = "", list[tuple[str, str]]()
    for line in prompt[0].text.splitlines():
        if line.startswith("Date: "):
            day = line.removeprefix("Date: ").partition(",")[0]
        elif line.lstrip().startswith("* ") and words in line.lower():
            found.append((day, line))
    of_user = [(day, line.partition("User: ")[2]) for day, line in found if "User: " in line]
    return (of_user or found or [("", "")])[-1]


def answer_from_memory(prompt: list[BaseMessage], words: str) -> str:
    """Play the agent, which has nothing but its prompt to answer from."""
    day, fact = find_observation(prompt, words)
    return f"You told me on {day}: {fact}" if fact else "I have no observation about that."


def tell_moment(
    prompt: list[BaseMessage], history: list[BaseMessage], answer: str, words: str
) -> str | None:
    """Say which observation an answer came from, when no message in the prompt could have told."""
    in_view = [message for message in prompt if message.type != "system"]
    day, _ = find_observation(prompt, words)
    if not day or words not in answer.lower() or any(words in m.text.lower() for m in in_view):
        return None
    said = [at for at, m in enumerate(history) if m.type == "human" and words in m.text.lower()]
    back = len(history) - max(said, default=0)
    return (
        f"<- answered from an observation of {day}; "
        f"the message itself, {back} messages back, is no longer in the prompt"
    )

"""The moving picture of a memory that grows, from a run of the quickstart's story.

    PYTHONPATH=examples python tests/benchmarks/growing.py docs    # writes docs/growing.svg

Models are deterministic, so the picture is the same each time. Each day of the story is a frame.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import quickstart
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from trip.story import read_turns

SECONDS = 3.0
"""Of each frame."""
ROOM, LEFT, WIDTH = 25_000, 150, 560
"""Tokens that the longest bar stands for, where bars begin, and how long that bar is."""
LINES, CHARACTERS = 4, 84
BARS = (("full history", "#b9c0ca", 62), ("sent to the agent", "#1260cc", 92))

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 236" role="img"
  aria-label="A conversation grows from day to day, the prompt does not">
<style>
  text { font: 13px sans-serif; fill: #22303f }
  .n { font: 12px monospace }
  .d { font-weight: bold; font-size: 16px }
</style>
<rect width="760" height="236" rx="8" fill="#fff"/>"""


@dataclass
class Frame:
    """The end of a day."""

    day: str
    history: int
    prompt: int
    notes: list[str]
    """The newest lines of the log."""


def play() -> list[Frame]:
    """Play the story, and look at the memory at the end of each day."""
    steps, clock, frames = deque[Any](), quickstart.Clock(), dict[str, Frame]()
    saver: Any = InMemorySaver()
    agent, memory = quickstart.build(None, saver, steps, clock, quickstart.SMALL)
    with memory:
        for turn in read_turns("story"):
            steps.extend(turn.steps)
            said = HumanMessage(turn.text, additional_kwargs={"created_at": turn.at.isoformat()})
            clock.see(said)
            state = agent.invoke({"messages": [said]}, quickstart.CONFIG)
            memory.flush()
            day = f"{turn.at:%B} {turn.at.day}"
            frames[day] = look(day, memory, agent.get_state(quickstart.CONFIG).values, state)
    return list(frames.values())


def look(day: str, memory: Any, values: dict[str, Any], state: dict[str, Any]) -> Frame:
    """Measure a memory as it is."""
    messages: list[BaseMessage] = state["messages"]
    whole = quickstart.count(messages)
    active = memory.status(values)["windows"]["active"]
    lines = [line for group in values["om"]["log"] for line in group["text"].splitlines()]
    notes = [line.lstrip("* ") for line in lines if line.lstrip().startswith("* ")]
    prompt = active["messages"]["tokens"] + active["observations"]["tokens"]
    return Frame(day, whole, prompt, notes[-LINES:])


def draw(frames: list[Frame]) -> str:
    """Return the picture: one group for each frame, shown in turn, the last one where it stands."""
    length = SECONDS * len(frames)
    parts = [HEAD]
    for at, frame in enumerate(frames):
        shown = [0] * len(frames)
        shown[at] = 1
        values = ";".join(map(str, [*shown, shown[-1]]))
        times = ";".join(f"{each / len(frames):.4f}" for each in range(len(frames) + 1))
        parts.append(
            f'<g opacity="{int(at == len(frames) - 1)}"><animate attributeName="opacity" '
            f'calcMode="discrete" values="{values}" keyTimes="{times}" dur="{length:.0f}s" '
            f'repeatCount="indefinite"/><text class="d" x="24" y="36">{frame.day}</text>'
        )
        for (name, colour, y), tokens in zip(BARS, (frame.history, frame.prompt), strict=True):
            wide = tokens * WIDTH // ROOM
            parts.append(
                f'<text x="24" y="{y + 14}">{name}</text><rect x="{LEFT}" y="{y}" width="{wide}" '
                f'height="18" rx="3" fill="{colour}"/><text x="{LEFT + wide + 8}" y="{y + 14}">'
                f"{tokens:,} tokens</text>"
            )
        for line, note in enumerate(frame.notes):
            cut = note if len(note) <= CHARACTERS else f"{note[: CHARACTERS - 1]}…"
            parts.append(f'<text class="n" x="24" y="{146 + 22 * line}">{escape(cut)}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1], "growing.svg").write_text(draw(play()), encoding="utf-8")

"""The picture of a conversation that grows and a prompt that doesn't, at the recommended budget.

    PYTHONPATH=.:examples:tests/benchmarks python tests/benchmarks/growing.py docs  # growing.svg

It is the conversation of `bench_peers.py --room 16000`, whose figures the README shows. Models are
deterministic, so the picture is the same each time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from conversation import COUNTER, conversation
from langchain_core.messages import AIMessage
from memory_pictures import DAYS

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.core.tokens import count_messages
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

BUDGET, DAY = 16_000, 20
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 452, 64, 56, 300, 560
MARKED = [line for _, items in DAYS for line in items.splitlines() if "->" not in line]
OBSERVATIONS = [line.removeprefix("* ").split(" ", 1) for line in MARKED]
COLOURS = {"🔴": "#d93025", "🟡": "#f2b600", "✅": "#2e8b57"}
"""Of the marks, which not every reader's fonts have."""


def play() -> tuple[list[int], list[int]]:
    """Return the tokens of the conversation, and of the prompt, at each turn."""
    model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    memory = ObservationalMemory(model, token_budget=BUDGET, buffering=InlineBuffering())
    messages = conversation(500, words=60, seed=4)
    history, prompts, record, whole = [], [], None, 0
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage) and not message.tool_calls:
            result = memory.step(record, messages[:at], thread_id="talk")
            record = result.record
            history.append(whole)
            prompts.append(count_messages(COUNTER, result.messages))
        whole += COUNTER.count_message(message)
    return history, prompts


def draw(history: Sequence[int], prompts: Sequence[int]) -> str:
    """Return the picture: tokens by turn, and what observations look like."""
    top = max(history)

    def place(turn: int, tokens: float) -> tuple[float, float]:
        across = LEFT + (RIGHT - LEFT) * turn / (len(history) - 1)
        return across, BOTTOM - (BOTTOM - TOP) * tokens / top

    def line(sizes: Sequence[int]) -> str:
        return " ".join("{:.1f},{:.1f}".format(*place(*each)) for each in enumerate(sizes))

    def label(tokens: float, bold: str, text: str, colour: str, below: int = 0) -> str:
        y = place(0, tokens)[1] + below
        return (
            f'<text x="{RIGHT + 10}" y="{y:.0f}" fill="{colour}" class="b">{bold}</text>'
            f'<text x="{RIGHT + 10}" y="{y + 17:.0f}">{text}</text>'
        )

    limit = place(0, BUDGET)[1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"',
        '  aria-label="A conversation grows turn by turn, the prompt does not">',
        "<style>text { font: 13px sans-serif; fill: #22303f } .b { font-weight: bold }",
        "  .n { font: 12px monospace } .g { fill: #5b6878 }",
        "  .d { stroke: #b9c0ca; stroke-dasharray: 4 }</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
        f'<text x="24" y="32" class="b">{len(history)} turns with token_budget=16_000</text>',
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}" stroke="#b9c0ca"/>',
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{limit:.0f}" y2="{limit:.0f}" class="d"/>',
        f'<text x="{LEFT - 8}" y="{limit + 4:.0f}" text-anchor="end" class="g">{BUDGET:,}</text>',
        f'<text x="{LEFT - 8}" y="{BOTTOM + 4}" text-anchor="end" class="g">0</text>',
        f'<polyline points="{line(history)}" fill="none" stroke="#8b95a3" stroke-width="2.5"/>',
        f'<polyline points="{line(prompts)}" fill="none" stroke="#1260cc" stroke-width="2.5"/>',
        label(top, "The conversation", f"{top:,} tokens", "#5b6878", 8),
        label(BUDGET, "What your model is sent", f"{max(prompts):,} tokens at most", "#1260cc"),
        '<text x="24" y="340" class="b">What replaces the oldest messages: observations</text>',
    ]
    for at, (mark, each) in enumerate(OBSERVATIONS[:4]):
        y = 366 + 22 * at
        parts.append(f'<circle cx="30" cy="{y - 4}" r="5" fill="{COLOURS[mark]}"/>')
        parts.append(f'<text x="44" y="{y}" class="n">{escape(each)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    history, prompts = play()
    for day in (1, 5, 11):
        span = slice((day - 1) * DAY, day * DAY)
        sys.stdout.write(f"day {day}: {sum(history[span]):,} and {sum(prompts[span]):,} tokens\n")
    Path(sys.argv[1], "growing.svg").write_text(draw(history, prompts), encoding="utf-8")


if __name__ == "__main__":
    main()

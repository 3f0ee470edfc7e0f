# A small terminal interface: the agent's answer word by word, and beside it what memory does.
#
#     pip install "langgraph-om[examples]"
#     python examples/stream_events.py              # offline, at reading speed; --delay 0 for none
#     python examples/stream_events.py --protocol   # the same parts through `run.memory`
#
# All of it comes from one stream: `stream_mode="messages"` has the words of the agent and never
# those of the Observer, `stream_mode="custom"` has memory's parts. Without a terminal it prints
# lines. With GOOGLE_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY and the provider's package, real
# models speak.

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import deque
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from chat_models import choose_model
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from rich.console import Console
    from rich.live import Live
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
except ImportError as missing:
    sys.exit(f"{missing.name} is missing; install it with: pip install 'langgraph-om[examples]'")

NOW = datetime(2026, 9, 14, 8, 0, tzinfo=UTC)
CONFIG: RunnableConfig = {"configurable": {"thread_id": "harvest"}}
PROMPT = "You keep the diary of an orchard. Answer in one or two sentences."
TALK = """
Morning! We picked 14 crates of Boskoop from the two rows at the pond.
> A fine start, the rows at the pond are always the first. Please stack them with a hand of air.
The cellar is at 6 degrees, the fan has failed since Saturday.
> That is too warm for apples. Air it at night as long as the fan is out, and sell bruised ones.
Mr. Aydin repairs it on Wednesday at 7, it costs 160 euros.
> Good to know. I would move the crates away from the wall before he comes, he needs some room.
Ten crates go to the press in Jork on Friday, the juice is for the school.
> The children will like it. The trailer has to be free by then, and the press wants clean crates.
The school wants 150 bottles, and their labels have to say 2026.
> That is a little more than ten crates give. Better to press one more, the rest keeps well enough.
Then eleven crates. And the Gravensteiner are finished, 3 crates in all.
> Eleven it is. The Gravensteiner do not keep, so they belong on the market rather than down there.
When does Mr. Aydin come, and what for?
""".strip().splitlines()


def answer(prompt: list[BaseMessage]) -> str:
    """Play the agent offline; the last answer comes from the observations in its prompt."""
    if (at := [*map(str, TALK)].index(prompt[-1].text) + 1) < len(TALK):
        return TALK[at].removeprefix("> ")
    facts = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    return " ".join(fact for fact in facts if "fan" in fact or "Aydin" in fact)


PHRASES = {
    "buffering-start": "reads {tokensToBuffer} tokens ahead",
    "buffering-end": "noted them in {bufferedTokens}",
    "activation of observation": "{tokensActivated} tokens leave the view",
    "activation of reflection": "the log is condensed to {observationTokens}",
    "standing": "an order {change}: {words}",
}


class Screen:
    """The talk on the left; on the right both windows of memory and its newest events."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.console = Console(force_terminal=None if self.live else False)
        self.talk: deque[Text] = deque(maxlen=20)
        self.events: deque[str] = deque(maxlen=12)
        self.windows: dict[str, Any] = {}

    def __rich__(self) -> Table:
        height, room = max(12, min(30, self.console.height - 1)), self.console.width - 40
        said = [line for text in self.talk for line in text.wrap(self.console, room)]
        sizes = Table.grid(expand=True)
        for name, window in self.windows.items():
            tokens, limit = window["tokens"], window["threshold"]
            bar = ProgressBar(limit, min(tokens, limit), complete_style="green")
            sizes.add_row(f"[bold]{name}[/] {tokens} of {limit} tokens")
            sizes.add_row(Padding(bar, (0, 0, 1, 0)))
        sizes.add_row("\n".join(list(self.events)[8 - height :]), style="dim")
        sides = Table.grid(expand=True)
        sides.add_column(ratio=1)
        sides.add_column(width=36)
        talk = Panel(Text("\n").join(said[2 - height :]), title="orchard", height=height)
        sides.add_row(talk, Panel(sizes, title="memory", height=height))
        return sides

    def say(self, who: str, text: str = "", style: str = "") -> None:
        self.talk.append(Text.assemble((f"{who}: ", f"bold {style}"), text))

    def part(self, part: dict[str, Any]) -> None:
        """Take in one part of memory."""
        data, kind = part["data"], part["type"].removeprefix("data-om-")
        if kind == "status":
            self.windows = data["windows"]["active"]
            return
        phrase = PHRASES.get(kind) or PHRASES.get(f"{kind} of {data.get('operationType')}") or kind
        self.events.append(phrase.format(**data))
        self.line(f"   memory: {self.events[-1]}")

    def line(self, text: str = "") -> None:
        """Print where there is no terminal to draw on."""
        if not self.live:
            self.console.print(text, soft_wrap=True, markup=False)

    def close_turn(self, status: dict[str, Any]) -> None:
        self.line(self.talk[-1].plain)
        self.part({"type": "data-om-status", "data": status})
        sizes = (f"{name} {w['tokens']} of {w['threshold']}" for name, w in self.windows.items())
        self.line(f"   tokens: {', '.join(sizes)}")


async def stream(agent: Any, question: HumanMessage, screen: Screen, delay: float) -> None:
    modes = ["messages", "custom"]
    async for mode, data in agent.astream({"messages": [question]}, CONFIG, stream_mode=modes):
        if mode == "custom":
            screen.part(data)
        elif isinstance(data[0], AIMessageChunk):
            screen.talk[-1].append(data[0].text)
        await asyncio.sleep(delay)


async def stream_by_protocol(agent: Any, question: HumanMessage, screen: Screen) -> None:
    run = await agent.astream_events({"messages": [question]}, CONFIG, version="v3")
    async for part in run.memory:
        screen.part(part)
    screen.talk[-1].append((await agent.aget_state(CONFIG)).values["messages"][-1].text)


async def main(delay: float, *, by_protocol: bool) -> None:
    observer, reflector = ExtractiveObserver().reply, ExtractiveReflector().reply
    model = choose_model(ScriptedChatModel(answer, observer=observer, reflector=reflector))
    memory = ObservationalMemory(
        # Tiny, so that seven turns suffice; the defaults are 30,000 and 40,000.
        observation={"message_tokens": 180, "buffer_tokens": 0.5},
        reflection={"observation_tokens": 400},
        # So that every run shows the same: nothing in the background, and a day that stands still.
        buffering=InlineBuffering(),
        clock=lambda: NOW,
    )
    agent = create_memory_agent(
        model, memory=memory, system_prompt=PROMPT, checkpointer=InMemorySaver()
    )
    screen = Screen()
    shown = Live(screen, console=screen.console) if screen.live else nullcontext()
    with shown:
        for text in TALK[::2]:
            question = HumanMessage(text)
            screen.say("You", text, "blue")
            screen.line(f"\nYou: {text}")
            screen.say("Agent", style="green")
            if by_protocol:
                await stream_by_protocol(agent, question, screen)
            else:
                await stream(agent, question, screen, delay if screen.live else 0)
            screen.close_turn(memory.status((await agent.aget_state(CONFIG)).values))
            await asyncio.sleep(10 * delay if screen.live else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent and its memory, side by side.")
    parser.add_argument("--delay", type=float, default=0.1, help="seconds after each piece")
    parser.add_argument("--protocol", action="store_true", help="read parts from `run.memory`")
    options = parser.parse_args()
    asyncio.run(main(options.delay, by_protocol=options.protocol))

"""Shows a conversation and its memory: all of it, or each day in short; bars on a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress
from rich.text import Text

from langgraph_om import EstimatingCounter

# What a part of the stream says, by its operation and kind.
_PHRASES = {
    "observation buffering-start": "buffering {tokensToBuffer} tokens of messages",
    "observation buffering-end": "buffered {tokensBuffered} tokens of messages in {bufferedTokens}",
    "observation activation": "activated {chunksActivated} chunks: "
    "{tokensActivated} tokens of messages became {became} of observations",
    "observation observation-start": "the turn waits: observing {tokensToObserve} tokens",
    "observation observation-end": "observed {tokensObserved} tokens in {observationTokens}",
    "reflection buffering-start": "condensing {tokensToBuffer} tokens of observations",
    "reflection buffering-end": "condensed {tokensBuffered} to {bufferedTokens}, for later",
    "reflection activation": "activated what was condensed: {tokensActivated} became {became}",
    "reflection observation-start": "the turn waits: condensing {tokensToObserve} tokens",
    "reflection observation-end": "condensed {tokensObserved} to {observationTokens}",
    " standing": "an order of the user {change}",
}
_COUNTER = EstimatingCounter()


class Screen:
    """Prints a conversation.

    `verbose` prints every message and all that memory does; otherwise a day is its first question,
    what was answered from memory, and a line about the rest. On a terminal, the newest question,
    what memory did last and three bars stay below what is printed.
    """

    def __init__(self, *, verbose: bool) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self.is_live, self.verbose = sys.stdout.isatty(), verbose
        plain: dict[str, Any] = {"force_terminal": False, "color_system": None}
        self.console = Console(highlight=False, markup=False, **({} if self.is_live else plain))
        columns = ("{task.description:<12}", BarColumn(bar_width=24), "{task.fields[about]}")
        self._bars = Progress(*columns)
        names = ("messages", "observations", "buffered")
        self._tasks = {name: self._bars.add_task(name, about="") for name in names}
        self._live = Live(console=self.console, auto_refresh=False)
        self._now, self._did = Text(""), Text("")
        self._ready, self._at_work = "", set[str]()
        self._day = _Day()

    # --- Lines -----------------------------------------------------------------------------------

    def start(self, windows: dict[str, Any]) -> None:
        self._fill(windows)
        if self.is_live:
            self._live.start()

    def stop(self) -> None:
        self._now = self._did = Text("")
        self._refresh()
        self._live.stop()

    def line(self, text: str, style: str | None = None) -> None:
        # A style of `print` itself would colour the bars too.
        self.console.print(Text(text, style or ""), soft_wrap=not self.is_live)

    def begin_day(self, at: datetime) -> None:
        self.end_day()
        if self.verbose:
            self.line("")
        self.line(f"{at:%A}, {at.day} {at:%B %Y}", "bold blue")

    def end_day(self) -> None:
        """Say in a line what was not shown of a day."""
        if not self.verbose and (rest := self._day.in_short()):
            self.line(f"   {rest}", "yellow")
        self._day = _Day()

    # --- The conversation ------------------------------------------------------------------------

    def message(self, message: BaseMessage) -> None:
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        for call in calls:
            self._day.calls[call["name"]] += 1
            if self.verbose:
                self.line(f"   calls {call['name']} {json.dumps(call['args'])}", "cyan")
        if message.type == "human":
            self._day.questions += 1
            self._now = Text(f"You: {message.text}", "bold", no_wrap=True, overflow="ellipsis")
        if self.verbose or (message.type == "human" and self._day.questions == 1):
            self._print(message)
        self._refresh()

    def moment(self, question: BaseMessage, answer: str, text: str) -> None:
        """Mark an answer that came from memory."""
        if not self.verbose:
            if self._day.questions > 1:
                self._print(question)
                self._day.moments += 1
            self._print(AIMessage(answer))
        self.line(f"   {text}", "bold green")

    def _print(self, message: BaseMessage) -> None:
        if message.text and message.type in {"human", "ai"}:
            who = "You" if message.type == "human" else "Agent"
            self.line(f"{who}: {message.text}", "bold" if who == "You" else None)

    # --- Memory ----------------------------------------------------------------------------------

    def part(self, part: dict[str, Any]) -> None:
        """Show one `data-om-*` part of the stream."""
        kind, data = part["type"].removeprefix("data-om-"), part["data"]
        if kind == "status":
            about = self._fill(data["windows"])
            if self.verbose and not self.is_live:
                self.line(about)
            return
        operation, text = data.get("operationType", ""), data.get("observations", "")
        if kind.startswith("buffering"):
            (self._at_work.add if kind.endswith("start") else self._at_work.discard)(operation)
            self._bars.update(self._tasks["buffered"], about=self._buffered())
        size = _COUNTER.count_text(text)
        if kind in {"activation", "observation-end"}:
            self._day.take_in(operation, data.get("tokensActivated", 0), size)
        phrase = _PHRASES.get(f"{operation} {kind}", f"{operation} {kind}".strip())
        phrase = phrase.format(**data, became=size).replace(" 1 chunks", " 1 chunk")
        if reason := data.get("error") or data.get("reason"):
            phrase += f": {' '.join(reason.split())}"
        style = "magenta" if operation == "reflection" else "yellow"
        self._did = Text(f"   memory: {phrase}", style, no_wrap=True, overflow="ellipsis")
        if self.verbose or kind.endswith("failed"):
            self.line(f"   memory: {phrase}", style)
            for observed in text.splitlines() if kind.endswith("-end") else []:
                self.line(f"      {observed}", "dim")
        self._refresh()

    def _buffered(self) -> str:
        return f"{self._ready}, {len(self._at_work)} at work"

    def _fill(self, windows: dict[str, Any]) -> str:
        """Fill the bars, and say the same in one line."""
        active, (chunks, reflection) = windows["active"], windows["buffered"].values()
        self._ready = f"{chunks['chunks']} chunks ready".replace("1 chunks", "1 chunk")
        self._ready += ", reflection ready" if reflection["observationTokens"] else ""
        sizes = {name: (window["tokens"], window["threshold"]) for name, window in active.items()}
        for name, (size, limit) in sizes.items():
            about = f"{size:,} of {limit:,} tokens"
            self._bars.update(self._tasks[name], completed=size, total=limit, about=about)
        size, limit = chunks["messageTokens"], sizes["messages"][1]
        task = self._tasks["buffered"]
        self._bars.update(task, completed=size, total=limit, about=self._buffered())
        self._refresh()
        about = ", ".join(f"{name} {size}/{limit}" for name, (size, limit) in sizes.items())
        return f"   ({about} tokens; {self._buffered()})"

    def _refresh(self) -> None:
        if self.is_live:
            lines = [line for line in (self._now, self._did) if line]
            self._live.update(Group(*lines, self._bars.get_renderable()), refresh=True)


class _Day:
    """What happened on a day beside what is shown of it."""

    def __init__(self) -> None:
        self.questions = self.moments = self.observed = self.became = self.reflections = 0
        self.calls = Counter[str]()

    def take_in(self, operation: str, observed: int, became: int) -> None:
        if operation == "reflection":
            self.reflections += 1
        else:
            self.observed += observed
            self.became += became

    def in_short(self) -> str:
        more = self.questions - 1 - self.moments
        said = [f"… {more} more question{'s' if more > 1 else ''}"] if more > 0 else []
        if self.calls:
            times = (f"{name} {n}x" if n > 1 else name for name, n in self.calls.items())
            said.append(f"the agent looked into {', '.join(times)}")
        if self.observed:
            said.append(f"memory: {self.observed:,} tokens became {self.became:,}")
        if self.reflections:
            said.append("its log was condensed")
        return "; ".join(said)

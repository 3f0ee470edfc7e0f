# An agent that plans a trip over five days, with Observational Memory watching the conversation.
#
#     pip install "langgraph-om[examples]"
#     python examples/quickstart.py                     # offline: nothing but this file speaks
#     python examples/quickstart.py --db trip.sqlite    # run it twice: the thread goes on
#     GOOGLE_API_KEY=... python examples/quickstart.py  # real models (or OPENAI_API_KEY)
#
# Watch the two windows: messages fill up, become dated observations, and leave the Actor's view;
# when the observation log fills up, it is condensed. Both is done ahead of need, in the background:
# the third line says what is ready and what is at work. The thread itself keeps every message.

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import EstimatingCounter, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from rich.console import Console
    from rich.panel import Panel
    from rich.progress import BarColumn, Progress
    from rich.text import Text
except ImportError as missing:
    sys.exit(f"{missing.name} is missing; install it with: pip install 'langgraph-om[examples]'")

PROMPT = "You plan trips. Be brief, use your tools, keep to what the user decided last."
CONFIG: RunnableConfig = {"configurable": {"thread_id": "trip"}}
COUNTER = EstimatingCounter()

# DAY date · HH:MM what the user says · CALL tool arguments · SAY the offline agent's answer ·
# RECALL word: the offline agent answers with what the observations in its prompt say about a word.
STORY = """
DAY 2026-05-04
08:50 Morning! My sister Ines and I want a week in the mountains in June, can you plan it with me?
SAY Gladly. I need to know when you are both free, what to spend, and how you want to travel.
08:52 Our budget is 1,800 euros for both of us, everything included.
SAY Noted: 1,800 euros for two. Without tickets that leaves roughly 180 per day.
08:55 We do not fly. Trains only, we start in Hamburg. When am I free in June?
CALL calendar {"month": "June"}
SAY From Thursday 11 to Sunday 21 June. The dentist is on the 22nd, a workshop on the 29th.
09:01 Then let us say 12 to 19 June.
SAY 12 to 19 June, seven nights. I keep these dates for now.
09:03 Ines is allergic to hazelnuts and vegetarian, keep that in mind for every place we eat.
SAY I will: vegetarian food, no hazelnuts for Ines. Cakes and pesto are the risky part there.
09:06 Where would you go? We like lakes and quiet places, no party towns.
SAY Lake Bohinj in Slovenia: quiet, swimming, easy valleys. Or the Weissensee, a little dearer.
09:10 Bohinj sounds lovely. Let us take that.
SAY Lake Bohinj then. Next I will look at trains to Ljubljana and on to Bohinjska Bistrica.
DAY 2026-05-06
18:20 Back again. Which trains are there from Hamburg to Ljubljana on 12 June?
CALL trains {"origin": "Hamburg", "destination": "Ljubljana", "day": "2026-06-12"}
SAY Best is the 20:02 night train, in Ljubljana at 11:46. A sleeper for two is 238 euros one way.
18:24 The night train, a sleeper for two please. I can never sleep in a seat.
SAY Sleeper for two on the 20:02 train, 238 euros one way and 476 for both directions.
18:27 I found a guesthouse, Pri Jezeru, 78 euros per night with breakfast. Is that within budget?
CALL costs {"items": {"trains": 476, "rooms, 7 nights": 546, "food, 7 days": 420, "bus": 40}}
SAY Yes, it makes 1,482 euros. That leaves 318 euros for boats, bikes and a reserve.
18:30 Great, I have booked Pri Jezeru. Free cancellation until 1 June, and they bake without nuts.
SAY Booked: Pri Jezeru, 12 to 19 June, free cancellation until 1 June. Breakfast is safe for Ines.
DAY 2026-05-07
12:10 Bad news: Ines has an exam on 15 June that she forgot. We have to move the trip.
SAY Your guesthouse can be cancelled without cost until 1 June. Shall I look at 19 to 26 June?
12:12 Yes. We now travel from 19 to 26 June instead of 12 to 19. Does my calendar allow it?
CALL calendar {"month": "June"}
SAY Almost: the dentist on Monday 22 June at 10:30 falls into the new week. The rest is free.
12:15 I will move the dentist to July. Please check the night train for the 19th.
CALL trains {"origin": "Hamburg", "destination": "Ljubljana", "day": "2026-06-19"}
SAY The 20:02 train runs on 19 June too; 248 euros one way that night, 486 for both directions.
12:19 Pri Jezeru has moved our booking, but it is 84 euros per night in that week.
CALL costs {"items": {"trains": 486, "rooms, 7 nights": 588, "food, 7 days": 420, "bus": 40}}
SAY The new total is 1,534 euros. You stay within the 1,800 and keep 266 euros in reserve.
12:23 Fine. Also, my sister turns thirty on 23 June, so a surprise would be nice!
SAY A sunset tour by boat is 45 euros for two, and Stara Fuzina has a lemon cake without nuts.
12:26 The boat tour, yes! And the lemon cake. Do not mention it when she reads along.
SAY My lips are sealed: boat tour on the evening of 23 June, lemon cake from Stara Fuzina.
DAY 2026-05-09
10:05 Today I want to choose walks. Ines has a bad knee, so nothing above 12 kilometres a day.
SAY These fit: Savica waterfall, 8 km; Mostnica gorge and Voje valley, 11 km; around the lake, 12.
10:08 Savica on the first day, the gorge on the 22nd, the lake loop on the 25th.
SAY Noted: Savica on 20 June, the gorge on the 22nd, the lake loop on the 25th, rest days between.
10:14 Bikes for two of the rest days, normal ones. What does everything cost now?
CALL costs {"items": {"trains": 486, "rooms": 588, "food": 460, "boat": 45, "bikes": 72}}
SAY Now it is 1,651 euros, which leaves 149 euros in reserve.
DAY 2026-05-11
08:30 Good morning. The sleeper is booked, 486 euros for both directions. Ticket number KX-4471.
SAY Wonderful, trains are done: night train on 19 June at 20:02, booking KX-4471.
08:36 Remind me: what must the kitchen know about Ines?
RECALL hazelnut
08:38 And when do we travel now? I always mix the dates up.
RECALL from 19
08:40 Perfect, thank you. I think we are ready.
SAY You are. Night train on 19 June, Pri Jezeru until the 26th, and 149 euros in reserve.
"""
LATER = """
DAY 2026-07-01
19:00 We are back, it was wonderful! One question: what was our budget again?
RECALL budget
"""

Step = str | AIMessage | Callable[[list[BaseMessage]], str]


@dataclass
class Turn:
    """What the user says at some time, and the offline agent's steps until it has answered."""

    at: datetime
    text: str
    steps: list[Step] = field(default_factory=list)


def from_memory(word: str) -> Step:
    def reply(prompt: list[BaseMessage]) -> str:
        told = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
        found = [fact for fact in told if word in fact.lower()]
        return f"You told me: {found[-1]}" if found else "I have no observation about that."

    return reply


def read_story(text: str) -> list[Turn]:
    day, turns = "", list[Turn]()
    for line in text.strip().splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "DAY":
            day = rest
        elif mark == "SAY":
            turns[-1].steps.append(rest)
        elif mark == "RECALL":
            turns[-1].steps.append(from_memory(rest))
        elif mark == "CALL":
            name, _, args = rest.partition(" ")
            call_id = f"call-{day}-{len(turns)}"
            call = {"name": name, "args": json.loads(args), "id": call_id}
            turns[-1].steps.append(AIMessage("", tool_calls=[call]))
        else:
            turns.append(Turn(datetime.fromisoformat(f"{day} {mark}").replace(tzinfo=UTC), rest))
    return turns


def calendar(month: str) -> str:
    """Look up the appointments of a month."""
    june = ["3rd 18:00 choir", "10th 09:00 release", "22nd 10:30 dentist", "29th 09:00 workshop"]
    return "\n".join(june) if month.startswith("June") else "nothing"


def trains(origin: str, destination: str, day: str) -> str:
    """Look up train connections of a day (ISO date)."""
    price = 248 if day.endswith("19") else 238
    rows = [f"{h:02}:24 to {h + 14}:31, {2 + h % 2} changes, {119 + h} euros" for h in range(4, 16)]
    night = f"20:02 to 11:46 (+1 day), change in Munich, sleeper for two {price} euros"
    title = f"{origin} to {destination} on {day}, two people, one way"
    return "\n".join([title, *rows, night])


def costs(items: dict[str, float]) -> str:
    """Add up costs in euros against the budget of 1,800."""
    total = sum(items.values())
    return f"total {total:,.0f} euros, {1800 - total:,.0f} left of 1,800"


# What a part of the stream says, by its operation and kind.
PHRASES = {
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
}


class Screen:
    """Prints the conversation; on a terminal with colours and three bars below it."""

    def __init__(self, *, verbose: bool) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self.live, self.verbose = sys.stdout.isatty(), verbose
        plain: dict[str, Any] = {"force_terminal": False, "color_system": None}
        self.console = Console(highlight=False, markup=False, **({} if self.live else plain))
        columns = ("{task.description:<12}", BarColumn(bar_width=20), "{task.fields[about]}")
        self.bars = Progress(*columns, console=self.console)
        names = ("messages", "observations", "buffered")
        self.tasks = {name: self.bars.add_task(name, about="") for name in names}
        self.ready, self.at_work = "", set[str]()

    def start(self, windows: dict[str, Any]) -> None:
        self.windows(windows)
        if self.live:
            self.bars.start()

    def stop(self) -> None:
        if self.live:
            self.bars.stop()

    def line(self, text: str, style: str | None = None) -> None:
        # A style of `print` itself would colour the bars too.
        self.console.print(Text(text, style or ""), soft_wrap=not self.live)

    def message(self, message: BaseMessage) -> None:
        for call in message.tool_calls if isinstance(message, AIMessage) else []:
            self.line(f"   calls {call['name']} {json.dumps(call['args'])}", "cyan")
        if message.text and message.type in {"human", "ai"}:
            who = "You" if message.type == "human" else "Agent"
            self.line(f"{who}: {message.text}", "bold" if who == "You" else None)

    def part(self, part: dict[str, Any]) -> None:
        """Show one `data-om-*` part of the stream."""
        kind, data = part["type"].removeprefix("data-om-"), part["data"]
        if kind == "status":
            about = self.windows(data["windows"])
            if not self.live:
                self.line(about)
            return
        operation, text = data.get("operationType", ""), data.get("observations", "")
        if kind.startswith("buffering"):
            (self.at_work.add if kind.endswith("start") else self.at_work.discard)(operation)
            self.bars.update(self.tasks["buffered"], about=self.buffered())
        phrase = PHRASES.get(f"{operation} {kind}", f"{operation} {kind}".strip())
        phrase = phrase.format(**data, became=COUNTER.count_text(text))
        phrase = phrase.replace(" 1 chunks", " 1 chunk")
        if reason := data.get("error") or data.get("reason"):
            phrase += f": {' '.join(reason.split())}"
        self.line(f"   memory: {phrase}", "magenta" if operation == "reflection" else "yellow")
        formed = text.splitlines() if kind.endswith("-end") else []
        most = len(formed) if self.verbose else 6 if operation == "observation" else 0
        more = [f"… {len(formed) - most} more"] if 0 < most < len(formed) else []
        for observed in formed[:most] + more:
            self.line(f"      {observed}", "dim")

    def buffered(self) -> str:
        return f"{self.ready}, {len(self.at_work)} at work"

    def windows(self, windows: dict[str, Any]) -> str:
        """Fill the bars, and say the same in one line."""
        active, (chunks, reflection) = windows["active"], windows["buffered"].values()
        self.ready = f"{chunks['chunks']} chunks ready".replace("1 chunks", "1 chunk")
        self.ready += ", reflection ready" if reflection["observationTokens"] else ""
        sizes = {name: (window["tokens"], window["threshold"]) for name, window in active.items()}
        for name, (size, limit) in sizes.items():
            about = f"{size} of {limit} tokens"
            self.bars.update(self.tasks[name], completed=size, total=limit, about=about)
        size, limit = chunks["messageTokens"], sizes["messages"][1]
        task = self.tasks["buffered"]
        self.bars.update(task, completed=size, total=limit, about=self.buffered())
        about = ", ".join(f"{name} {size}/{limit}" for name, (size, limit) in sizes.items())
        return f"   ({about} tokens; {self.buffered()})"


def real_model() -> str | None:
    if os.environ.get("GOOGLE_API_KEY") and find_spec("langchain_google_genai"):
        return "google/gemini-2.5-flash"
    if os.environ.get("OPENAI_API_KEY") and find_spec("langchain_openai"):
        return "openai/gpt-5-mini"
    return None


def tokens(messages: Iterable[BaseMessage]) -> int:
    return sum(map(COUNTER.count_message, messages))


class InputMeter(BaseCallbackHandler):
    """Adds up what the Actor's model is sent, leaving out memory's own calls."""

    def __init__(self) -> None:
        self.tokens = 0

    def on_chat_model_start(self, *call: Any, **about: Any) -> None:
        if "om_role" not in (about.get("metadata") or {}):
            self.tokens += sum(map(tokens, call[1]))


def compare(screen: Screen, memory: ObservationalMemory, state: dict[str, Any]) -> None:
    """Show what the Actor sees against the full history."""
    record, history = state["om"], state["messages"]
    view = memory.llm_input_messages(state, system=PROMPT)
    full, seen, shown = tokens(history), tokens(view), {message.id for message in view}
    observed = [message for message in history if message.id not in shown]
    log = f"{sum(group['tokens'] for group in record['log'])} tokens of observations"
    lines = f"""\
full history:   {len(history)} messages, {full} tokens
the Actor sees: {len(view)} messages, {seen} tokens ({seen / max(full, 1):.0%})
observed:       {len(observed)} messages, {tokens(observed)} tokens, now {log}
observer calls: {record["usage"].get("observation", {}).get("calls", 0)}
reflections:    {record["generation"]}"""
    remembered = "\n".join(group["text"] for group in record["log"])
    screen.line(f"\nThe observation log, as it stands:\n{remembered}\n", "green")
    framed = Panel(lines, title="What memory saves", expand=False)
    screen.console.print(framed if screen.live else lines, soft_wrap=not screen.live)


def add_up(screen: Screen, before: dict[str, Any], after: dict[str, Any], sent: int) -> None:
    """Show what this run cost: memory's calls, and the Actor's input with memory and without."""
    used, old = after["om"]["usage"], before["om"].get("usage", {})
    calls, read, written = (
        sum(spent[key] - old.get(name, {}).get(key, 0) for name, spent in used.items())
        for key in ("calls", "inputTokens", "outputTokens")
    )
    history, full = [SystemMessage(PROMPT), *after["messages"]], 0
    for at in range(len(before["messages"]) + 1, len(history)):
        full += tokens(history[:at]) if history[at].type == "ai" else 0
    screen.line(
        f"memory spent: {calls} calls, {read:,} tokens in, {written:,} out; "
        f"your agent's input was {sent:,} tokens with memory, {full:,} without"
    )


Times = dict[str | None, datetime]


def build(
    model: str | None, saver: SqliteSaver, steps: deque[Step], times: Times
) -> tuple[Any, ObservationalMemory]:
    """Make the agent and its memory; `steps` is what the offline agent says next."""

    def answer(prompt: list[BaseMessage]) -> str | AIMessage:
        step = steps.popleft()
        return step(prompt) if callable(step) else step

    offline = ScriptedChatModel(
        actor=answer,
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector(ratio=0.6).reply,
    )
    memory = ObservationalMemory(
        model or offline,
        # Tiny, so that five days suffice to see it all; the defaults are 30,000 and 40,000.
        observation={"message_tokens": 600},
        reflection={"observation_tokens": 600},
        # Memory is told the time of the story; where time is real, there is nothing to tell.
        clock=lambda: times["now"],
        message_time=lambda message: times.get(message.id),
    )
    tools = [calendar, trains, costs]
    agent = create_memory_agent(
        model or offline, tools, memory=memory, prompt=PROMPT, checkpointer=saver
    )
    return agent, memory


def see(message: BaseMessage, times: Times) -> None:
    if written := message.additional_kwargs.get("created_at"):
        times["now"] = datetime.fromisoformat(written)
    times[message.id] = times["now"]


def converse(screen: Screen, model: str | None, saver: SqliteSaver, delay: float) -> None:
    steps, meter = deque[Step](), InputMeter()
    times: Times = {"now": datetime(2026, 5, 4, tzinfo=UTC)}
    agent, memory = build(model, saver, steps, times)
    before = {"om": {}, "messages": [], **agent.get_state(CONFIG).values}
    told = before["messages"]
    screen.start(memory.status(before)["windows"])
    for message in told:
        see(message, times)
    if told:
        screen.line(f"The thread goes on after {len(told)} messages.")
    left = read_story(STORY)[sum(message.type == "human" for message in told) :]
    with memory:
        for turn in left or read_story(LATER):
            if turn.at.date() != times["now"].date() or len(times) == 1:
                screen.line(f"\n{turn.at:%A, %d %B %Y}", "bold blue")
            steps.extend(turn.steps)
            said = {"created_at": turn.at.isoformat()}
            question = HumanMessage(turn.text, additional_kwargs=said)
            see(question, times)
            screen.message(question)
            inputs: Any = {"messages": [question]}
            config: RunnableConfig = {**CONFIG, "callbacks": [meter]}
            for mode, chunk in agent.stream(inputs, config, stream_mode=["updates", "custom"]):
                data: Any = chunk
                if mode == "custom":
                    screen.part(data)
                for message in data.get("agent", {}).get("messages", []):
                    see(message, times)
                    screen.message(message)
            time.sleep(delay)
        after = finish(screen, agent, memory)
    screen.stop()
    compare(screen, memory, after)
    add_up(screen, before, after, meter.tokens)
    if model is None:
        screen.line(
            "Offline, the observations are extracts made by a stand-in; a real model writes better "
            "ones (set GOOGLE_API_KEY or OPENAI_API_KEY)."
        )


def finish(screen: Screen, agent: Any, memory: ObservationalMemory) -> dict[str, Any]:
    """Take in what is still at work: its result would be lost with the process."""
    memory.flush()
    state: dict[str, Any] = agent.get_state(CONFIG).values
    done = memory.step(state["om"], state["messages"], thread_id="trip", final=True)
    for part in done.events:
        screen.part(part)
    agent.update_state(CONFIG, {"om": done.record}, as_node="agent")
    state = {**state, "om": done.record}
    screen.windows(memory.status(state)["windows"])
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent that plans a trip, and its memory.")
    parser.add_argument("--db", type=Path, help="SQLite file; with the same one the thread goes on")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds after each turn")
    parser.add_argument("--verbose", action="store_true", help="show observations in full")
    options = parser.parse_args()
    screen, model = Screen(verbose=options.verbose), real_model()
    screen.line(f"Models: {model or 'offline (a scripted agent, an extractive memory)'}")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = str(options.db or Path(folder) / "trip.sqlite")
        saver = stack.enter_context(SqliteSaver.from_conn_string(path))
        stack.callback(screen.stop)
        try:
            converse(screen, model, saver, options.delay)
        except KeyboardInterrupt:
            screen.line("Stopped. Run it again with the same --db, and the thread goes on.")


if __name__ == "__main__":
    main()

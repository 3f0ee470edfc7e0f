# An agent that plans a trip over five days, with Observational Memory watching the conversation.
#
#     pip install "langgraph-om[examples]"
#     python examples/quickstart.py                     # offline: nothing but this file speaks
#     python examples/quickstart.py --db trip.sqlite    # run it twice: the thread goes on
#     GOOGLE_API_KEY=... python examples/quickstart.py  # real models (or OPENAI_API_KEY)
#
# Watch the two windows: messages fill up, become dated observations, and leave the Actor's view;
# when the observation log fills up, it is condensed. The thread itself keeps every message.

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

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import ObservationalMemory, TokenxCounter, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from rich.console import Console
    from rich.panel import Panel
    from rich.progress import BarColumn, Progress, TextColumn
except ImportError as missing:
    sys.exit(f"{missing.name} is missing; install it with: pip install 'langgraph-om[examples]'")

PROMPT = "You plan trips. Be brief, use your tools, keep to what the user decided last."
CONFIG: RunnableConfig = {"configurable": {"thread_id": "trip"}}

# DAY date · HH:MM what the user says · CALL tool arguments · SAY the offline agent's answer ·
# RECALL word: the offline agent answers with what the observations in its prompt say about a word.
STORY = """
DAY 2026-05-04
08:50 Morning! My sister Ines and I want a week in the mountains in June, can you plan it with me?
SAY Gladly. To begin with I need three things: when you are both free, what you would like to spend
  in total, and how you want to travel.
08:52 Our budget is 1,800 euros for both of us, everything included.
SAY Noted: 1,800 euros for two people. With train tickets for about 500 that leaves roughly 180 per
  day for rooms, food and everything else.
08:55 We do not fly. Trains only, we start in Hamburg. When am I free in June?
CALL calendar {"month": "June"}
SAY You are free from Thursday 11 to Sunday 21 June. After that there is the dentist on Monday the
  22nd and a workshop on the 29th.
09:01 Then let us say 12 to 19 June.
SAY 12 to 19 June, seven nights. I keep these dates for now.
09:03 Ines is allergic to hazelnuts and vegetarian, keep that in mind for every place we eat.
SAY I will: vegetarian food and no hazelnuts for Ines. In many alpine kitchens cakes and pesto are
  the risky part, so I will look for places that label them.
09:06 Where would you go? We like lakes and quiet places, no party towns.
SAY Three ideas: 1. Lake Bohinj in Slovenia, quiet, swimming and easy valleys. 2. Lake Weissensee in
  Carinthia, very calm and a little dearer. 3. Zuberec in the Tatra, cheapest, but the longest ride.
09:10 Bohinj sounds lovely. Let us take that.
SAY Lake Bohinj then. Next I will look at trains to Ljubljana and on to Bohinjska Bistrica.
DAY 2026-05-06
18:20 Back again. Which trains are there from Hamburg to Ljubljana on 12 June?
CALL trains {"origin": "Hamburg", "destination": "Ljubljana", "day": "2026-06-12"}
SAY The best fit is the 20:02 night train: it reaches Ljubljana at 11:46 with one change in Munich.
  In a sleeper for two it costs 238 euros one way. The day trains take 14 hours and cost less.
18:24 The night train, a sleeper for two please. I can never sleep in a seat.
SAY Sleeper for two on the 20:02 train, 238 euros one way and 476 for both directions.
18:27 I found a guesthouse, Pri Jezeru, 78 euros per night with breakfast. Is that within budget?
CALL costs {"items": {"trains": 476, "rooms, 7 nights": 546, "food, 7 days": 420, "bus": 40}}
SAY Yes. Trains 476, rooms 546, food 420 and local buses 40 make 1,482 euros. That leaves 318 euros
  for boats, bikes and a reserve.
18:30 Great, I have booked Pri Jezeru. Free cancellation until 1 June, and they bake without nuts.
SAY Booked: Pri Jezeru, 12 to 19 June, free cancellation until 1 June. Breakfast is safe for Ines.
DAY 2026-05-07
12:10 Bad news: Ines has an exam on 15 June that she forgot. We have to move the trip.
SAY A pity, but it can be solved: your guesthouse can be cancelled without cost until 1 June. Shall
  I look at the week after, 19 to 26 June?
12:12 Yes. We now travel from 19 to 26 June instead of 12 to 19. Does my calendar allow it?
CALL calendar {"month": "June"}
SAY Almost: the dentist on Monday 22 June at 10:30 falls into the new week. Everything else that
  week is free; the workshop on the 29th is after your return.
12:15 I will move the dentist to July. Please check the night train for the 19th.
CALL trains {"origin": "Hamburg", "destination": "Ljubljana", "day": "2026-06-19"}
SAY The 20:02 train also runs on 19 June, with the same change in Munich. The sleeper is 10 euros
  dearer that night: 248 euros one way, so 486 for both directions.
12:19 Pri Jezeru has moved our booking, but it is 84 euros per night in that week.
CALL costs {"items": {"trains": 486, "rooms, 7 nights": 588, "food, 7 days": 420, "bus": 40}}
SAY The new total is 1,534 euros: trains 486, rooms 588, food 420, buses 40. You stay within the
  1,800 and keep 266 euros in reserve.
12:23 Fine. Also, my sister turns thirty on 23 June, so a surprise would be nice!
SAY What a lucky coincidence of dates. A sunset tour by electric boat on 23 June costs 45 euros for
  two, and the bakery in Stara Fuzina makes a lemon cake without any nuts to order.
12:26 The boat tour, yes! And the lemon cake. Do not mention it when she reads along.
SAY My lips are sealed: boat tour on the evening of 23 June, lemon cake from Stara Fuzina.
DAY 2026-05-09
10:05 Today I want to choose walks. Ines has a bad knee, so nothing above 12 kilometres a day.
SAY Then these fit: 1. Savica waterfall from the lake, 8 km, 300 m up. 2. Mostnica gorge and Voje
  valley, 11 km, 250 m up. 3. Around the lake, 12 km, flat. I leave out the Seven Lakes, 18 km.
10:08 Savica on the first day, the gorge on the 22nd, the lake loop on the 25th.
SAY Noted: Savica waterfall on 20 June, Mostnica gorge on 22 June, the lake loop on 25 June. That
  keeps a rest day after each walk.
10:14 Electric bikes for two of the rest days. What does everything cost now?
CALL costs {"items": {"trains": 486, "rooms": 588, "food": 460, "boat": 45, "bikes": 140}}
SAY Now 1,719 euros: the 1,534 of before, 45 for the boat and 140 for two days of electric bikes. 81
  euros are left.
10:17 Hmm, that is too tight. Normal bikes instead of electric ones, please.
CALL costs {"items": {"trains": 486, "rooms": 588, "food": 460, "boat": 45, "bikes": 72}}
SAY With normal bikes it is 1,651 euros, which leaves 149 euros in reserve.
DAY 2026-05-11
08:30 Good morning. The sleeper is booked, 486 euros for both directions. Ticket number KX-4471.
SAY Wonderful, trains are done: night train on 19 June at 20:02, booking KX-4471.
08:33 What should we pack? Short, please.
SAY Rain jackets, walking shoes, a knee bandage and poles for Ines, swimwear, sun cream, a small
  first-aid kit with her allergy medicine, cash for the boat, and the guesthouse's confirmation.
08:36 Remind me: what must the kitchen know about Ines?
RECALL hazelnut
08:38 And when do we travel now? I always mix the dates up.
RECALL from 19
08:40 Perfect, thank you. I think we are ready.
SAY You are. Night train on 19 June, Pri Jezeru until the 26th, a surprise on the 23rd, and 149
  euros of the 1,800 in reserve. Have a wonderful week at the lake!
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
    for line in text.strip().replace("\n  ", " ").splitlines():
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
    rows = [f"{h:02}:24 to {h + 14}:31, {2 + h % 2} changes, {119 + h} euros" for h in range(4, 10)]
    night = f"20:02 to 11:46 (+1 day), change in Munich, sleeper for two {price} euros"
    title = f"{origin} to {destination} on {day}, two people, one way"
    return "\n".join([title, *rows, night])


def costs(items: dict[str, float]) -> str:
    """Add up costs in euros against the budget of 1,800."""
    total = sum(items.values())
    return f"total {total:,.0f} euros, {1800 - total:,.0f} left of 1,800"


class Screen:
    """Prints the conversation; on a terminal with colours and two bars below it."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self.live = sys.stdout.isatty()
        plain: dict[str, Any] = {"force_terminal": False, "color_system": None}
        self.console = Console(highlight=False, markup=False, **({} if self.live else plain))
        self.bars = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} tokens"),
            console=self.console,
        )
        self.windows = {name: self.bars.add_task(name) for name in ("messages", "observations")}

    def line(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, soft_wrap=not self.live)

    def message(self, message: BaseMessage) -> None:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                self.line(f"   calls {call['name']} {json.dumps(call['args'])}", "cyan")
        if message.text and message.type in {"human", "ai"}:
            who = "You" if message.type == "human" else "Agent"
            self.line(f"{who}: {message.text}", "bold" if who == "You" else None)

    def part(self, part: dict[str, Any]) -> None:
        """Show one `data-om-*` part of the stream."""
        kind, data = part["type"].removeprefix("data-om-"), part["data"]
        if kind == "status":
            self.status(data["windows"]["active"])
            return
        style = "magenta" if data.get("operationType") == "reflection" else "yellow"
        told = {key: value for key, value in data.items() if isinstance(value, int)}
        told.pop("durationMs", None)  # measured in the time of the story
        about = ", ".join(f"{key} {value:,}" for key, value in told.items())
        self.line(f"   [{data.get('operationType', 'memory')}: {kind}] {about}", style)
        if "error" in data:
            self.line(f"      {data['error']}", style)
        if kind.endswith("-end"):
            for observed in data.get("observations", "").splitlines():
                self.line(f"      {observed}", style)

    def status(self, windows: dict[str, dict[str, int]]) -> None:
        if self.live:
            for name, task in self.windows.items():
                window = windows[name]
                self.bars.update(task, completed=window["tokens"], total=window["threshold"])
            return
        sizes = (f"{name} {w['tokens']}/{w['threshold']}" for name, w in windows.items())
        self.line(f"   ({', '.join(sizes)} tokens)")


def real_model() -> str | None:
    if os.environ.get("GOOGLE_API_KEY") and find_spec("langchain_google_genai"):
        return "google/gemini-2.5-flash"
    if os.environ.get("OPENAI_API_KEY") and find_spec("langchain_openai"):
        return "openai/gpt-5-mini"
    return None


def compare(screen: Screen, memory: ObservationalMemory, state: dict[str, Any]) -> None:
    """Show what the Actor sees against the full history."""

    def tokens(messages: Iterable[BaseMessage]) -> int:
        return sum(counter.count_message(message) for message in messages)

    counter, record, history = TokenxCounter(), state["om"], state["messages"]
    view = memory.llm_input_messages(state, system=PROMPT)
    full, seen = tokens(history), tokens(view)
    shown = {message.id for message in view}
    observed = [message for message in history if message.id not in shown]
    log = f"{sum(group['tokens'] for group in record['log'])} tokens of observations"
    lines = [
        f"full history:   {len(history)} messages, {full} tokens",
        f"the Actor sees: {len(view)} messages, {seen} tokens ({seen / max(full, 1):.0%})",
        f"observed:       {len(observed)} messages, {tokens(observed)} tokens, now {log}",
        f"observer calls: {record['usage'].get('observation', {}).get('calls', 0)}",
        f"reflections:    {record['generation']}",
    ]
    remembered = "\n".join(group["text"] for group in record["log"])
    screen.line(f"\nThe observation log, as it stands:\n{remembered}\n", "green")
    if screen.live:
        screen.console.print(Panel("\n".join(lines), title="What memory saves", expand=False))
    else:
        screen.line("\n".join(lines))


class StoryClock:
    """Tells memory the time of the story; where time is real, there is nothing to tell."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 4, tzinfo=UTC)
        self.seen: dict[str | None, datetime] = {}

    def __call__(self) -> datetime:
        return self.now

    def of(self, message: BaseMessage) -> datetime | None:
        return self.seen.get(message.id)

    def see(self, message: BaseMessage) -> None:
        if written := message.additional_kwargs.get("created_at"):
            self.now = datetime.fromisoformat(written)
        self.seen[message.id] = self.now


def converse(screen: Screen, model: str | None, saver: SqliteSaver, delay: float) -> None:
    steps: deque[Step] = deque()

    def answer(prompt: list[BaseMessage]) -> str | AIMessage:
        step = steps.popleft()
        return step(prompt) if callable(step) else step

    offline = ScriptedChatModel(
        actor=answer,
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector(ratio=0.6).reply,
    )
    clock = StoryClock()
    memory = ObservationalMemory(
        model or offline,
        # Tiny, so that five days suffice to see it all; the defaults are 30,000 and 40,000.
        observation={"message_tokens": 600},
        reflection={"observation_tokens": 600},
        clock=clock,
        message_time=clock.of,
    )
    agent = create_memory_agent(
        model or offline,
        [calendar, trains, costs],
        memory=memory,
        prompt=PROMPT,
        checkpointer=saver,
    )

    told = agent.get_state(CONFIG).values.get("messages", [])
    for message in told:
        clock.see(message)
    if told:
        screen.line(f"The thread goes on after {len(told)} messages.")
    left = read_story(STORY)[sum(message.type == "human" for message in told) :]
    for turn in left or read_story(LATER):
        if turn.at.date() != clock.now.date() or not clock.seen:
            screen.line(f"\n{turn.at:%A, %d %B %Y}", "bold blue")
        steps.extend(turn.steps)
        said = {"created_at": turn.at.isoformat()}
        question = HumanMessage(turn.text, additional_kwargs=said)
        clock.see(question)
        screen.message(question)
        inputs: Any = {"messages": [question]}
        for mode, chunk in agent.stream(inputs, CONFIG, stream_mode=["updates", "custom"]):
            data: Any = chunk
            if mode == "custom":
                screen.part(data)
            for message in data.get("agent", {}).get("messages", []):
                clock.see(message)
                screen.message(message)
        time.sleep(delay)
    compare(screen, memory, agent.get_state(CONFIG).values)


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent that plans a trip, and its memory.")
    parser.add_argument("--db", type=Path, help="SQLite file; with the same one the thread goes on")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds after each turn")
    options = parser.parse_args()
    screen, model = Screen(), real_model()
    screen.line(f"Models: {model or 'offline (a scripted agent, an extractive memory)'}")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = str(options.db or Path(folder) / "trip.sqlite")
        saver = stack.enter_context(SqliteSaver.from_conn_string(path))
        if screen.live:
            stack.enter_context(screen.bars)
        try:
            converse(screen, model, saver, options.delay)
        except KeyboardInterrupt:
            screen.line("Stopped. Run it again with the same --db, and the thread goes on.")


if __name__ == "__main__":
    main()

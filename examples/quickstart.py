# An agent that plans a trip over six weeks, with Observational Memory watching the conversation.
#
#     pip install "langgraph-om[examples]"
#     python examples/quickstart.py                     # offline: nothing but this folder speaks
#     python examples/quickstart.py --verbose           # every message, and all that memory does
#     python examples/quickstart.py --db trip.sqlite    # run it twice: the thread goes on
#     python examples/quickstart.py --token-budget 8000  # larger windows; 0: the defaults
#     OPENAI_API_KEY=... python examples/quickstart.py  # a real model; Google's and Anthropic's too
#
# Watch the two windows: messages fill up, become dated observations, and leave the prompt of your
# agent; when the observation log fills up, it is condensed. Both is done ahead of need, in the
# background. The thread itself keeps every message. Lines that begin with `<-` mark answers to what
# the prompt holds as an observation only; the bill at the end says what all of this cost.
#
# What it plays is in `trip/`: the story, the tools, what is shown, and how the bill is made.

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any, cast

from chat_models import choose_model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from trip.bill import Bill, Prices, count
    from trip.screen import Screen
    from trip.story import Step, Turn, read_turns, tell_moment
    from trip.world import TOOLS
except ImportError as missing:
    sys.exit(f"{missing.name} is missing; install it with: pip install 'langgraph-om[examples]'")

PROMPT = "You plan trips. Be brief, use your tools, keep to what the user decided last."
CONFIG: RunnableConfig = {"configurable": {"thread_id": "trip"}}
BEST = 8  # Lines of the log that are shown at the end.


class Clock:
    """Tells memory the time of the story; where time is real, there is nothing to tell."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 4, tzinfo=UTC)
        self._times = dict[str | None, datetime]()

    def see(self, message: BaseMessage) -> None:
        """Move on with what the user says; an answer is of the same time."""
        if written := message.additional_kwargs.get("created_at"):
            self.now = datetime.fromisoformat(written)
        self._times[message.id] = self.now

    def time_of(self, message: BaseMessage) -> datetime | None:
        return self._times.get(message.id)


SMALL: Mapping[str, Any] = {
    "observation": {"message_tokens": 2_400, "buffer_tokens": 0.5},
    "reflection": {"observation_tokens": 1_800},
}
"""Windows in which one trip suffices to see it all; the defaults are 30,000 and 40,000 tokens."""


def read_limits(token_budget: int | None) -> Mapping[str, Any]:
    """Return the sizes of both windows: those of this example, a budget, or with 0 the defaults."""
    if token_budget is None:
        return SMALL
    return {"token_budget": token_budget} if token_budget else {}


def build(
    model: Any, saver: SqliteSaver, steps: deque[Step], clock: Clock, limits: Mapping[str, Any]
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
        **limits,
        clock=lambda: clock.now,
        message_time=clock.time_of,
    )
    agent = create_memory_agent(
        model or offline, TOOLS, memory=memory, system_prompt=PROMPT, checkpointer=saver
    )
    return agent, memory


def converse(
    screen: Screen,
    model: Any,
    saver: SqliteSaver,
    prices: Prices,
    *,
    delay: float,
    limits: Mapping[str, Any],
) -> tuple[ObservationalMemory, dict[str, Any], Bill]:
    """Play what is left of the story, or what comes after it."""
    steps, clock = deque[Step](), Clock()
    agent, memory = build(model, saver, steps, clock, limits)
    state = {"om": {}, "messages": [], **agent.get_state(CONFIG).values}
    bill, told = Bill(state, PROMPT, prices), state["messages"]
    if told:
        screen.line(f"The thread goes on after {len(told)} messages.")
    for message in told:
        clock.see(message)
    asked = sum(message.type == "human" for message in told)
    screen.start(memory.status(state)["windows"])
    with memory:
        for turn in read_turns("story")[asked:] or read_turns("later"):
            is_new_day = turn.at.date() != clock.now.date() or not bill.turns
            if is_new_day:
                screen.begin_day(turn.at)
                bill.meter.new_day()
            steps.extend(turn.steps)
            state = take_turn(screen, agent, turn, clock, bill)
            bill.add_turn(state, is_new_day=is_new_day)
            time.sleep(delay)
        screen.end_day()
        state = finish(screen, agent, memory)
    bill.close(state)
    return memory, state, bill


def take_turn(screen: Screen, agent: Any, turn: Turn, clock: Clock, bill: Bill) -> dict[str, Any]:
    """Ask the agent, and show what it says and what its memory does meanwhile."""
    question = HumanMessage(turn.text, additional_kwargs={"created_at": turn.at.isoformat()})
    clock.see(question)
    screen.message(question)
    inputs: Any = {"messages": [question]}
    config: RunnableConfig = {**CONFIG, "callbacks": [bill.meter]}
    for mode, chunk in agent.stream(inputs, config, stream_mode=["updates", "custom"]):
        data: Any = chunk
        if mode == "custom":
            screen.part(data)
        for message in data.get("agent", {}).get("messages", []):
            clock.see(message)
            screen.message(message)
    state: dict[str, Any] = agent.get_state(CONFIG).values
    history, answer = state["messages"][:-1], state["messages"][-1].text
    if turn.recalls and (text := tell_moment(bill.meter.prompt, history, answer, turn.recalls)):
        screen.moment(question, answer, text)
    return state


def finish(screen: Screen, agent: Any, memory: ObservationalMemory) -> dict[str, Any]:
    """Take in what is still at work: its result would be lost with the process."""
    memory.flush()
    state: dict[str, Any] = agent.get_state(CONFIG).values
    done = memory.step(state["om"], state["messages"], thread_id="trip", final=True)
    for part in done.events:
        screen.part(cast("dict[str, Any]", part))
    agent.update_state(CONFIG, {"om": done.record}, as_node="agent")
    state = {**state, "om": done.record}
    screen.part({"type": "data-om-status", "data": memory.status(state)})
    return state


def show_log(screen: Screen, record: dict[str, Any]) -> None:
    """Show the observations that tell most: those with the most names and numbers, uncut."""
    day, items = "", list[tuple[int, str]]()
    lines = [line for group in record["log"] for line in group["text"].splitlines()]
    for line in lines:
        if line.startswith("Date: "):
            day = line.removeprefix("Date: ")
        elif "🔴" in line and "…" not in line:
            items.append(
                (len(re.findall(r"\b[A-Z0-9][\w,:-]+", line)), f"{day}  {line.lstrip('* ')}")
            )
    best = [text for _, text in sorted(items, reverse=True)[:BEST]]
    shown = lines if screen.verbose else [text for _, text in items if text in best]
    screen.line(f"\nThe observation log, {len(shown)} of its {len(lines)} lines:", "bold")
    for text in shown:
        screen.line(f"   {text}", "green")


def compare(screen: Screen, memory: ObservationalMemory, state: dict[str, Any]) -> None:
    """Show what the agent's prompt holds against the full history."""
    record, history = state["om"], state["messages"]
    view = memory.llm_input_messages(state, system=PROMPT)
    full, seen = count(history), count(view)
    calls = record["usage"].get("observation", {}).get("calls", 0)
    screen.line(
        f"\nfull history:   {len(history)} messages, {full:,} tokens\n"
        f"the agent sees: {len(view)} messages, {seen:,} tokens ({seen / max(full, 1):.0%}), "
        f"after {calls} observations and {record['generation']} reflections",
        "bold",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent that plans a trip, and its memory.")
    parser.add_argument("--db", type=Path, help="SQLite file; with the same one the thread goes on")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds after each turn")
    parser.add_argument("--verbose", action="store_true", help="show every message and observation")
    parser.add_argument(
        "--price",
        nargs=3,
        type=float,
        default=(3.0, 0.3, 2.5),
        metavar=("AGENT_READS", "MEMORY_READS", "MEMORY_WRITES"),
        help="dollars per million tokens (3 0.3 2.5)",
    )
    parser.add_argument(
        "--token-budget",
        type=int,
        help="tokens for messages and observations together; 0: the defaults of memory",
    )
    options = parser.parse_args()
    if not all(0 <= price < inf for price in options.price):
        parser.error(
            f"--price is {options.price}; pass three prices of 0 or more, such as 3 0.3 2.5"
        )
    screen, model = Screen(verbose=options.verbose), choose_model(None)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = str(options.db or Path(folder) / "trip.sqlite")
        saver = stack.enter_context(SqliteSaver.from_conn_string(path))
        stack.callback(screen.stop)
        try:
            memory, state, bill = converse(
                screen,
                model,
                saver,
                Prices(*options.price),
                delay=options.delay,
                limits=read_limits(options.token_budget),
            )
        except KeyboardInterrupt:
            screen.line("Stopped. Run it again with the same --db, and the thread goes on.")
            return
        screen.stop()
    show_log(screen, state["om"])
    compare(screen, memory, state)
    screen.line("\nWhat it cost:", "bold")
    for line in bill.lines():
        screen.line(f"   {line}")
    if model is None:
        screen.line(
            "Offline, the observations are extracts made by a stand-in; a real model writes better "
            "ones (set GOOGLE_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY)."
        )


if __name__ == "__main__":
    main()

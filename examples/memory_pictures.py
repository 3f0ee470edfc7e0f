# The picture of the inspector in the README and the docs, made by a browser.
#
#     pip install "langgraph-om[web]" uvicorn   # and Chromium, as `chromium`
#     python examples/memory_pictures.py docs   # writes docs/inspector-light.png and -dark.png
#
# The models are scripted, and the clock is set, so that the picture is the same each time.

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import uvicorn
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel
from langgraph_om.tools.inspector import memory_app

CONFIG: RunnableConfig = {"configurable": {"thread_id": "boat", "resource_id": "noor"}}
SIZE = (1280, 860)
"""Of the window, in pixels."""

DAYS = [
    (
        "I am Noor, from Tromsø. My dog Rex and I bought a sailing boat, a Colin Archer of 1934.",
        (
            "* 🔴 (09:00) User is called Noor; lives in Tromsø with her dog Rex\n"
            "* 🔴 (09:00) User has bought an old sailing boat, a Colin Archer of 1934\n"
            "* 🟡 (09:01) Asked how long the restoration may take; two summers at least\n"
            "  * -> The hull first, then the rig"
        ),
    ),
    (
        "The hull wants paint. I like the dark green, my father's boat was like that.",
        (
            "* 🔴 (09:00) User wants the hull dark green, as her father's boat was\n"
            "* 🟡 (09:00) Hull: 12 m², two coats, 3.5 l of paint; about 6 hours\n"
            "* ✅ (09:01) Paint is ordered, arrives on Friday"
        ),
    ),
    (
        "We launch on the first of June. My sister Liv comes from Bergen, she is afraid of water.",
        (
            "* 🔴 (09:00) Launch is on June 1; sister Liv comes from Bergen, is afraid of water\n"
            "* 🟡 (09:01) Asked for life vests: sizes M for Noor and S for Liv"
        ),
    ),
    ("What is left to do before that?", ""),  # not observed yet
]


def observations(begin: datetime) -> str:
    """What the Observer answers about the first three days."""
    days = [
        f"Date: {day:%b} {day.day}, {day.year}\n{items}"
        for week, (_, items) in enumerate(DAYS[:-1])
        for day in [begin + timedelta(weeks=week)]
    ]
    return (
        "<observations>\n" + "\n\n".join(days) + "\n</observations>\n"
        "<current-task>Noor asks what is left to do before the launch on June 1.</current-task>\n"
        "<suggested-response>The vests, and a second coat of paint.</suggested-response>"
    )


ANSWERS = [
    (
        "Lovely. Tell me more about her, and I will help you plan. For a wooden hull of that age,"
        " count on two summers: the hull first, then the rig. Before you buy anything, have a"
        " surveyor tap the planks below the waterline and look at the keel bolts."
    ),
    (
        "Dark green it is. The hull has about 12 square meters above the waterline. Two coats take"
        " 3.5 liters of paint and about six hours, with a day of drying in between. I have ordered"
        " the paint; it arrives on Friday."
    ),
    (
        "Then we have two months. For the launch you need life vests: size M for you and size S"
        " for Liv. If she is afraid of water, let her come aboard in the harbor first, and sail on"
        " a calm evening."
    ),
    "Two things: order the vests, and give the hull its second coat.",
]


def say(week: int) -> AIMessage:
    """Return what the agent answers, and what a model would say that it took."""
    read = 900 + 420 * week
    return AIMessage(
        ANSWERS[week],
        id=f"answer-{week}",
        usage_metadata={"input_tokens": read, "output_tokens": 90, "total_tokens": read + 90},
    )


def talk() -> tuple[ObservationalMemory, Any]:
    """Have the conversation; return the memory, and the agent with its threads."""
    begin = datetime(2026, 4, 4, 9, tzinfo=UTC)
    now = [begin]
    minutes: Iterator[int] = count()
    said = [say(week) for week in range(len(DAYS))]
    model = ScriptedChatModel(said, observer=[observations(begin)])
    memory = ObservationalMemory(
        model,
        token_budget=16_000,
        buffering=InlineBuffering(),
        clock=lambda: now[0] + timedelta(seconds=next(minutes)),
    )
    agent = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    for week, (text, _) in enumerate(DAYS):
        now[0] = begin + timedelta(weeks=week)
        agent.invoke({"messages": [HumanMessage(text, id=f"message-{week}")]}, CONFIG)
        if week == len(DAYS) - 2:
            memory.of(agent, CONFIG).observe()  # as at the end of a session
    for update in (
        memory.updates.set_title("An old boat in Tromsø"),
        memory.updates.correct(
            "launch is on June 1", "Launch is on June 1; sister Liv comes from Trondheim"
        ),
        memory.updates.pin("her dog Rex"),
    ):
        agent.update_state(CONFIG, {"om": update})
    return memory, agent


@contextmanager
def serve(memory: ObservationalMemory, agent: Any) -> Iterator[str]:
    """Serve the inspector on this machine; yield its address."""
    app = memory_app(memory, graph=agent, edit=True)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def take(address: str, scheme: str, target: Path) -> None:
    """Have the browser show a page to people who like it light, or dark, and keep the picture."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--user-data-dir={folder}", f"--window-size={SIZE[0]},{SIZE[1]}"]
        options += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
        command = ["chromium", *options, f"--screenshot={target}", address]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    memory, agent = talk()
    with serve(memory, agent) as inspector:
        for scheme in ("light", "dark"):
            target = folder / f"inspector-{scheme}.png"
            take(f"{inspector}/memory/boat?message=0", scheme, target)
            print(f"{target.name}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

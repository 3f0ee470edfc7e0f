# Pictures of what an agent remembers, made by a browser, light and dark: the page that
# `memory.view(state).to_html(path)` writes, as memory-*.png, and the inspector, as inspector-*.png.
#
#     pip install "langgraph-om[web]" uvicorn   # and Chromium, as `chromium`
#     python examples/memory_pictures.py docs
#
# The models are scripted, and the clock is set, so that the pictures are the same each time.

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
from langgraph_om.web import memory_app

CONFIG: RunnableConfig = {"configurable": {"thread_id": "boat", "resource_id": "noor"}}
SIZES = {"memory": (900, 1020), "inspector": (1280, 860)}
"""Of the windows, in pixels."""

DAYS = [
    (
        "I am Noor. I live in Tromsø with my dog Rex, and I have bought an old sailing boat.",
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
            "* 🔴 (18:30) User wants the hull dark green, as her father's boat was\n"
            "* 🟡 (18:31) Hull: 12 m², two coats, 3.5 l of paint; about 6 hours\n"
            "* ✅ (18:40) Paint is ordered, arrives on Friday"
        ),
    ),
    (
        "We launch on the first of June. My sister Liv comes from Bergen, she is afraid of water.",
        (
            "* 🔴 (20:12) Launch is on June 1; sister Liv comes from Bergen, is afraid of water\n"
            "* 🟡 (20:15) Asked for life vests: sizes M for Noor and S for Liv"
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


def say(week: int) -> AIMessage:
    """Return what the agent answers, and what a model would say that it took."""
    long = "Here is what I would do, in which order, and what you need for it. " * 30
    read = 900 + 420 * week
    return AIMessage(
        long,
        id=f"answer-{week}",
        usage_metadata={"input_tokens": read, "output_tokens": 440, "total_tokens": read + 440},
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
        observation={"message_tokens": 1600, "buffer_tokens": False},
        reflection={"observation_tokens": 600},
        buffering=InlineBuffering(),
        clock=lambda: now[0] + timedelta(seconds=next(minutes)),
    )
    agent = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    for week, (text, _) in enumerate(DAYS):
        now[0] = begin + timedelta(weeks=week)
        agent.invoke({"messages": [HumanMessage(text, id=f"message-{week}")]}, CONFIG)
    for update in (
        memory.updates.set_title("An old boat in Tromsø"),
        memory.updates.correct(
            "launch is on June 1", "Launch is on June 8; sister Liv comes from Bergen"
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


def take(address: str, scheme: str, size: tuple[int, int], target: Path) -> None:
    """Have the browser show a page to people who like it light, or dark, and keep the picture."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"]
        options += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
        command = ["chromium", *options, f"--screenshot={target}", address]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    memory, agent = talk()
    with tempfile.TemporaryDirectory() as pages, serve(memory, agent) as inspector:
        page = Path(pages) / "memory.html"
        memory.view(agent.get_state(CONFIG)).to_html(page)
        for name, address in (
            ("memory", page.as_uri()),
            ("inspector", f"{inspector}/memory/boat?message=0"),
        ):
            for scheme in ("light", "dark"):
                target = folder / f"{name}-{scheme}.png"
                take(address, scheme, SIZES[name], target)
                print(f"{target.name}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

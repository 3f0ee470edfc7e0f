"""Images and files count as the Actor's provider counts them, and nobody has to say which it is."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import EstimatingCounter, ObservationalMemory, create_memory_agent
from langgraph_om.memory import runner_of
from langgraph_om.runtime.job_requests import digest_settings
from langgraph_om.testing import ScriptedChatModel

PDF = b64encode(b"%PDF-1.7 " + bytes(6000)).decode()
SAID = HumanMessage(
    [
        {"type": "text", "text": "What do these show?"},
        {"type": "image", "url": "https://example.org/a.png"},
        {"type": "file", "base64": PDF, "mime_type": "application/pdf"},
    ],
    id="asked",
)


def claude() -> Any:
    return ChatAnthropic(model="claude-local", api_key="none")  # type: ignore[arg-type,call-arg]


def gemini() -> Any:
    return ChatGoogleGenerativeAI(model="gemini-flash-latest", api_key="none")


def gpt() -> Any:
    return ChatOpenAI(model="gpt-local", api_key="none")  # type: ignore[arg-type]


def remembering(**options: Any) -> ObservationalMemory:
    return ObservationalMemory(ScriptedChatModel(), **options)


def count(memory: ObservationalMemory, state: Any = None) -> int:
    status: Any = memory.status({"messages": [SAID], "om": {}} if state is None else state)
    return int(status["windows"]["active"]["messages"]["tokens"])


def counted_as(**formula: Any) -> int:
    return count(remembering(token_counter=EstimatingCounter(**formula)))


@pytest.mark.parametrize(
    ("make", "formula"),
    [
        (claude, {"provider": "anthropic"}),
        (gemini, {"provider": "google"}),
        (gpt, {}),
        (ScriptedChatModel, {}),
    ],
    ids=["claude", "gemini", "gpt", "unknown"],
)
@pytest.mark.parametrize("door", ["agent", "own graph", "bound", "fallbacks"])
def test_the_formula_is_the_actors(make: Any, formula: Any, door: str) -> None:
    memory, model = remembering(), make()
    if door == "agent":
        create_memory_agent(model, [], memory=memory)
    elif door == "own graph":
        memory.with_second_try(model.invoke)
    elif door == "bound":
        memory.with_second_try(model.bind(stop=["x"]).invoke)
    else:
        memory.with_second_try(model.with_fallbacks([RunnableLambda(str)]).invoke)
    assert count(memory) == counted_as(**formula)


def test_the_middleware_learns_it_from_the_first_request() -> None:
    from langchain.agents import create_agent  # noqa: PLC0415

    from langgraph_om import ObservationalMemoryMiddleware  # noqa: PLC0415

    class Claude(ScriptedChatModel):
        pass

    # A model of this name that answers: its class says who it is, as a subclass of yours would.
    named = type("ChatAnthropic", (Claude,), {})
    memory = remembering()
    agent = create_agent(
        named("A cat."),
        [],
        middleware=[ObservationalMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [SAID]}, config)
    state = agent.get_state(config)
    assert state.values["om"]["token_cache"]["counter"].startswith("estimate/1+anthropic")
    assert count(memory, state) > count(remembering(token_counter=EstimatingCounter()), state)
    # A process that never met the Actor, as a worker or the command, counts as it was counted.
    other = remembering()
    assert count(other, state) == count(memory, state)
    settings = [runner_of(each).settings for each in (memory, other)]
    assert digest_settings(settings[0]) == digest_settings(settings[1])

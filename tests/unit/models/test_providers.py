"""From a name to a chat model: both ways to write a name mean the same model."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.models.providers import chat_model, family_and_name
from support.wire_server import openai_says, reach, serve

NAMES = ["openai/gpt-5-mini", "openai:gpt-5-mini"]


@pytest.mark.parametrize("name", NAMES)
def test_provider_and_model_are_parted_at_the_first_mark(name: str) -> None:
    assert family_and_name(name) == ("openai", "gpt-5-mini")
    assert family_and_name(name.replace("gpt", "ft:gpt/4")) == ("openai", "ft:gpt/4-5-mini")


def test_both_forms_of_a_name_make_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    first, second = map(chat_model, NAMES)
    assert type(first) is type(second)
    assert first._identifying_params == second._identifying_params
    assert "gpt-5-mini" in str(first._identifying_params)


@pytest.mark.parametrize("name", NAMES)
def test_agent_and_memory_ask_the_model_that_either_form_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as provider:
        reach(provider, monkeypatch)
        provider.says(openai_says("<observations>\nDate: unknown\n* 🔴 Tea\n</observations>"))
        limits = {"message_tokens": 60, "buffer_tokens": False}
        memory = ObservationalMemory(name, observation=limits)
        agent = create_memory_agent(name, memory=memory)
        said = [HumanMessage("I like tea. " * 20), AIMessage("So do I."), HumanMessage("Good.")]
        agent.invoke({"messages": said})
        assert [request.body["model"] for request in provider.requests] == ["gpt-5-mini"] * 2

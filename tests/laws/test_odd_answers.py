"""Whatever an Observer writes and a provider says: turns are answered, and nothing goes unnoted."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import EstimatingCounter, InlineBuffering, ObservationalMemory
from langgraph_om import create_memory_agent as create
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.examples import examples
from support.inside import MUCH_SAID
from support.material import fragments, texts

COUNT = EstimatingCounter().count_text
DAY = "Date: Mar 3, 2026"
NOTHING = (
    "(none)",
    "N/A",
    "无",
    "(Aucune.)",
    "* (nothing was said)",
    f"{DAY}\n* (none)",
    "* -",
    "",
)


class ProviderError(Exception):
    """What a client raises, with any words and perhaps a status."""

    def __init__(self, said: str, status: int | None) -> None:
        super().__init__(said)
        if status is not None:
            self.status_code = status


bodies = st.sampled_from(NOTHING) | st.lists(texts | fragments, max_size=3).map("\n* ".join)
tagged = bodies.map(lambda body: f"<observations>\n{body}\n</observations>")
errors = st.builds(ProviderError, texts | fragments, st.sampled_from([None, 400, 404, 413, 500]))
answers = st.lists(tagged | bodies | errors | st.none(), min_size=1, max_size=4)
"""What an Observer does, again and again; nothing stands for an answer as it should be."""
talks = st.lists(st.integers(1, 40), min_size=6, max_size=9)
"""How many words a user says in each turn."""


@examples(16)
@given(answers, talks)
@example(["<observations>(none)</observations>"], [30] * 8)
@example([ProviderError("prompt is too long: 99999 tokens > 9 maximum", 400), None], [30] * 8)
def test_what_is_covered_is_noted_or_was_small(given_: list[Any], talk: list[int]) -> None:
    asked: list[int] = []

    def observe(messages: list[BaseMessage]) -> Any:
        asked.append(1)
        answer = given_[(len(asked) - 1) % len(given_)]
        if isinstance(answer, Exception):
            raise answer
        return ExtractiveObserver().reply(messages) if answer is None else answer

    memory = ObservationalMemory(
        ScriptedChatModel(observer=observe),
        observation={"message_tokens": 120, "buffer_tokens": False},
        buffering=InlineBuffering(),
    )
    agent = create(
        ScriptedChatModel(lambda _: AIMessage("Fine.")), memory=memory, checkpointer=InMemorySaver()
    )
    unnoted = set[str]()
    for turn, words in enumerate(talk):
        text = f"Quay {turn}" + " has brass lamps" * words
        state = agent.invoke(
            {"messages": [HumanMessage(text, id=f"u{turn}")]}, {"configurable": {"thread_id": "t"}}
        )
        assert state["messages"][-1].text == "Fine."
        said = {message.id: COUNT(message.text) for message in state["messages"]}
        before, unnoted = unnoted, _list_unnoted(state["om"]["log"], list(said))
        assert sum(said[key] for key in unnoted - before) <= MUCH_SAID


def _list_unnoted(log: list[Any], keys: list[str]) -> set[str]:
    """List the messages that are covered without an observation."""
    return {
        key
        for group in log
        for first, last in ([] if group["text"] else group["ranges"])
        for key in keys[keys.index(first) : keys.index(last) + 1]
    }

"""What new users run into first: each is told at once, with what to do."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine, make_url, text

from langgraph_om import ConfigurationError, ObservationalMemory, add_observational_memory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ArchiveError
from langgraph_om.testing import ScriptedChatModel
from support.agents import on_thread, remembering, scripted, talk, turns
from support.clock import Clock


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("method", ["step", "observe_messages"])
def test_a_text_in_the_place_of_a_conversation(method: str) -> None:
    memory: Any = ObservationalMemory(ScriptedChatModel())
    with pytest.raises(ConfigurationError, match="`messages` is 'hello'; pass the conversation"):
        getattr(memory, method)(None, "hello")


def test_an_archive_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="its folder doesn't exist; create it"):
        ObservationalMemory(ScriptedChatModel(), archive=f"sqlite:///{tmp_path / 'no' / 'a.db'}")


def test_a_model_without_a_key_is_told_in_the_first_turn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    memory = ObservationalMemory("openai/gpt-6-luna")
    for thread in ("one", "two"):
        memory.step(None, [HumanMessage("Hello")], thread_id=thread)
    (said,) = warned(caplog)
    assert "'openai/gpt-6-luna' can't be asked here" in said
    assert "OPENAI_API_KEY" in said
    monkeypatch.setenv("OPENAI_API_KEY", "set")
    ObservationalMemory("openai/gpt-6-luna").step(None, [HumanMessage("Hello")], thread_id="three")
    assert len(warned(caplog)) == 1


@pytest.mark.slow
def test_a_role_that_may_not_make_tables_uses_those_of_another(
    postgres_sqlalchemy_url: str,
) -> None:
    owner = create_engine(postgres_sqlalchemy_url)

    def run(*statements: str) -> None:
        with owner.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))

    run("REVOKE CREATE ON SCHEMA public FROM PUBLIC", "DROP ROLE IF EXISTS om_app")
    run("CREATE ROLE om_app LOGIN")
    url = make_url(postgres_sqlalchemy_url).set(username="om_app")
    with closing(SQLAlchemyArchive(url.render_as_string(hide_password=False))) as archive:
        with pytest.raises(ArchiveError, match=r"SQLAlchemyArchive\(url\)\.setup\(\)"):
            archive.thread("t")
        with closing(SQLAlchemyArchive(postgres_sqlalchemy_url)) as of_owner:
            of_owner.setup()
        run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO om_app")
        run("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO om_app")
        memory = ObservationalMemory(ScriptedChatModel(), archive=archive, retrieval=True)
        memory.step(None, [HumanMessage("The code is 4711.", id="m1")], thread_id="t")
        assert [each.key for each in archive.messages("t", start=0, limit=9)] == ["m1"]
        memory.delete_thread("t")
        assert list(archive.messages("t", start=0, limit=9)) == []
        memory.close()
    run("DROP OWNED BY om_app", "DROP ROLE om_app")
    owner.dispose()


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_model_that_is_not_given_its_input_is_told(
    is_shown: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, memories = scripted(), []

    def answer(state: MessagesState) -> dict[str, Any]:
        given = memories[0].llm_input_messages(state) if is_shown else state["messages"]
        return {"messages": [model.invoke(given)]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", answer)
    memories.append(remembering(model, Clock()))
    builder.add_edge(START, add_observational_memory(builder, memories[0], before="agent"))
    graph = builder.compile(checkpointer=InMemorySaver())
    talk(graph, on_thread(), turns(20))
    assert len(warned(caplog)) == (0 if is_shown else 1)
    assert is_shown or "llm_input_messages(state)" in caplog.text

"""OpenTelemetry: what one turn leaves in an exporter, and that it costs nothing without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.agents import make_agent, on_thread, record_of, talk, turns

EXPORTER, READER = InMemorySpanExporter(), InMemoryMetricReader()


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):  # set once in a process
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
        metrics.set_meter_provider(MeterProvider([READER]))
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def spans_of(exporter: InMemorySpanExporter, name: str) -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_observations_and_reflections_are_spans_with_their_time_and_tokens(
    exporter: InMemorySpanExporter,
) -> None:
    agent = make_agent("agent", InMemorySaver(), log=130)
    config = on_thread("t-1", resource_id="ana")
    talk(agent.graph, config, turns(16))
    created, updated = spans_of(exporter, "create_memory"), spans_of(exporter, "update_memory")
    assert created
    assert updated
    told = created[0].attributes
    assert told["gen_ai.operation.name"] == "create_memory"
    assert told["gen_ai.conversation.id"] == "t-1"
    assert told["enduser.id"] == "ana"
    assert told["gen_ai.memory.store.id"]
    assert told["gen_ai.usage.input_tokens"] > told["gen_ai.usage.output_tokens"] > 0
    assert told["gen_ai.memory.record.count"] > 0
    assert updated[-1].attributes["gen_ai.memory.record.count"] > 0
    assert told["langgraph_om.tokens.read"] > told["langgraph_om.tokens.written"] > 0
    assert created[0].end_time >= created[0].start_time
    assert not any("Lisbon" in str(span.attributes) for span in exporter.get_finished_spans())
    found = READER.get_metrics_data()
    names = {
        metric.name
        for resource in found.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"} <= names


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_person_changes_or_deletes_is_a_span(
    exporter: InMemorySpanExporter, *, is_async: bool
) -> None:
    agent = make_agent("agent", InMemorySaver(), archive="sqlite://")
    config = on_thread("t-1", resource_id="ana")
    talk(agent.graph, config, turns(2))
    thread = agent.memory.of(agent.graph, config)
    record = record_of(agent.graph, config)
    exporter.clear()
    thread.remember("User likes the WALRUS")
    thread.pin("WALRUS")
    thread.correct("WALRUS", "User likes the WALRUS in Cork")
    await thread.aforget("WALRUS") if is_async else thread.forget("WALRUS")
    thread.set_title("A title")  # which is no record of memory
    await thread.adelete() if is_async else thread.delete()
    await agent.memory.adelete_resource("ana")
    done = [span for span in exporter.get_finished_spans() if "memory" in span.name]
    assert [span.name for span in done] == [
        *("create_memory", "update_memory", "update_memory", "delete_memory"),
        *("delete_memory_store", "delete_memory_store"),
    ]
    assert [span.attributes.get("gen_ai.memory.record.count") for span in done] == [1] * 4 + [
        None
    ] * 2
    assert [span.attributes.get("gen_ai.conversation.id") for span in done] == ["t-1"] * 5 + [None]
    assert {span.attributes["enduser.id"] for span in done} == {"ana"}
    stores = [span.attributes["gen_ai.memory.store.id"] for span in done]
    assert stores == [record["id"]] * 5 + ["ana"]
    assert not any("WALRUS" in str(span.attributes) for span in done)


def test_a_call_of_recall_is_a_span_with_what_it_found(exporter: InMemorySpanExporter) -> None:
    agent = make_agent("agent", InMemorySaver(), archive="sqlite://")
    config = on_thread("t-1", resource_id="ana")
    talk(agent.graph, config, turns(4))
    state = agent.graph.get_state(config)
    exporter.clear()
    answer = agent.memory.recall(state, config, mode="search", query="Lisbon")
    (span,) = spans_of(exporter, "search_memory")
    assert span.attributes["gen_ai.memory.record.count"] == answer["count"]
    assert span.attributes["gen_ai.memory.store.id"] == state.values["om"]["id"]
    assert span.attributes["enduser.id"] == "ana"
    assert "Lisbon" not in str(span.attributes)

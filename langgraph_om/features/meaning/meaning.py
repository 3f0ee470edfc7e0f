"""Have recall find what is near in meaning to a query, beside what has its words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Self

from langgraph_om.core.config.settings import Identity, Setup
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step.step import Step
from langgraph_om.features.meaning.index import StoreIndex, list_messages
from langgraph_om.features.recall.config import read_retrieval
from langgraph_om.runtime.tools import find_store
from langgraph_om.search.source import NearSearch, RecallHit


class Meaning(NearSearch):
    """Puts observations and messages into the graph's store, and searches there."""

    name = "meaning"
    needs = ("recall",)
    prompts = __package__
    search_prompt = "recall_search_meaning"
    told = " and by its meaning"
    store_use = "index"
    kept_in_store = "the texts that search by meaning has put into the graph's store"

    def __init__(self) -> None:
        self.index = StoreIndex()

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `retrieval.vector`."""
        retrieval = read_retrieval(setup)
        return cls() if retrieval is not None and retrieval.vector else None

    def connect(self, runner: Any) -> Sequence[object]:
        """Have the archive tell which threads are deleted."""
        self.index = StoreIndex(runner.archive)
        return ()

    def after(self, step: Step) -> EffectFlow[None]:
        """Make what is new in a graph's run searchable, beside the run.

        Raises:
            ConfigurationError: When the run has no store that can be searched.
        """
        if step.scope is None or step.scope.state is None:
            return
        yield from ()
        record, hooks = step.record, step.settings.features.having("kept_until")
        kept = [kept_until(record) for kept_until in hooks] if step.identity.thread_id else []
        said = list_messages(record, step.given, kept)
        time_of = partial(step.settings.time_of, stamps=record["stamps"])
        self.index.add(
            record, said, find_store(), step.identity, edited=step.changed, time_of=time_of
        )

    def find_near(
        self,
        query: str,
        limit: int,
        who: Identity,
        store: Any,
        *,
        in_resource: bool,
        finds_messages: bool = False,
    ) -> list[RecallHit]:
        """Return the best match of each text nearest in meaning, the best first."""
        return self.index.search(
            store, query, limit, who, in_resource=in_resource, finds_messages=finds_messages
        )

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until what was observed is searchable."""
        return self.index.flush(timeout)

    def delete_thread(self, thread_id: str, resource_id: str | None, store: Any) -> None:
        """Delete the texts of a thread, and of what runs within it."""
        self.index.delete_thread(thread_id, resource_id, store)

    def delete_resource(self, resource_id: str, thread_ids: Iterable[str], store: Any) -> None:
        """Delete all texts of a resource."""
        self.index.delete_resource(resource_id, thread_ids, store)

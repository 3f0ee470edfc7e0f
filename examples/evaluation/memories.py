"""Three ways to remember a conversation: by observations, by a summary, or in full.

Each is a LangGraph agent over a SQLite checkpointer. Sessions are written into its thread with
`update_state`, a checkpoint each, so that a run that was stopped goes on behind the last one.
Questions branch off from the newest of these checkpoints: none sees another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.sqlite import SqliteSaver

from evaluation import doubles
from evaluation.formats import Conversation, Session
from evaluation.spending import Meter
from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent

# Neutral, because the Actor may see it: the ids of LongMemEval tell which questions have no answer.
THREAD = "conversation"
USER = "user"
STEPS = 60
KEPT_BY_SUMMARY = 20
"""Messages that stay beside a summary, which is LangChain's default."""

Values = dict[str, Any]
TakeIn = Callable[[Values, list[BaseMessage], RunnableConfig], Values]


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that what is remembered depends on, and who answers from it."""

    memory: Literal["observational", "summary", "full"]
    actor: str
    observer: str
    reflector: str
    message_tokens: int = 30_000
    observation_tokens: int = 40_000
    recall: bool = True
    deadline: float = 600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a question."""

    text: str
    recalls: int
    failures: int
    """Observations and reflections of which nothing came."""


class Remembered:
    """A conversation as one of the memories keeps it."""

    def __init__(
        self, graph: Any, node: str, take_in: TakeIn, set_clock: Callable[[datetime], None]
    ) -> None:
        self._graph, self._node = graph, node
        self._take_in, self._set_clock = take_in, set_clock

    @property
    def sessions(self) -> int:
        """Return how many sessions are remembered."""
        newest = self._newest()
        return newest.metadata["sessions"] if newest else 0

    def _newest(self) -> Any:
        """Return the checkpoint that the last session was written with."""
        written = {"source": "update"}
        return next(self._graph.get_state_history(_config(), filter=written, limit=1), None)

    def take_in(self, session: Session, meter: Meter, note: Callable[[int], None]) -> None:
        """Remember the next session.

        Args:
            session: The session.
            meter: Hears what it costs.
            note: Told how many observations and reflections failed, before anything is written: so
                what is paid for twice is counted twice.
        """
        self._set_clock(session.turns[-1].at)
        newest = self._newest()
        values = newest.values if newest else {}
        update: Values = {}
        try:
            update = self._take_in(values, session.messages(), _config(callbacks=[meter]))
        finally:
            note(update.pop("failures", 0))
        place = newest.config["configurable"] if newest else {}
        at = _config(place, metadata={"sessions": session.number})
        # Without a node it would be taken for the graph's input, and memory is no part of that.
        self._graph.update_state(at, update, as_node=self._node)

    def ask(self, question: str, at: datetime, meter: Meter) -> Reply:
        """Ask a question on a branch of its own.

        Args:
            question: The question.
            at: When it is asked.
            meter: Hears what it costs.

        Raises:
            ValueError: When there is no answer.
        """
        self._set_clock(at)
        place = self._newest().config["configurable"]
        config = _config(place, callbacks=[meter], recursion_limit=STEPS)
        parts: list[str] = []
        state: Values = {}
        inputs = {"messages": [HumanMessage(question, id="question")]}
        for mode, part in self._graph.stream(inputs, config, stream_mode=["custom", "values"]):
            if mode == "values":
                state = part
            else:
                parts.append(part.get("type", ""))
        told = [message.id for message in state["messages"]].index("question")
        answers = state["messages"][told + 1 :]
        if not answers or not answers[-1].text.strip():
            msg = "the Actor gave no answer"
            raise ValueError(msg)
        kinds = Counter(message.type for message in answers)
        return Reply(answers[-1].text, kinds["tool"], _failures(parts))


def _config(place: Mapping[str, Any] | None = None, **others: Any) -> RunnableConfig:
    where = {"thread_id": THREAD, "resource_id": USER, **(place or {})}
    return cast("RunnableConfig", {"configurable": where, **others})


def _failures(parts: list[str]) -> int:
    return sum(part.endswith("-failed") for part in parts)


def check(setup: Setup, judge: str) -> None:
    """Make each model and the memory once, so that what is wrong is told before the run.

    Raises:
        ConfigurationError: For a wrong name, a missing key, or limits that can not be.
        ModuleNotFoundError: When a summary is wanted and langchain is not there.
    """
    for name in {setup.actor, setup.observer, setup.reflector, judge} - {doubles.NAME}:
        create_memory_agent(name, memory=ObservationalMemory(enabled=False))
    if setup.memory == "observational":
        _observational(setup, None, lambda: datetime.now(UTC)).close()
    if setup.memory == "summary":
        import_module("langchain.agents")


# --- The three -----------------------------------------------------------------------------------


@contextmanager
def remember(
    setup: Setup, conversation: Conversation, prompt: str, folder: Path
) -> Iterator[Remembered]:
    """Open what is remembered of a conversation, in a folder of its own.

    Args:
        setup: Which memory and which models.
        conversation: Where the time begins.
        prompt: The Actor's system prompt.
        folder: Where checkpoints and the archive are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    now = [conversation.sessions[0].at]
    actor: Any = doubles.actor() if setup.actor == doubles.NAME else setup.actor
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        if setup.memory == "summary":
            graph, take_in = _summary(setup, actor, prompt, saver)
            yield Remembered(graph, "model", take_in, partial(now.__setitem__, 0))
            return
        is_on = setup.memory == "observational"
        archive = f"sqlite:///{folder / 'archive.db'}" if setup.recall else None
        made = _observational(setup, archive, lambda: now[0]) if is_on else None
        with made or ObservationalMemory(enabled=False) as memory:
            graph = create_memory_agent(actor, memory=memory, prompt=prompt, checkpointer=saver)
            take_in = partial(_observe, memory) if is_on else _keep
            yield Remembered(graph, "agent", take_in, partial(now.__setitem__, 0))


def _observational(
    setup: Setup, archive: str | None, clock: Callable[[], datetime]
) -> ObservationalMemory:
    double = doubles.memory_model()
    observer, reflector = (
        double if name == doubles.NAME else name for name in (setup.observer, setup.reflector)
    )
    return ObservationalMemory(
        retrieval=setup.recall,
        archive=archive,
        observation={"model": observer, "message_tokens": setup.message_tokens},
        reflection={"model": reflector, "observation_tokens": setup.observation_tokens},
        # Nobody speaks meanwhile: each buffered observation is there before the next session.
        buffering=InlineBuffering(),
        deadline=setup.deadline,
        clock=clock,
    )


def _observe(
    memory: ObservationalMemory, values: Values, new: list[BaseMessage], config: RunnableConfig
) -> Values:
    said = [*values.get("messages", []), *new]
    result = memory.step(values.get("om"), said, thread_id=THREAD, config=config)
    failures = _failures([part["type"] for part in result.events])
    return {"messages": new, "om": result.record, "failures": failures}


def _keep(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:  # noqa: ARG001
    return {"messages": new}


def _summary(setup: Setup, actor: Any, prompt: str, saver: SqliteSaver) -> tuple[Any, TakeIn]:
    # It needs langchain, which the other memories do without.
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415

    is_double = setup.observer == doubles.NAME
    middleware = SummarizationMiddleware(
        doubles.memory_model() if is_double else langchain_name(setup.observer),
        trigger=("tokens", setup.message_tokens),
        keep=("messages", KEPT_BY_SUMMARY),
        trim_tokens_to_summarize=None,  # else it reads only the last 4000 tokens of them
    )
    model = actor if setup.actor == doubles.NAME else langchain_name(actor)
    graph = create_agent(model, middleware=[middleware], system_prompt=prompt, checkpointer=saver)

    def take_in(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:
        state: Any = {"messages": [*values.get("messages", []), *new]}
        # Inside of a runnable its model's calls are heard by the meter.
        summarise: RunnableLambda[str, Any] = RunnableLambda(
            lambda _: middleware.before_model(state, cast("Any", None))
        )
        return dict(summarise.invoke("", config) or {"messages": new})

    return graph, take_in


def langchain_name(name: str) -> str:
    """Write `provider/model` as LangChain does."""
    provider, _, model = name.partition("/")
    return f"{ {'google': 'google_genai'}.get(provider, provider) }:{model}" if model else name

"""Three ways to remember a conversation: by observations, by a summary, or in full.

Each is a LangGraph agent over a SQLite checkpointer. Sessions are written into its thread with
`update_state`, a checkpoint each, so that a run that was stopped goes on behind the last one.
Questions branch off from the newest of these checkpoints: none sees another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.sqlite import SqliteSaver

from evaluation import doubles, files
from evaluation.files import FileModel, Mailbox, UnansweredError
from evaluation.formats import Conversation, Session
from evaluation.spending import Meter
from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationOptions,
    ReflectionOptions,
    create_memory_agent,
)

# Neutral, because the Actor may see it: the ids of LongMemEval tell which questions have no answer.
THREAD = "conversation"
USER = "user"
STEPS = 60
KEPT_BY_SUMMARY = 20
"""Messages that stay beside a summary, which is LangChain's default."""
SUMMARY_PART, KEPT_PART = 4 / 7, 0.2
"""Of a budget, what a summary may take, and how much of the rest stays beside it: as much as the
log of observations may, and as much as stays beside that."""
WORDS_PER_TOKEN = 0.7

MESSAGE_TOKENS, OBSERVATION_TOKENS = 30_000, 40_000

MemoryName = Literal["observational", "summary", "full"]
Values = dict[str, Any]
TakeIn = Callable[[Values, list[BaseMessage], RunnableConfig], Values]
Note = Callable[[int, "int | None"], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that what is remembered depends on, and who answers from it."""

    memory: MemoryName
    actor: str
    observer: str
    reflector: str
    message_tokens: int = MESSAGE_TOKENS
    observation_tokens: int = OBSERVATION_TOKENS
    recall: bool = True
    form: Literal["edits", "rewrite"] = "edits"
    """How a reflection shortens the log."""
    prompt_tokens: int | None = None
    """What is remembered may take so many tokens of a prompt, in place of the two thresholds."""
    deadline: float = 600.0


@dataclass(frozen=True, slots=True)
class Players:
    """Who plays a role that is named: a double, somebody who writes files, or a provider."""

    mailbox: Mailbox | None = None

    def model(self, name: str, role: str) -> Any:
        """Return the model of a role, for a provider's its name."""
        if name == files.NAME:
            return FileModel(mailbox=self.mailbox, role=role)
        if name == doubles.NAME:
            return doubles.actor() if role == "actor" else doubles.memory_model()
        return name


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

    def take_in(self, session: Session, meter: Meter, note: Note) -> None:
        """Remember the next session.

        Args:
            session: The session.
            meter: Hears what it costs.
            note: Told how many observations and reflections failed, and how many tokens are
                remembered now, before anything is written: so what is paid for twice is counted
                twice.
        """
        self._set_clock(session.turns[-1].at)
        newest = self._newest()
        values = newest.values if newest else {}
        try:
            update = self._take_in(values, session.messages(), _config(callbacks=[meter]))
        except UnansweredError:
            raise  # the next run takes it in again, and counts all of it
        except BaseException:
            note(0, None)
            raise
        note(update.pop("failures", 0), update.pop("held"))
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
    named = {setup.actor, setup.observer, setup.reflector, judge}
    for name in named - {doubles.NAME, files.NAME}:
        create_memory_agent(name, memory=ObservationalMemory(enabled=False))
    if setup.memory == "observational":
        _observational(setup, Players(), None, lambda: datetime.now(UTC)).close()
    if setup.memory == "summary":
        import_module("langchain.agents")


# --- The three -----------------------------------------------------------------------------------


@contextmanager
def remember(
    setup: Setup, players: Players, conversation: Conversation, prompt: str, folder: Path
) -> Iterator[Remembered]:
    """Open what is remembered of a conversation, in a folder of its own.

    Args:
        setup: Which memory and which models.
        players: Makes the models.
        conversation: Where the time begins.
        prompt: The Actor's system prompt.
        folder: Where checkpoints and the archive are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    now = [conversation.sessions[0].at]
    actor: Any = players.model(setup.actor, "actor")
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        if setup.memory == "summary":
            graph, take_in = _summary(setup, players, actor, prompt, saver)
            yield Remembered(graph, "model", take_in, partial(now.__setitem__, 0))
            return
        is_on = setup.memory == "observational"
        archive = f"sqlite:///{folder / 'archive.db'}" if setup.recall else None
        made = _observational(setup, players, archive, lambda: now[0]) if is_on else None
        with made or ObservationalMemory(enabled=False) as memory:
            graph = create_memory_agent(actor, memory=memory, prompt=prompt, checkpointer=saver)
            take_in = partial(_observe, memory) if is_on else _keep
            yield Remembered(graph, "agent", take_in, partial(now.__setitem__, 0))


def _observational(
    setup: Setup, players: Players, archive: str | None, clock: Callable[[], datetime]
) -> ObservationalMemory:
    observation: Values = {"model": players.model(setup.observer, "observer")}
    reflection: Values = {
        "model": players.model(setup.reflector, "reflector"),
        "form": setup.form,
    }
    if setup.prompt_tokens is None:
        observation["message_tokens"] = setup.message_tokens
        reflection["observation_tokens"] = setup.observation_tokens
    return ObservationalMemory(
        retrieval=setup.recall,
        archive=archive,
        token_budget=setup.prompt_tokens,
        observation=cast("ObservationOptions", observation),
        reflection=cast("ReflectionOptions", reflection),
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
    told = [part for part in result.events if part["type"] == "data-om-status"]
    active = told[-1]["data"]["windows"]["active"]
    held = active["messages"]["tokens"] + active["observations"]["tokens"]
    return {"messages": new, "om": result.record, "failures": failures, "held": held}


def _keep(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:  # noqa: ARG001
    return {"messages": new, "held": count_tokens([*values.get("messages", []), *new])}


def _summary(
    setup: Setup, players: Players, actor: Any, prompt: str, saver: SqliteSaver
) -> tuple[Any, TakeIn]:
    # It needs langchain, which the other memories do without.
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415

    middleware = SummarizationMiddleware(
        _for_langchain(players.model(setup.observer, "summarizer")),
        trim_tokens_to_summarize=None,  # else it reads only the last 4000 tokens of them
        **_summary_limits(setup),
    )
    graph = create_agent(
        _for_langchain(actor), middleware=[middleware], system_prompt=prompt, checkpointer=saver
    )

    def take_in(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:
        state: Any = {"messages": [*values.get("messages", []), *new]}
        # Inside of a runnable its model's calls are heard by the meter.
        summarise: RunnableLambda[str, Any] = RunnableLambda(
            lambda _: middleware.before_model(state, cast("Any", None))
        )
        written = summarise.invoke("", config)
        kept = [m for m in (written or state)["messages"] if not isinstance(m, RemoveMessage)]
        return {**(written or {"messages": new}), "held": count_tokens(kept)}

    return graph, take_in


def _summary_limits(setup: Setup) -> Values:
    """Return when it summarises and what stays; with a budget, how long a summary may be too."""
    budget = setup.prompt_tokens
    if budget is None:
        keep = ("messages", KEPT_BY_SUMMARY)
        return {"trigger": ("tokens", setup.message_tokens), "keep": keep}
    from langchain.agents.middleware.summarization import (  # noqa: PLC0415
        DEFAULT_SUMMARY_PROMPT,
    )

    room = round(budget * SUMMARY_PART)
    before, mark, after = DEFAULT_SUMMARY_PROMPT.rpartition("<messages>")
    limit = f"Write at most {round(room * WORDS_PER_TOKEN)} words.\n\n"
    return {
        "trigger": ("tokens", budget),
        "keep": ("tokens", max(1, round((budget - room) * KEPT_PART))),
        "token_counter": lambda messages: count_tokens(convert_to_messages(messages)),
        "summary_prompt": f"{before}{limit}{mark}{after}",
    }


def count_tokens(messages: Iterable[BaseMessage]) -> int:
    """Count the tokens of messages, the same way whatever the memory."""
    return sum(map(EstimatingCounter().count_message, messages))


def _for_langchain(model: Any) -> Any:
    return langchain_name(model) if isinstance(model, str) else model


def langchain_name(name: str) -> str:
    """Write `provider/model` as LangChain does."""
    provider, _, model = name.partition("/")
    return f"{ {'google': 'google_genai'}.get(provider, provider) }:{model}" if model else name

"""Ways to remember a conversation: by observations, by a summary (langchain's or deepagents'), by
its newest messages, or in full.

Each is a LangGraph agent over a SQLite checkpointer. Sessions are written into its thread with
`update_state`, a checkpoint each, so that a run that was stopped goes on behind the last one.
Questions branch off from the newest of these checkpoints: none sees another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    SystemMessage,
    convert_to_messages,
    trim_messages,
)
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.sqlite import SqliteSaver

from evaluation import doubles, files
from evaluation.files import FileModel, Mailbox, UnansweredError
from evaluation.formats import Conversation, Question, Session
from evaluation.spending import Meter
from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
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

MemoryName = Literal["observational", "summary", "deepagents", "trim", "full"]
BY_MIDDLEWARE = ("trim", "summary", "deepagents")
"""Memories that are a middleware of langchain's agents."""
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
    prompt_tokens: int | None = None
    """What is remembered may take so many tokens of a prompt, in place of the two thresholds."""
    deadline: float = 600.0


@dataclass(frozen=True, slots=True)
class Players:
    """Who plays a role that is named: a double, somebody who writes files, or a provider."""

    mailbox: Mailbox | None = None
    reader: Callable[[Sequence[Question]], Any] | None = None
    """Makes another double of the Actor than the one that quotes, for questions it is asked."""

    def model(self, name: str, role: str, questions: Sequence[Question] = ()) -> Any:
        """Return the model of a role, for a provider's its name."""
        if name == files.NAME:
            return FileModel(mailbox=self.mailbox, role=role)
        if name == doubles.NAME:
            if role == "actor":
                return self.reader(questions) if self.reader else doubles.actor()
            return doubles.memory_model()
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

    def ask(self, question: str, at: datetime, meter: Meter, *, read_only: bool = False) -> Reply:
        """Ask a question on a branch of its own.

        Args:
            question: The question.
            at: When it is asked.
            meter: Hears what it costs.
            read_only: Whether memory observes nothing before the answer.

        Raises:
            ValueError: When there is no answer.
        """
        self._set_clock(at)
        place = {**self._newest().config["configurable"], "om_read_only": read_only}
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
        ModuleNotFoundError: When langchain or deepagents is wanted and is not there.
    """
    named = {setup.actor, setup.observer, setup.reflector, judge}
    for name in named - {doubles.NAME, files.NAME}:
        create_memory_agent(name, memory=ObservationalMemory(enabled=False))
    if setup.memory == "observational":
        _observational(setup, Players(), None, lambda: datetime.now(UTC)).close()
    if setup.memory in BY_MIDDLEWARE:
        import_module("langchain.agents")
    if setup.memory == "deepagents":
        import_module("deepagents")


# --- Each of them --------------------------------------------------------------------------------


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
    now = [conversation.sessions[0].at]
    questions = conversation.questions
    with open_agent(setup, players, prompt, folder, lambda: now[0], questions=questions) as agent:
        yield Remembered(agent.graph, agent.node, agent.take_in, partial(now.__setitem__, 0))


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with one of the memories."""

    graph: Any
    node: str
    """The one that calls the Actor's model."""
    take_in: TakeIn
    """Takes messages in without an Actor."""


@contextmanager
def open_agent(
    setup: Setup,
    players: Players,
    prompt: str,
    folder: Path,
    clock: Callable[[], datetime],
    *,
    tools: Sequence[Any] = (),
    questions: Sequence[Question] = (),
) -> Iterator[Agent]:
    """Open an agent, with a checkpointer in a folder of its own.

    Args:
        setup: Which memory and which models.
        players: Makes the models.
        prompt: The Actor's system prompt.
        folder: Where checkpoints and the archive are kept.
        clock: Tells memory the time.
        tools: What the Actor can call, beside the tools of its memory.
        questions: What it will be asked, for a double that reads for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    actor: Any = players.model(setup.actor, "actor", questions)
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        if setup.memory in BY_MIDDLEWARE:
            # It needs langchain, which the other memories do without.
            from langchain.agents import create_agent  # noqa: PLC0415

            middleware, take_in = build_middleware(setup, players, folder, with_tools=bool(tools))
            graph: Any = create_agent(
                *(_for_langchain(actor), tools),
                middleware=middleware,
                system_prompt=prompt,
                checkpointer=saver,
            )
            yield Agent(graph, "model", take_in)
            return
        is_on = setup.memory == "observational"
        archive = f"sqlite:///{folder / 'archive.db'}" if setup.recall else None
        made = _observational(setup, players, archive, clock) if is_on else None
        with made or ObservationalMemory(enabled=False) as memory:
            graph = create_memory_agent(
                actor, tools, memory=memory, system_prompt=prompt, checkpointer=saver
            )
            yield Agent(graph, "agent", partial(_observe, memory) if is_on else _keep)


def _observational(
    setup: Setup, players: Players, archive: str | None, clock: Callable[[], datetime]
) -> ObservationalMemory:
    observation: Values = {"model": players.model(setup.observer, "observer")}
    reflection: Values = {"model": players.model(setup.reflector, "reflector")}
    if setup.prompt_tokens is None:
        observation["message_tokens"] = setup.message_tokens
        reflection["observation_tokens"] = setup.observation_tokens
    return ObservationalMemory(
        retrieval=setup.recall,
        archive=archive,
        token_budget=setup.prompt_tokens,
        observation=observation,
        reflection=reflection,
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


def build_middleware(
    setup: Setup, players: Players, folder: Path, *, with_tools: bool = False
) -> tuple[list[Any], TakeIn]:
    """Return the middleware of a memory that is one, and what takes messages in without an Actor.

    Args:
        setup: Which memory, and its room.
        players: Makes the model that summarises.
        folder: Where deepagents puts the messages that it has summarised.
        with_tools: Whether the Actor gets deepagents' tools, which read what was put there.
    """
    if setup.memory == "trim":
        return _trimming(setup.prompt_tokens or setup.message_tokens)
    model = _for_langchain(players.model(setup.observer, "summarizer"))
    if setup.memory == "deepagents":
        return _deepagents(setup, model, folder, with_tools=with_tools)
    return _summary(setup, model)


def _trimming(room: int) -> tuple[list[Any], TakeIn]:
    """Show the newest messages that fit, whole."""
    from langchain.agents.middleware import wrap_model_call  # noqa: PLC0415

    def trim(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        kept = trim_messages(
            list(messages),
            max_tokens=room,
            token_counter=count_tokens,
            strategy="last",
            start_on=("human", "ai"),
        )
        # A result that fills the room alone is shown all the same, behind its call.
        calls = (at for at, each in enumerate(messages) if each.type != "tool")
        return kept or list(messages[max(calls, default=-1) :])

    @wrap_model_call
    def trimming(request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(request.override(messages=trim(request.messages)))

    def take_in(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:  # noqa: ARG001
        return {"messages": new, "held": count_tokens(trim([*values.get("messages", []), *new]))}

    return [trimming], take_in


def _summary(setup: Setup, model: Any) -> tuple[list[Any], TakeIn]:
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415
    from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT  # noqa: PLC0415

    middleware = SummarizationMiddleware(model, **_summary_limits(setup, DEFAULT_SUMMARY_PROMPT))

    def take_in(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:
        state: Any = {"messages": [*values.get("messages", []), *new]}
        written = _metered(lambda: middleware.before_model(state, cast("Any", None)), config)
        kept = [m for m in (written or state)["messages"] if not isinstance(m, RemoveMessage)]
        return {**(written or {"messages": new}), "held": count_tokens(kept)}

    return [middleware], take_in


def _deepagents(
    setup: Setup, model: Any, folder: Path, *, with_tools: bool
) -> tuple[list[Any], TakeIn]:
    from deepagents.backends import FilesystemBackend  # noqa: PLC0415
    from deepagents.middleware import FilesystemMiddleware  # noqa: PLC0415
    from deepagents.middleware.summarization import (  # noqa: PLC0415
        DEEPAGENTS_DEFAULT_SUMMARY_PROMPT,
        SummarizationMiddleware,
    )
    from langchain.agents.middleware import ModelRequest, ModelResponse  # noqa: PLC0415

    limits = _summary_limits(setup, DEEPAGENTS_DEFAULT_SUMMARY_PROMPT)
    backend = FilesystemBackend(folder / "offloaded", virtual_mode=True)
    middleware: Any = SummarizationMiddleware(model, backend=backend, **limits)

    def take_in(values: Values, new: list[BaseMessage], config: RunnableConfig) -> Values:
        state: Any = {**values, "messages": [*values.get("messages", []), *new]}
        shown: list[BaseMessage] = []

        def show(request: Any) -> Any:
            shown[:] = request.messages
            return ModelResponse(result=[])

        request = ModelRequest(model=middleware.model, messages=state["messages"], state=state)
        answer = _metered(lambda: middleware.wrap_model_call(request, show), config)
        command = getattr(answer, "command", None)
        update = dict(command.update) if command else {}
        update["messages"] = [*new, *update.get("messages", [])]
        return {**update, "held": count_tokens(shown)}

    tools = [FilesystemMiddleware(backend=backend)] if with_tools else []
    return [*tools, middleware], take_in


def _metered(work: Callable[[], Any], config: RunnableConfig) -> Any:
    """Return what some work comes to, its model calls heard by the meter."""
    runnable: RunnableLambda[str, Any] = RunnableLambda(lambda _: work())
    return runnable.invoke("", config)


def _summary_limits(setup: Setup, prompt: str) -> Values:
    """Return when it summarises and what stays; with a budget, how long a summary may be too."""
    # Else only the last 4000 tokens of what is summarised would be read.
    whole: Values = {"trim_tokens_to_summarize": None}
    budget = setup.prompt_tokens
    if budget is None:
        keep = ("messages", KEPT_BY_SUMMARY)
        return {**whole, "trigger": ("tokens", setup.message_tokens), "keep": keep}
    room = round(budget * SUMMARY_PART)
    before, mark, after = prompt.rpartition("<messages>")
    limit = f"Write at most {round(room * WORDS_PER_TOKEN)} words.\n\n"
    return {
        **whole,
        "trigger": ("tokens", budget),
        "keep": ("tokens", max(1, round((budget - room) * KEPT_PART))),
        "token_counter": _count_without_system,
        "summary_prompt": f"{before}{limit}{mark}{after}",
    }


def _count_without_system(messages: Iterable[Any]) -> int:
    """Count the messages of the conversation alone, which share the room."""
    said = convert_to_messages(list(messages))
    return count_tokens(each for each in said if not isinstance(each, SystemMessage))


def count_tokens(messages: Iterable[BaseMessage]) -> int:
    """Count the tokens of messages, the same way whatever the memory."""
    return sum(map(EstimatingCounter().count_message, messages))


def _for_langchain(model: Any) -> Any:
    return langchain_name(model) if isinstance(model, str) else model


def langchain_name(name: str) -> str:
    """Write `provider/model` as LangChain does."""
    provider, _, model = name.partition("/")
    return f"{ {'google': 'google_genai'}.get(provider, provider) }:{model}" if model else name

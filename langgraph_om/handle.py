"""The memory of one thread, `memory.of(graph, config)`, and the updates that change it."""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig

from langgraph_om import adoption, deletion, searching
from langgraph_om.adoption import AdoptReport, Progress
from langgraph_om.core.config.options import check_count
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.record.standing import StandingInstruction, read_rules
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.features import steering, titles
from langgraph_om.runtime.acting import GraphThread, Update, awaited, waited
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.searching import SearchHit
from langgraph_om.tools.view import MemoryView, build_view, read_history, read_status


class Updates:
    """A person's changes as updates of `om`; nothing is written here.

    Pass them to `graph.update_state(config, {"om": ...})`, or return them from a node, or in a
    tool's `Command(update=...)`. The methods of `memory.of(graph, config)` write them.
    """

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    def remember(self, text: str, *, date: date | str | None = None, state: Any = None) -> Update:
        """Return the update of `om` that adds what a person wants to be remembered.

        The log says that a person added it, and no reflection changes it.

        Args:
            text: What to remember, such as `"User lives in Ghent"`.
            date: The day it refers to: a date, or its ISO text. `None`: today.
            state: The thread's state, so that today is in its user's zone.

        Raises:
            ConfigurationError: When the text is blank or has more than 4000 characters, or the date
                cannot be read.
        """
        return steering.remember(self._runner, text, date, state)

    def forget(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` that removes an observation from the log.

        Its messages and earlier checkpoints stay.

        Args:
            item: The observation's id, as `view` shows it, or words from it, ignoring case.
            state: As for `llm_input_messages`. With one, the observation is looked up at once, and
                any `ItemError` is raised here; without one, when the update is written, which would
                end a tool's run.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: When the state's log has no such observation, or several; the message lists
                candidates.
        """
        return steering.change(self._runner, "forget", item, state)

    def correct(self, item: str, text: str, *, state: Any = None) -> Update:
        """Return the update of `om` that replaces the text of an observation.

        The log says that a person corrected it, and no reflection changes it.

        Args:
            item: As for `forget`.
            text: The right text.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` or `text` is blank.
            ItemError: As `forget` does.
        """
        return steering.change(self._runner, "correct", item, state, text)

    def pin(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` that protects an observation from reflections.

        Args:
            item: As for `forget`.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: As `forget` does.
        """
        return steering.change(self._runner, "pin", item, state)

    def unpin(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` that lets reflections change an observation again.

        Args:
            item: As for `forget`; one that a person pinned or wrote.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: As `forget` does; also, when the update is written, if it is not pinned.
        """
        return steering.change(self._runner, "unpin", item, state)

    def undo(self, act: str | None = None) -> Update:
        """Return the update of `om` that undoes a person's change to the log.

        Args:
            act: The `id` of an update of `remember`, `forget`, `correct`, `pin`, `unpin` or `undo`,
                as `om["steered"]` and `view` show it. `None`: the newest one not yet undone.
        """
        return steering.undo(self._runner, act)

    def pin_message(self, message_id: str, *, state: Any) -> Update:
        """Return the update of `om` that keeps a message visible to the Actor, word for word.

        Args:
            message_id: The id of a message of the conversation.
            state: As for `llm_input_messages`.

        Raises:
            ConfigurationError: When the id is blank.
            ItemError: When the conversation has no such message, or pinned messages leave no room.
        """
        return steering.pin_message(self._runner, message_id, state)

    def unpin_message(self, message_id: str, *, state: Any = None) -> Update:
        """Return the update of `om` that unpins a message.

        Args:
            message_id: Its id.
            state: With one, an `ItemError` is raised here if it is not pinned.

        Raises:
            ConfigurationError: When the id is blank.
            ItemError: When the state has no such pinned message.
        """
        return steering.unpin_message(self._runner, message_id, state)

    def set_title(self, text: str | None) -> Update:
        """Return the update of `om` that gives the thread a title, which memory never changes.

        The archive, and with it `threads`, gets the title at the thread's next step.

        Args:
            text: The title, of at most 120 characters; line breaks become spaces. `None`: memory
                may make titles again.

        Raises:
            ConfigurationError: When the text is blank or too long.
        """
        return titles.set_title(self._runner, text)


class ThreadMemory:
    """The memory of one thread: `memory.of(graph, config)`.

    Each method reads or writes the thread's current state, and has an async version with an `a`
    before its name: `await thread.aremember(...)`. Those that edit memory return the id of the
    act, and raise `ThreadBusyError` if a run under way would overwrite it.
    """

    def __init__(
        self,
        runner: StepRunner,
        graph: Any,
        config: RunnableConfig,
        *,
        as_node: str | None = None,
        wait: float = 30.0,
    ) -> None:
        self._runner = runner
        self._thread = GraphThread(runner, graph, config, as_node=as_node, wait=wait)
        self._updates, self.thread_id = Updates(runner), self._thread.id

    def __repr__(self) -> str:
        return f"ThreadMemory({self.thread_id!r})"

    # --- See it ----------------------------------------------------------------------------------

    @waited
    def view(self, *, history: bool = False) -> Requests[MemoryView]:
        """Return a readable summary; calls no model.

        Args:
            history: Whether to show what each of the last ten generations of the log changed.
        """
        state = yield from self._thread.read()
        states = (yield from self._thread.list_generations(10)) if history else None
        read = partial(build_view, self._runner, state, states, self.thread_id)
        view: MemoryView = yield from call_function(read, "om_view")
        return view

    @waited
    def status(self) -> Requests[dict[str, Any]]:
        """Return the `data` of `data-om-status`; calls no model."""
        read = partial(read_status, self._runner, (yield from self._thread.read()))
        status: dict[str, Any] = yield from call_function(read, "om_view")
        return status

    @waited
    def history(self, limit: int = 10) -> Requests[list[MemoryRecord]]:
        """Return the last record of each generation of the log in the thread, newest first.

        Args:
            limit: How many generations to return at most.
        """
        check_count("limit", limit)
        yield from self._thread.read()
        return read_history((yield from self._thread.list_generations(limit)), limit)

    @waited
    def rules(self) -> Requests[list[StandingInstruction]]:
        """Return the user's standing instructions that are in force, oldest first."""
        return read_rules(self._runner.record((yield from self._thread.read())))

    @waited
    def title(self) -> Requests[str | None]:
        """Return the thread's title; `None` while it has none."""
        return self._runner.record((yield from self._thread.read()))["thread_title"]

    @waited
    def search(
        self,
        query: str,
        *,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
    ) -> Requests[list[SearchHit]]:
        """Find messages and observations of the thread by words, the best first; calls no model.

        Evicted messages are found in the archive. What was forgotten or corrected is not found.
        With `retrieval={"vector": True}`, the graph's store is also searched by meaning.

        Args:
            query: As for `ObservationalMemory.search`.
            before: Only what was said before this time.
            after: Only what was said at this time or later.
            role: Only messages of this role.
            tool_name: Only calls of this tool and their results.

        Raises:
            ConfigurationError: When an argument is invalid, or the thread belongs to someone other
                than the user in the configuration.
            ArchiveError: When the archive's storage fails.
        """
        limits = {"before": before, "after": after, "role": role, "tool_name": tool_name}
        return searching.search_thread(self._thread, query, limit, **limits)

    aview, astatus, ahistory = awaited(view), awaited(status), awaited(history)
    arules, atitle, asearch = awaited(rules), awaited(title), awaited(search)

    # --- Change it -------------------------------------------------------------------------------

    @waited
    def remember(self, text: str, *, date: date | str | None = None) -> Requests[str]:
        """Add what a person wants to be remembered; no reflection changes it."""
        return self._thread.act(lambda now: self._updates.remember(text, date=date, state=now))

    @waited
    def forget(self, item: str) -> Requests[str]:
        """Remove an observation from the log; its messages and earlier checkpoints stay."""
        return self._thread.act(lambda now: self._updates.forget(item, state=now))

    @waited
    def correct(self, item: str, text: str) -> Requests[str]:
        """Replace the text of an observation; no reflection changes it."""
        return self._thread.act(lambda now: self._updates.correct(item, text, state=now))

    @waited
    def pin(self, item: str) -> Requests[str]:
        """Protect an observation from reflections."""
        return self._thread.act(lambda now: self._updates.pin(item, state=now))

    @waited
    def unpin(self, item: str) -> Requests[str]:
        """Let reflections again change an observation that a person pinned or wrote."""
        return self._thread.act(lambda now: self._updates.unpin(item, state=now))

    @waited
    def undo(self, act: str | None = None) -> Requests[str]:
        """Undo what a person did: the act with this id, or the newest one."""
        return self._thread.act(lambda _: self._updates.undo(act))

    @waited
    def pin_message(self, message_id: str) -> Requests[str]:
        """Keep a message visible to the Actor, word for word."""
        return self._thread.act(lambda now: self._updates.pin_message(message_id, state=now))

    @waited
    def unpin_message(self, message_id: str) -> Requests[str]:
        """Unpin a message."""
        return self._thread.act(lambda now: self._updates.unpin_message(message_id, state=now))

    @waited
    def set_title(self, text: str | None) -> Requests[str]:
        """Give the thread a title that memory never changes; `None` lets memory change it again.

        Returns:
            The id of the act.
        """
        return self._thread.act(lambda _: self._updates.set_title(text))

    aremember, aforget, acorrect = awaited(remember), awaited(forget), awaited(correct)
    apin, aunpin, aundo = awaited(pin), awaited(unpin), awaited(undo)
    apin_message, aunpin_message = awaited(pin_message), awaited(unpin_message)
    aset_title = awaited(set_title)

    # --- Ask memory's models ---------------------------------------------------------------------

    @waited
    def adopt(self, *, progress: Progress | None = None) -> Requests[AdoptReport]:
        """Observe a long thread in advance, so that its next turn does not have to wait.

        What is left fits the window. Without this call, the first turn with memory does the same.

        Args:
            progress: Called with an `AdoptProgress` after each observed batch.

        Raises:
            ConfigurationError: When the graph has no memory, or the thread is in the middle of a
                run or has no state.
            ThreadBusyError: When a run is under way.
            ArchiveError: When the archive's storage fails.
        """
        return adoption.observe(self._thread, progress)

    @waited
    def observe(self) -> Requests[AdoptReport]:
        """Observe the rest of the thread now, such as when its session ends.

        Waits for its jobs, puts their results into the log, and observes the rest, however little
        it is. With `scope="resource"`, the other threads then know it. An unanswered tool call
        stays unobserved.

        Returns:
            The result; `error` says why something is left. With memory
            turned off for this run (`om_enabled`, `om_read_only`), nothing is done.

        Raises:
            ConfigurationError: As for `adopt`.
            ThreadBusyError: As for `adopt`.
            ObserverError: When a model fails, with `on_error="raise"`; nothing is kept then.
        """
        return adoption.observe(self._thread, everything=True)

    @waited
    def reflect(self, instruction: str = "") -> Requests[AdoptReport]:
        """Condense the thread's observations now, however few they are.

        It waits for a reflection under way. Pinned observations and standing instructions
        stay, as in each reflection.

        Args:
            instruction: For the Reflector, this once, such as `"Keep names and amounts; drop
                small talk."`, added after `reflection={"instruction": ...}`.

        Returns:
            The result; `log_tokens` is the size now, and `error` says why nothing changed. With
            memory turned off for this run, nothing is done.

        Raises:
            ConfigurationError: As for `adopt`, or when `instruction` is not a text.
            ThreadBusyError: As for `adopt`.
            ObserverError: As for `observe`.
        """
        return adoption.reflect(self._thread, instruction)

    aadopt, aobserve, areflect = awaited(adopt), awaited(observe), awaited(reflect)

    # --- Move and delete it ----------------------------------------------------------------------

    @waited
    def move_to(self, resource_id: str) -> Requests[str]:
        """Give the thread to another user or entity, as `move_thread` of the memory does.

        Until then, it belongs to the user in `config`. Waits for a run under way, and writes
        the new owner into the thread's state, so that the former owner's next run is refused.

        Args:
            resource_id: The new owner.

        Returns:
            The id of the act.

        Raises:
            ConfigurationError: As `move_thread`, or when `config` does not name a whole thread.
            ThreadBusyError: When a run takes too long. If it began in the meantime, archive
                and store are moved already, and the same call moves the rest.
            ArchiveError: As `move_thread`.
        """
        return deletion.move_to(self._thread, resource_id)

    @waited
    def delete(self) -> Requests[list[str]]:
        """Delete the thread: messages, observations, search entries, jobs and checkpoints.

        Returns:
            As `delete_thread` of the memory: the threads whose checkpoints may still hold
            words from it. Behind a `RemoteGraph`, the thread itself is one of them; delete it with
            the server's client.

        Raises:
            ConfigurationError: As `delete_thread` of the memory.
            ArchiveError: As `delete_thread` of the memory.
        """
        return deletion.delete_from_graph(self._thread)

    amove_to, adelete = awaited(move_to), awaited(delete)

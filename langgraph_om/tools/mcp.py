"""A server of the Model Context Protocol that lets other agents and IDEs read one user's memory.

    langgraph-om mcp --archive sqlite:///memory.db --resource ana

starts one over stdio; `memory_server` returns one for your own application. It reads what an
`archive` keeps for one user, chosen by whoever starts or authorizes the server: no tool takes a
user, and a request for another user's data is answered as if there were none.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.items import list_items
from langgraph_om.core.record.record import blank_record, list_ranges, write_ranges
from langgraph_om.errors import ArchiveError, ConfigurationError, SourceError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.flows import run_in_thread
from langgraph_om.tools.sources import ArchiveSource, Change

__all__ = ["memory_server"]

logger = logging.getLogger("langgraph_om")

_OUTSIDE: Final = "an MCP client"
"""The thread of a caller: one that no archive has."""
_INSTRUCTIONS: Final = (
    "Long-term memory of an agent's conversations with one user. Read the resource "
    "memory://observations first: it is what the agent remembers. `search` finds messages and "
    "observations by their words, `threads` lists the conversations, and `recall` reads their "
    "messages word for word."
)
_NOTHING: Final = "(nothing is remembered yet)"
_MOST_LOGS: Final = 20
_T = TypeVar("_T")

ResourceOfCaller = str | Callable[[], str]
"""A user's id, or a function that returns it for each request, for example from the access token
that the SDK's `get_access_token()` returns."""

# Arguments as a client's model reads them.
_Text = Annotated[str, Field(description="Such as: User lives in Ghent.")]
_Day = Annotated[str | None, Field(description="The day it is about, ISO 8601; default: today.")]
_Item = Annotated[str, Field(description="An id in memory://observations, or the item's words.")]
_Query = Annotated[str, Field(description="Words, names or numbers to look for.")]
_Moment = Annotated[str | None, Field(description="An ISO 8601 date or time.")]
_Limit = Annotated[int | None, Field(ge=1, le=20, description="How many to return at most.")]
_InThread = Annotated[str | None, Field(description="A conversation that `threads` listed.")]
_Cursor = Annotated[str | None, Field(description="The id of the message to read from.")]
_Page = Annotated[int | None, Field(description="1 reads on from the cursor; -1 reads before it.")]
_Number = Annotated[int | None, Field(ge=0)]
_Detail = Annotated[
    Literal["low", "high"] | None, Field(description='"high" shows one message whole.')
]


def memory_server(
    memory: ObservationalMemory,
    *,
    resource_id: ResourceOfCaller,
    allow_writes: bool = False,
    store: Any = None,
    name: str = "memory",
    **settings: Any,
) -> Any:
    """Return a server of the Model Context Protocol over one user's memory.

    Run it over stdio with `server.run()`, or mount `server.streamable_http_app()` into your own
    application, as the `mcp` package describes.

    Args:
        memory: A memory with an `archive` and `retrieval={"scope": "resource"}`.
        resource_id: The user or entity: an id, or a function that returns the id for the current
            request and checks who is asking.
        allow_writes: Whether callers may also add and remove observations about the user
            (`remember`, `forget`), which needs `scope="resource"`.
        store: The LangGraph store to search, with `retrieval={"vector": True}`.
        name: The server's name.
        settings: Passed to the server's class, such as `auth` and `token_verifier`.

    Raises:
        ConfigurationError: When the memory has no archive or no `recall` over all threads of a
            resource, `resource_id` is blank, or the threads do not share a log.
        ImportError: When the package `mcp` is not installed.
    """
    server_class, refusal = _find_server_class()
    doors = _Doors(memory, resource_id, store, refusal)
    server = server_class(name=name, instructions=_INSTRUCTIONS, log_level="WARNING", **settings)
    hints = import_module("mcp.types").ToolAnnotations
    reads = hints.model_validate({"readOnlyHint": True, "openWorldHint": False})
    for tool in (doors.recall, doors.search, doors.threads):
        server.tool(annotations=reads)(tool)
    if allow_writes:
        doors.check_log()
        adds = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
        server.tool(annotations=hints.model_validate(adds))(doors.remember)
        takes = adds | {"destructiveHint": True}
        server.tool(annotations=hints.model_validate(takes))(doors.forget)
    for uri, read in (
        ("memory://observations", doors.read_observations),
        ("memory://threads/{thread_id}", doors.read_thread),
    ):
        server.resource(uri, description=inspect.getdoc(read), mime_type="text/markdown")(read)
    return server


def _find_server_class() -> tuple[Any, type[Exception]]:
    """Return the server class, and the class of errors whose text reaches a client.

    The second version of the `mcp` package renamed the first, and hides all other errors.
    """
    for module, name in (
        ("mcp.server.mcpserver", "MCPServer"),
        ("mcp.server.fastmcp", "FastMCP"),
    ):
        try:
            server = getattr(import_module(module), name)
            return server, import_module(f"{module}.exceptions").ResourceError
        except ModuleNotFoundError as error:
            missing = error
    msg = (
        "a server of the Model Context Protocol needs the package 'mcp'; install it with "
        "`pip install 'langgraph-om[mcp]'`"
    )
    raise ImportError(msg) from missing


class _Doors:
    """The tools and resources; a client's model reads their docstrings."""

    def __init__(
        self,
        memory: ObservationalMemory,
        resource_id: ResourceOfCaller,
        store: Any,
        refusal: type[Exception],
    ) -> None:
        check_memory(memory)
        self._refusal = refusal
        self._runner, self._store, self._resource = runner_of(memory), store, resource_id
        recall = self._runner.settings.parts.recall
        if memory.archive is None or recall is None or recall.config.scope != "resource":
            msg = (
                "`memory` reads only its current thread; for a server, pass one with "
                'archive="sqlite:///memory.db" and retrieval={"scope": "resource"}'
            )
            raise ConfigurationError(msg)
        if not callable(resource_id):
            _check_resource(resource_id)
        self._archive, self._updates, self._answer = memory.archive, memory.updates, recall.answer

    def check_log(self) -> None:
        """Refuse changes that no thread would look for."""
        if self._runner.settings.scope == "resource":
            return
        resource = self._resource
        if callable(resource) or self._archive.load_record(resource)[0] is None:
            msg = (
                "the user's threads do not share a log, so no change would reach them; "
                'omit `allow_writes` (`--write`), or serve a memory with scope="resource"'
            )
            raise ConfigurationError(msg)

    async def recall(  # noqa: PLR0917 arguments are passed by name
        self,
        cursor: _Cursor = None,
        thread_id: _InThread = None,
        page: _Page = None,
        limit: _Limit = None,
        detail: _Detail = None,
        part_index: _Number = None,
        char_offset: _Number = None,
    ) -> dict[str, Any]:
        """Read messages of the user's conversations word for word, page by page.

        Start at an id that `search` or a `_range` line of the observations names, or pass a
        `thread_id` and read from its beginning. `part_index` shows one part of a long message,
        from `char_offset` on.
        """
        if cursor is None and thread_id is None:
            return {"hint": "Write a `cursor` or a `thread_id`; `search` and `threads` list them."}
        return await self._ask(
            mode="messages",
            cursor=cursor,
            thread_id=thread_id,
            page=page,
            limit=limit,
            detail=detail,
            part_index=part_index,
            char_offset=char_offset,
        )

    async def search(  # noqa: PLR0917 the same
        self,
        query: _Query,
        thread_id: _InThread = None,
        before: _Moment = None,
        after: _Moment = None,
        limit: _Limit = None,
        page: _Number = None,
    ) -> dict[str, Any]:
        """Find messages and observations of the user's conversations by their words."""
        return await self._ask(
            mode="search",
            query=query,
            thread_id=thread_id,
            before=before,
            after=after,
            limit=limit,
            page=page,
        )

    async def threads(
        self,
        before: _Moment = None,
        after: _Moment = None,
        limit: _Limit = None,
        page: _Number = None,
    ) -> dict[str, Any]:
        """List the user's conversations with their titles and times, newest first."""
        return await self._ask(mode="threads", before=before, after=after, limit=limit, page=page)

    async def remember(self, text: _Text, date: _Day = None) -> str:
        """Add an observation to what the agent remembers of the user; nothing condenses it."""
        await self._change(lambda state: self._updates.remember(text, date=date, state=state))
        return "It is remembered."

    async def forget(self, item: _Item) -> str:
        """Take an observation out of what the agent remembers; its messages stay."""
        await self._change(lambda state: self._updates.forget(item, state=state))
        return "It is forgotten; the messages it came from stay."

    async def read_observations(self) -> str:
        """What the agent remembers of the user; if threads share nothing, from the newest."""
        return await self._in_thread(_write_memory)

    async def read_thread(self, thread_id: str) -> str:
        """What the agent observed in one conversation."""

        def read(source: ArchiveSource) -> str:
            state = source.read(thread_id)
            if state is None:
                msg = f"there is no thread {thread_id!r}"
                raise SourceError(msg)
            return _write_log(state["om"])

        return await self._in_thread(read)

    async def _ask(self, **arguments: Any) -> dict[str, Any]:
        def ask(source: ArchiveSource) -> dict[str, Any]:
            who = Identity(_OUTSIDE, source.resource)
            return self._answer(arguments, who, blank_record(), [], self._store)

        return await self._in_thread(ask)

    async def _change(self, build: Change) -> None:
        await self._in_thread(lambda source: source.change_log(build))

    async def _in_thread(self, read: Callable[[ArchiveSource], _T]) -> _T:
        """Read the memory of the caller's user beside the event loop."""
        said = self._resource
        resource = _check_resource(said() if callable(said) else said)
        try:
            return await run_in_thread(read, ArchiveSource(self._archive, resource))
        except ArchiveError as error:
            logger.warning("resource %r: the archive cannot be read: %s", resource, error)
            msg = "The memory cannot be read at the moment; try again."
            raise self._refusal(msg) from None
        except (ConfigurationError, SourceError) as error:
            raise self._refusal(str(error)) from error


def _check_resource(resource: object) -> str:
    if isinstance(resource, str) and resource.strip():
        return resource
    msg = f"`resource_id` is {resource!r}; pass the id of the user, or a function that returns it"
    raise ConfigurationError(msg)


def _write_memory(source: ArchiveSource) -> str:
    """Write what is known from all threads of a user; if they share nothing, from the newest."""
    log = source.read_log()
    if log is not None:
        return _write_log(log)
    listed = source.archive.list_threads(resource_id=source.resource, limit=_MOST_LOGS)
    states = [(own.thread.id, source.read(own.thread.id)) for own in listed]
    written = [
        f"# {thread}\n\n{_write_log(state['om'])}"
        for thread, state in states
        if state is not None and state["om"]["log"]
    ]
    return "\n\n".join(written) or _NOTHING


def _write_log(record: Mapping[str, Any]) -> str:
    """Write observations by day, each with its id, and the messages behind each group."""
    lines: list[str] = []
    items = list_items(record["log"])
    for at, item in enumerate(items):
        if at == 0 or item.day != items[at - 1].day:
            lines.append(f"\n## {item.day}\n" if lines else f"## {item.day}\n")
        head, *rest = item.text.strip().split("\n")
        lines += [f"{head} [{item.id}]", *rest]
        is_last = at + 1 == len(items) or items[at + 1].group["id"] != item.group["id"]
        if is_last and (ranges := list_ranges(item.group)):
            lines.append(write_ranges(ranges))
    return "\n".join(lines) or _NOTHING

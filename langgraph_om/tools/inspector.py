"""The inspector: pages for a LangGraph server or FastAPI that show what an agent remembers.

They work without JavaScript, which only adds live updates.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

try:
    import jinja2  # noqa: F401 it renders the pages
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    msg = (
        f"the inspector needs the package {error.name!r}, which is not installed; install it with "
        f"`pip install 'langgraph-om[web]'`"
    )
    raise ImportError(msg) from error

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.prompt import list_channels
from langgraph_om.core.actor.view import list_parts
from langgraph_om.core.content.message_keys import keyed_conversation
from langgraph_om.core.content.parts import content_blocks, role_of
from langgraph_om.core.content.text import write_json
from langgraph_om.core.record.record import list_ranges
from langgraph_om.core.search import read_text
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Group
from langgraph_om.errors import ConfigurationError, ThreadBusyError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.flows import run_in_thread
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.tools.shown import STATIC, list_acts, render
from langgraph_om.tools.sources import (
    GraphSource,
    ServerSource,
    Thread,
    Wanted,
    build_update,
    complete,
    list_archived,
    read_number,
)
from langgraph_om.tools.view import build_view, describe_view

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

__all__ = ["memory_app"]

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_LOCAL_HOST: Final = re.compile(
    r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]*)?", re.IGNORECASE
)
"""A `Host` by which a machine reaches itself. A foreign site may have pointed any other name at
this machine, to read the pages from a browser that runs on it (DNS rebinding)."""
_FOREIGN_HOST: Final = (
    "These pages are served only on localhost. To serve them under another name, pass "
    "`authorize=...`, which decides who may see them, or `allowed_hosts=[...]` to `memory_app`."
)
_MAX_BODY: Final = 64 * 1024
"""Bytes of a form."""

Authorize = Callable[[Request, str | None], bool | Awaitable[bool]]
"""Takes a request and its thread (`None` for the list); returns whether to answer it."""
Page = Callable[[Request], Awaitable[Response]]


def memory_app(
    memory: ObservationalMemory,
    *,
    graph: Any = None,
    client: Any = None,
    edit: bool = False,
    authorize: Authorize | None = None,
    allowed_hosts: Sequence[str] | None = None,
    limit: int = 50,
) -> Starlette:
    """Return an application with the pages `/memory` and `/memory/{thread}`: the inspector.

    For `"http": {"app": "./file.py:app"}` in a server's `langgraph.json`, and for
    `fastapi_app.mount("/", memory_app(...))`. The pages answer only under local names
    (`localhost`, `127.0.0.1`, `[::1]`) until `authorize` or `allowed_hosts` is given. They show
    all threads that `authorize` allows.

    Args:
        memory: The agent's memory.
        graph: The agent's compiled graph, with a checkpointer, in this process.
        client: A LangGraph server's asynchronous client; `None` without a graph: the client of the
            server in which the application runs.
        edit: Whether the pages let a person change what is remembered. Forms are accepted only
            from these pages, as `Sec-Fetch-Site` or `Origin` shows.
        authorize: Whether a request may be answered, given the thread, or `None` for the list; sync
            or async. `None`: every request to an allowed host.
        allowed_hosts: The hosts under which the pages answer, such as `"memory.example.com"`, as
            Starlette's `TrustedHostMiddleware` takes them; `["*"]` for all. `None`: only local
            names, or all hosts with `authorize`.
        limit: How many threads each page of the list shows.

    Raises:
        ConfigurationError: When `graph` and `client` are both given, the graph has no checkpointer,
            or `allowed_hosts` is a text.
    """
    if isinstance(allowed_hosts, str):
        msg = f"`allowed_hosts` is {allowed_hosts!r}; pass a list of hosts"
        raise ConfigurationError(msg)
    if authorize is None and allowed_hosts is None:
        authorize = _is_local
    source = _choose_source(check_memory(memory), graph, client)
    pages = _Pages(memory, source, authorize, edit, limit)
    hosts = ["*"] if allowed_hosts is None else [*allowed_hosts]
    methods = ["GET", "POST"] if edit else ["GET"]
    return Starlette(
        routes=[
            Route("/memory", _telling(pages.list)),
            Route("/memory/{thread:path}", _telling(pages.thread), methods=methods),
            Route("/memory-live/{thread:path}", _telling(pages.live)),
            Route("/memory-static/{name}", pages.static),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )


def _is_local(request: Request, thread: str | None) -> bool:
    return _LOCAL_HOST.fullmatch(request.headers.get("host", "")) is not None


def _choose_source(
    memory: ObservationalMemory, graph: Any, client: Any
) -> GraphSource | ServerSource:
    if graph is not None and client is not None:
        msg = "`graph` and `client` are both given; pass the one whose threads you want to see"
        raise ConfigurationError(msg)
    if graph is not None and not getattr(graph, "checkpointer", None):
        msg = "`graph` has no checkpointer, so there are no threads to show"
        raise ConfigurationError(msg)
    runner = runner_of(memory)
    if graph is not None:
        return GraphSource(graph, runner)
    if client is None:
        try:
            from langgraph_sdk import get_client  # noqa: PLC0415 optional
        except ImportError as error:
            msg = "pass `graph`, or install the package 'langgraph-sdk' to reach a server"
            raise ConfigurationError(msg) from error
        client = get_client()
    return ServerSource(client, runner)


@dataclass
class _Pages:
    _memory: ObservationalMemory
    _source: GraphSource | ServerSource
    _authorize: Authorize | None
    _edit: bool
    _limit: int

    async def static(self, request: Request) -> Response:
        found = _STATIC.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        kind, body = found
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(body, media_type=kind, headers={**_HEADERS, **headers})

    async def list(self, request: Request) -> Response:
        if not await self._may(request, None):
            return self._forbid(request)
        asked, archive = request.query_params, self._memory.archive
        wanted = Wanted(asked.get("q", ""), asked.get("user", ""), asked.get("behind", ""))
        listed = self._source.threads(wanted) if archive is None else list_archived(archive, wanted)
        found: list[Thread] = []
        async with aclosing(listed) as threads:
            async for thread in threads:
                if await self._may(request, thread.id):
                    found.append(thread)
                if len(found) > self._limit:
                    break
        shown, key = found[: self._limit], runner_of(self._memory).messages_key
        rows = await asyncio.gather(*(complete(self._source, each, key) for each in shown))
        kept = {name: asked[name] for name in ("q", "user") if asked.get(name)}
        has_more = len(found) > self._limit
        return _render(
            request,
            "list.html",
            title="Memories",
            rows=rows,
            wanted=wanted,
            older=urlencode({**kept, "behind": shown[-1].mark}) if has_more else None,
            newest=urlencode(kept) if wanted.behind else None,
            has_archive=archive is not None,
            thresholds=self._memory.thresholds,
        )

    async def thread(self, request: Request) -> Response:
        """Answer with the memory of a thread, or change it."""
        thread = request.path_params["thread"]
        if not await self._may(request, thread):
            return self._forbid(request)
        version = await self._source.version(thread)
        state = None if version is None else await self._source.state(thread)
        if state is None:
            return _refuse(request, f"There is no thread {thread!r}.", 404)
        if request.method == "POST":
            return await self._change(request, thread)
        query = dict(request.query_params)
        states = await self._source.history(thread) if "history" in query else None
        runner = runner_of(self._memory)
        shown = await run_in_thread(read_page, runner, thread, state, states, query)
        acts = [act for act in list_acts(shown["record"]) if act.id == query.get("done")]
        return _render(
            request,
            "thread.html",
            **shown,
            version_of_state=version,
            edit=self._edit,
            has_history=states is not None,
            done=acts[0] if acts else None,
            is_done="done" in query,
        )

    async def _change(self, request: Request, thread: str) -> Response:
        if not _is_from_our_page(request.headers):
            return _refuse(request, "This form was not sent by a page of this site.", 403)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MAX_BODY:
                return _refuse(request, "The form is too large.", 413)
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        updates, action = self._memory.updates, form.get("action", "")
        try:
            act = await self._source.change(
                thread, lambda state: build_update(updates, action, form, state)
            )
        except (ConfigurationError, ThreadBusyError) as error:
            return _refuse(request, str(error), 400)
        place = f"{quote(request.url.path)}?{urlencode({'done': act})}"
        return RedirectResponse(place, 303, headers=_HEADERS)

    async def live(self, request: Request) -> Response:
        """Answer with a text that changes once the thread goes on."""
        thread = request.path_params["thread"]
        if not await self._may(request, thread):
            return Response(status_code=403)
        version = await self._source.version(thread)
        if version is None:
            return Response(status_code=404)
        return Response(version, media_type="text/plain", headers=_HEADERS)

    async def _may(self, request: Request, thread: str | None) -> bool:
        if self._authorize is None:
            return True
        allowed = self._authorize(request, thread)
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)

    def _forbid(self, request: Request) -> Response:
        is_local = self._authorize is _is_local
        return _refuse(request, _FOREIGN_HOST if is_local else "You may not see this.", 403)


def _is_from_our_page(headers: Mapping[str, str]) -> bool:
    """Return whether a form was sent by a page of the same origin, and not by another site.

    Browsers send this, and no page can change it. A request without it is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


# --- The page of a thread ------------------------------------------------------------------------

_PAGE: Final = 100
"""Messages on a page."""
_LONG: Final = 600
"""Characters of a message that are shown at first; the rest unfolds."""
_UNSENT: Final = 1000
"""How many of a state's messages are checked for ones not yet in the archive."""
_ROLES: Final = {"human": "user", "ai": "assistant"}


def read_page(
    runner: StepRunner, thread: str, state: Any, states: Any, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the page of a thread shows, by the names that its template uses.

    Args:
        thread: The id that was authorized; the id in a record is set by whoever wrote the state.
        states: The thread's history, if requested.
    """
    view = build_view(runner, state, states, thread)
    record, messages = view.record, runner.conversation(state)
    step = runner.look(record, messages, runner.read_state(state))
    talk = Conversation(messages, runner.archive, thread)
    waiting = [group for chunk in record["chunks"] for group in chunk["groups"]]
    ranges = find_ranges(talk, (thread, record["thread_id"]), [*record["log"], *waiting])
    asked = read_number(query.get("message", ""))
    start = max(0, talk.total - _PAGE)
    if asked is not None and asked < talk.total:
        start = asked // _PAGE * _PAGE
    stop = min(talk.total, start + _PAGE)
    shown = describe_view(view)
    sent = runner.actor_input(step, runner.actor.prompt) if "prompt" in query else []
    return {
        **shown,
        "values": [*list_channels(step.settings, step.in_state.channels), *shown["values"]],
        "thread": thread,
        # The nodes that the graph continues with; none after its last run has ended.
        "next": state.get("next") if isinstance(state, Mapping) else getattr(state, "next", ()),
        "ranges": ranges,
        "messages": read_messages(talk.read(start, stop), ranges, step),
        "start": start,
        "stop": stop,
        "total": talk.total,
        "parts_of_prompt": list_parts(step.settings, step.view, runner.actor.prompt),
        "sent": [(_ROLES.get(own.type, own.type), _write_whole(own)) for own in sent],
    }


Place = tuple[int, str, BaseMessage]
"""A position, counted from 0 at the beginning of the conversation, and the message there with its
key."""


class Conversation:
    """A thread's messages by their positions: in the archive, if there is one, and the state."""

    def __init__(
        self, messages: Sequence[BaseMessage], archive: SQLAlchemyArchive | None, thread: str
    ) -> None:
        """Find out how many messages there are."""
        self._own = keyed_conversation(messages)
        self._archive, self._thread, self._kept = archive, thread, 0
        last = None if archive is None else archive.last_position(thread)
        if archive is not None and last is not None:
            self._kept = last + 1
            newest = self._own[-_UNSENT:]
            known = archive.contains(thread, [key for key, _ in newest])
            sent = [at for at, (key, _) in enumerate(newest) if key in known]
            self._own = newest[sent[-1] + 1 :] if sent else newest

    @property
    def total(self) -> int:
        """The number of messages."""
        return self._kept + len(self._own)

    def read(self, start: int, stop: int) -> list[Place]:
        """Return the messages of these positions."""
        found: list[Place] = []
        if self._archive is not None and start < self._kept:
            last = min(stop, self._kept)
            rows = self._archive.messages(
                self._thread, start=start, stop=last, limit=last - start, visible_only=False
            )
            found += [(row.position, row.key, row.message) for row in rows if not row.is_pruned]
        for at in range(max(start, self._kept), min(stop, self.total)):
            found.append((at, *self._own[at - self._kept]))
        return found

    def places(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the positions of messages, without those that are not found."""
        wanted = set(keys)
        own = {key: self._kept + at for at, (key, _) in enumerate(self._own) if key in wanted}
        kept = {} if self._archive is None else self._archive.places(self._thread, keys)
        return {**kept, **own}


def find_ranges(
    talk: Conversation, threads: Sequence[str], groups: Sequence[Group]
) -> dict[str, list[tuple[int, int]]]:
    """Return the runs of messages, first and last, that groups of this thread were written from."""
    runs = {
        group["id"]: [(run[0], run[-1]) for run in list_ranges(group)]
        for group in groups
        if not group["thread_id"] or group["thread_id"] in threads
    }
    places = talk.places([key for own in runs.values() for run in own for key in run])
    return {
        name: sorted({(places[a], places[b]) for a, b in own if a in places and b in places})
        for name, own in runs.items()
    }


def read_messages(
    places: Sequence[Place], ranges: Mapping[str, Sequence[tuple[int, int]]], step: Step
) -> list[dict[str, Any]]:
    """Return messages as the page shows them."""
    settings = step.settings
    times = settings.times_of([each[1:] for each in places], step.record["stamps"])
    found: list[dict[str, Any]] = []
    for (at, _, message), time in zip(places, times, strict=True):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        # Only the words: calls are shown by themselves.
        text = message.text.strip() or ("" if calls else read_text(message).strip())
        cut = len(text) if len(text) <= _LONG else max(text.rfind(" ", 0, _LONG), _LONG // 2)
        groups = [
            name
            for name, runs in ranges.items()
            if any(start <= at <= stop for start, stop in runs)
        ]
        found.append(
            {
                "at": at,
                "role": role_of(message) or message.type,
                "tool": (getattr(message, "name", None) or "") if message.type == "tool" else "",
                "time": f"{time.astimezone(settings.timezone):%Y-%m-%d %H:%M}" if time else "",
                "text": text[:cut],
                "rest": text[cut:],
                "calls": [(call["name"], write_json(call["args"])) for call in calls],
                "groups": groups,
            }
        )
    return found


def _write_whole(message: BaseMessage) -> str:
    """Return all that a message says, its calls as JSON."""
    said = ""
    for block in content_blocks(message.content):
        text = block if isinstance(block, str) else block.get("text")
        is_text = isinstance(block, str) or (block.get("type") == "text" and text is not None)
        said += str(text) if is_text else write_json(block)
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({write_json(call['args'])})" for call in calls]
    return "\n".join(filter(None, [said, *written]))


# --- Templates and files -------------------------------------------------------------------------

_KINDS: Final = {".css": "text/css", ".js": "text/javascript"}
_STATIC: Final = {
    file.name: (_KINDS[file.suffix], file.read_bytes())
    for file in STATIC.iterdir()
    if file.suffix in _KINDS
}
"""Type and content of each file that a page asks for, by its name."""
_VERSION: Final = hashlib.sha256(b"".join(body for _, body in _STATIC.values())).hexdigest()[:12]
"""Requested with each file, which browsers then cache for good."""


def _find_root(request: Request) -> str:
    """Return the path from a page to the application's root, as its browser sees it.

    It is relative, so it also works behind a proxy that strips part of the path.
    """
    path, root = request.scope["path"], str(request.scope.get("root_path", ""))
    raw = request.scope.get("raw_path") or quote(path).encode()
    outside = root.count("/") if path.startswith(root) else 0
    return "../" * (raw.count(b"/") - outside - 1)


def _render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    text = render(template, root=_find_root(request), version=_VERSION, **values)
    return HTMLResponse(text, status, headers=_HEADERS)


def _telling(page: Page) -> Page:
    """Return a page that reports configuration errors.

    A handler of the application would also answer for a LangGraph server's own routes, which are
    added to it.
    """

    async def answer(request: Request) -> Response:
        try:
            return await page(request)
        except ConfigurationError as error:
            return _refuse(request, f"{error}.", 503)

    return answer


def _refuse(request: Request, text: str, status: int) -> Response:
    return _render(request, "refusal.html", status, title="That didn't work", text=text)

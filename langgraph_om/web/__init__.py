"""The inspector: pages of a LangGraph server or of FastAPI that show what an agent remembers.

`memory_app` is the application. `threads` finds the threads, `thread_page` reads one, and the
templates say how they look. They work without a script, which adds what is live.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final, get_args
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

try:
    from starlette.applications import Starlette
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as error:
    msg = (
        f"the pages of memory need the package {error.name!r}, and it is not installed; install it "
        f"with `pip install 'langgraph-om[web]'`"
    )
    raise ImportError(msg) from error

from langgraph_om.core.actor.in_sight import list_channels
from langgraph_om.core.items import list_items
from langgraph_om.core.page import OPERATIONS, describe_memory, list_usage
from langgraph_om.core.record.titles import is_named
from langgraph_om.core.step.inspect import build_status
from langgraph_om.core.wire import MemoryRecord, SteeringAction
from langgraph_om.errors import ConfigurationError, ThreadBusyError
from langgraph_om.features.steering import find_left, list_done
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.acting import Update
from langgraph_om.templates import render
from langgraph_om.web.thread_page import (
    MESSAGES,
    Conversation,
    LogReader,
    Prices,
    draw_curves,
    place_shares,
    read_messages,
    read_prompt,
    read_turns,
    write_dollars,
)
from langgraph_om.web.threads import (
    ArchivedThreads,
    Figures,
    GraphThreads,
    Listed,
    ServerThreads,
    Threads,
    Wanted,
    read_number,
    sum_by_user,
)

__all__ = ["memory_app"]

# What a person changes: the forms of acts, and what they send.


DONE: Final = {
    "remember": "It is remembered.",
    "pin": "It is pinned: no reflection changes it.",
    "unpin": "It is not pinned any more.",
    "forget": "An item that stood here is forgotten.",
    "correct": "It is corrected.",
    "undo": "The last change is undone.",
    "pin-message": "The message is pinned: the agent reads it in each prompt.",
    "unpin-message": "The message is not pinned any more.",
    "title": "The thread has its title.",
    "untitle": "Memory names the thread.",
}
"""Said when a change is made, by the `action` of its form."""
MAX_BODY: Final = 64 * 1024
"""Bytes of a form that is read."""


def read_act(memory: ObservationalMemory, form: Mapping[str, str], state: Any) -> Update:
    """Return the update of `om` that a form asks for."""
    updates, item, text = memory.updates, form.get("item", ""), form.get("text", "")
    match form.get("action", ""):
        case "remember":
            update = updates.remember(text, state=state)
        case "pin":
            update = updates.pin(item, state=state)
        case "unpin":
            update = updates.unpin(item, state=state)
        case "forget":
            update = updates.forget(item, state=state)
        case "correct":
            update = updates.correct(item, text, state=state)
        case "undo":
            update = updates.undo(form.get("act") or None)
        case "pin-message":
            update = updates.pin_message(text, state=state)
        case "unpin-message":
            update = updates.unpin_message(text, state=state)
        case "title" | "untitle" as action:
            update = updates.set_title(text if action == "title" else None)
        case action:
            msg = f"`action` is {action!r}; pass one of {', '.join(DONE)}"
            raise ConfigurationError(msg)
    return update


def is_from_our_page(headers: Mapping[str, str]) -> bool:
    """Return whether a form was sent by a page of the same origin, and not by another site.

    Browsers say so, and no page can change what they say. What says nothing is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


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
"""A `Host` by which a machine reaches itself. Any other name may be one that a foreign site has
pointed at this machine, to read the pages from a browser that runs on it (DNS rebinding)."""

_FOREIGN_HOST: Final = (
    "These pages answer under localhost alone. To serve them under another name, pass "
    "`authorize=...`, which says who may see them, or `allowed_hosts=[...]` to `memory_app`."
)

_POLL = 1.0
"""Seconds between two looks at a thread that somebody watches."""
_SHARE: Final = 20
"""A look that takes long comes so many times its time later, so that it is little of it."""
_HEARTBEAT: Final = 15.0
"""Seconds after which a listener is told that there is nothing new."""
_MOST_STREAMS: Final = 100
"""How many listeners there are at once."""

Authorize = Callable[[Request, str | None], bool | Awaitable[bool]]
Page = Callable[[Request], Awaitable[Response]]
"""Told a request and the thread it is about, `None` for the list: whether it may be answered."""


def memory_app(
    memory: ObservationalMemory,
    *,
    graph: Any = None,
    client: Any = None,
    edit: bool = False,
    authorize: Authorize | None = None,
    allowed_hosts: Sequence[str] | None = None,
    limit: int = 50,
    prices: Prices | None = None,
) -> Starlette:
    """Return an application with the pages `/memory` and `/memory/{thread}`: the inspector.

    For `"http": {"app": "./file.py:app"}` in a server's `langgraph.json`, and for
    `fastapi_app.mount("/", memory_app(...))`. The pages answer under local names alone
    (`localhost`, `127.0.0.1`, `[::1]`) until `authorize` or `allowed_hosts` is given. They show
    all threads that `authorize` does not refuse.

    Args:
        memory: The agent's memory.
        graph: The agent's compiled graph, with a checkpointer, in this process.
        client: A LangGraph server's asynchronous client; `None` without a graph: that of the server
            in which the application runs.
        edit: Whether the pages let a person change what is remembered. Forms are taken only from
            these pages themselves, as browsers say by `Sec-Fetch-Site` or `Origin`.
        authorize: Whether a request may be answered, given the thread, or `None` for the list; sync
            or async. `None`: each may that names an allowed host.
        allowed_hosts: The hosts under which the pages answer, such as `"memory.example.com"`, as
            Starlette's `TrustedHostMiddleware` takes them; `["*"]` for each. `None`: local names
            alone, and with `authorize` each host.
        limit: How many threads a page of the list names.
        prices: Dollars for a million tokens in and out, such as
            `{"agent": (3, 15), "memory": (0.3, 2.5)}`; a third number is for tokens that the
            provider had in its cache. `None`: costs are told in tokens.

    Raises:
        ConfigurationError: When `graph` and `client` are both given, the graph has no checkpointer,
            `allowed_hosts` is a text, or `prices` cannot be read.
    """
    if isinstance(allowed_hosts, str):
        msg = f"`allowed_hosts` is {allowed_hosts!r}; pass a list of hosts"
        raise ConfigurationError(msg)
    if authorize is None and allowed_hosts is None:
        authorize = _is_local
    threads = _choose_threads(check_memory(memory), graph, client)
    _check_prices(prices)
    pages = _Pages(memory, threads, authorize, edit, limit, prices)
    hosts = ["*"] if allowed_hosts is None else [*allowed_hosts]
    methods = ["GET", "POST"] if edit else ["GET"]
    register_url_convertor("om_thread", _AnyThread())
    return Starlette(
        routes=[
            Route("/memory", _telling(pages.list)),
            Route("/memory/{thread:om_thread}", _telling(pages.thread), methods=methods),
            Route("/memory-live/{thread:om_thread}", _telling(pages.live)),
            Route("/memory-static/{name}", pages.static),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )


def _check_prices(prices: Prices | None) -> None:
    for name, given in (prices or {}).items():
        has_rates = isinstance(given, Sequence) and len(given) in (2, 3)
        is_read = name in ("agent", "memory") and has_rates
        if not is_read or not all(isinstance(each, int | float) for each in given):
            msg = (
                f"`prices` has {name!r}: {given!r}; pass 'agent' and 'memory' with dollars for a "
                f"million tokens, in and out, such as (3, 15)"
            )
            raise ConfigurationError(msg)


class _AnyThread(Convertor[str]):
    """Takes any thread id from a path, also one with slashes and line breaks."""

    regex = r"(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def _is_local(request: Request, thread: str | None) -> bool:
    """Return whether the request names this machine as its host."""
    return _LOCAL_HOST.fullmatch(request.headers.get("host", "")) is not None


def _choose_threads(memory: ObservationalMemory, graph: Any, client: Any) -> Threads:
    if graph is not None and client is not None:
        msg = "`graph` and `client` are both given; pass the one whose threads are to be shown"
        raise ConfigurationError(msg)
    if graph is not None and not getattr(graph, "checkpointer", None):
        msg = "`graph` has no checkpointer, so that there are no threads to show"
        raise ConfigurationError(msg)
    runner = runner_of(memory)
    place: Threads
    if graph is not None:
        place = GraphThreads(graph, runner)
    elif client is not None:
        place = ServerThreads(client, runner)
    else:
        try:
            from langgraph_sdk import get_client  # noqa: PLC0415 optional
        except ImportError as error:
            msg = "pass `graph`, or install the package 'langgraph-sdk' to ask a server"
            raise ConfigurationError(msg) from error
        place = ServerThreads(get_client(), runner)
    archive = memory.archive
    return place if archive is None else ArchivedThreads(archive, place)


@dataclass
class _Pages:
    _memory: ObservationalMemory
    _threads: Threads
    _authorize: Authorize | None
    _edit: bool
    _limit: int
    _prices: Prices | None
    _streams: int = 0

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
        asked = request.query_params
        wanted = Wanted(asked.get("q", ""), asked.get("user", ""), asked.get("behind", ""))
        found: list[Listed] = []
        has_more = is_cut = False
        async with aclosing(self._threads.names(wanted)) as names:
            async for listed in names:
                if listed is None:
                    is_cut = True
                elif await self._may(request, listed.id):
                    if len(found) == self._limit:
                        has_more = True
                        break
                    found.append(listed)
        rows = await asyncio.gather(*map(self._threads.complete, found))
        older = {**_kept(wanted), "behind": found[-1].mark} if has_more else None
        return _render(
            request,
            "list.html",
            title="Memories",
            rows=rows,
            users=sum_by_user(rows),
            wanted=wanted,
            is_cut=is_cut,
            older=urlencode(older) if older else None,
            newest=urlencode(_kept(wanted)) if wanted.behind else None,
            thresholds=self._memory.thresholds,
            prices=self._prices,
            price=self._price,
        )

    def _price(self, figures: Figures) -> str | None:
        return price_memory([("", 0, figures.tokens_in, figures.tokens_out)], self._prices)

    async def thread(self, request: Request) -> Response:
        """Answer with the memory of a thread, or change it."""
        thread = request.path_params["thread"]
        if not await self._may(request, thread):
            return self._forbid(request)
        state = await self._threads.state(thread)
        if state is None:
            return _refuse(request, f"There is no thread {thread!r}.", 404)
        if request.method == "POST":
            return await self._change(request, thread, state)
        asks = "history" in request.query_params
        history = self._memory.history(await self._threads.history(thread)) if asks else ()
        query = dict(request.query_params)
        shown = await asyncio.to_thread(read_page, self._memory, thread, state, query, self._prices)
        done = DONE.get(query.get("done", ""))
        is_undone = query.get("done") in get_args(SteeringAction)
        return _render(
            request,
            "thread.html",
            **shown,
            thread=thread,
            edit=self._edit,
            done=done,
            place=_find_place(request, shown["record"]) if done else None,
            undo=query.get("act") if self._edit and is_undone else None,
            generations=list(pairwise(history)),
            has_history=asks,
            is_live=True,
        )

    async def live(self, request: Request) -> Response:
        """Answer with an event each time that the thread changes, as long as somebody listens."""
        thread = request.path_params["thread"]
        if not await self._may(request, thread):
            return Response(status_code=403)
        if await self._threads.version(thread) is None:
            return Response(status_code=404)
        if self._streams >= _MOST_STREAMS:
            return Response(status_code=503)
        kind = "text/event-stream"
        return StreamingResponse(self._follow(thread), media_type=kind, headers=_HEADERS)

    async def _follow(self, thread: str) -> AsyncGenerator[str]:
        self._streams += 1
        try:
            last, told = await self._threads.version(thread), time.monotonic()
            yield ": ready\n\n"
            while last is not None:
                begun = time.monotonic()
                now = await self._threads.version(thread)
                took = time.monotonic() - begun
                if now != last:
                    yield "event: changed\ndata: 1\n\n"
                    last, told = now, time.monotonic()
                elif time.monotonic() - told > _HEARTBEAT:
                    yield ": still here\n\n"
                    told = time.monotonic()
                await asyncio.sleep(max(_POLL, _SHARE * took))
        finally:
            self._streams -= 1

    async def _change(self, request: Request, thread: str, state: Any) -> Response:
        if not is_from_our_page(request.headers):
            return _refuse(request, "This form was not sent by a page of this site.", 403)
        form = await _read_form(request)
        if form is None:
            return _refuse(request, "The form is too large.", 413)
        try:
            update = read_act(self._memory, form, state)
            await self._threads.write(thread, update)
        except (ConfigurationError, ThreadBusyError) as error:
            return _refuse(request, str(error), 400)
        query = urlencode(
            {"done": form["action"], "act": update[0]["id"], "at": form.get("at", "")}
        )
        place = f"{quote(request.url.path)}?{query}#done"
        return RedirectResponse(place, 303, headers=_HEADERS)

    async def _may(self, request: Request, thread: str | None) -> bool:
        if self._authorize is None:
            return True
        allowed = self._authorize(request, thread)
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)

    def _forbid(self, request: Request) -> Response:
        is_local = self._authorize is _is_local
        return _refuse(request, _FOREIGN_HOST if is_local else "You may not see this.", 403)


def _kept(wanted: Wanted) -> dict[str, str]:
    return {name: text for name, text in (("q", wanted.text), ("user", wanted.user)) if text}


def _find_place(request: Request, record: MemoryRecord) -> int | None:
    """Return the number of the item at which a change is told; `None` for the head of the page."""
    at, items = read_number(request.query_params.get("at", "")), list_items(record["log"])
    if at is None or not items:
        return None
    left = find_left(record, request.query_params.get("act", ""))
    # A change may move an item, behind the rest of its group. One that is gone has no number.
    moved = [number for number, item in enumerate(items) if item.group["id"] in left]
    return moved[0] if moved else min(at, len(items) - 1)


async def _read_form(request: Request) -> Mapping[str, str] | None:
    """Return the fields of a form; `None` when it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


# What a thread's page shows.


def read_page(
    memory: ObservationalMemory,
    thread: str,
    state: Any,
    query: Mapping[str, str],
    prices: Prices | None,
) -> dict[str, Any]:
    """Return what the page of a thread shows, by the names that its template has for it."""
    runner = runner_of(memory)
    messages = runner.conversation(state)
    record = runner.take_in(runner.record(state), messages)
    step = runner.look(record, messages, runner.read_state(state))
    fitted, actor = runner.read_window(record)
    at = max(0, record["turn"]["step"])
    status = build_status(record, step.window, fitted.thresholds, step=at, actor=actor)
    # By the id that was authorized: whoever writes the state chooses the id in its record.
    talk = Conversation(messages, memory.archive, thread)
    waiting = [group for chunk in record["chunks"] for group in chunk["groups"]]
    reader = LogReader(record, [*record["log"], *waiting], talk)
    start, stop = _find_messages(query, talk.total)
    settings = step.settings
    prompt = read_prompt(runner, step, is_whole="prompt" in query)
    tokens = [part.tokens for part in prompt.parts]
    turns = read_turns(talk)
    return {
        **describe_memory(record, status, runner.list_apart(record)),
        "is_named": is_named(record),
        "user": record["resource_id"],
        # The nodes that the graph goes on with; none where its last run has ended.
        "next": (state.get("next") if isinstance(state, Mapping) else getattr(state, "next", ())),
        "pending": [OPERATIONS[name] for name in record["pending"]],
        "reader": reader,
        "messages": read_messages(talk.read(start, stop), reader, step),
        "start": start,
        "stop": stop,
        "total": talk.total,
        "of_state": list_channels(settings, step.in_state.channels),
        "done_acts": list_done(record),
        "prompt": prompt,
        "parts": list(zip(prompt.parts, place_shares(tokens), strict=True)),
        "curves": draw_curves(turns, (prices or {}).get("agent")),
        "turns": turns,
        "memory_cost": price_memory(list_usage(record), prices),
    }


def price_memory(usage: Sequence[tuple[str, int, int, int]], prices: Prices | None) -> str | None:
    """Return what memory's models cost; `None` where nobody has told their prices."""
    own = (prices or {}).get("memory")
    if own is None:
        return None
    dollars = sum(read * own[0] + written * own[1] for _, _, read, written in usage)
    return write_dollars(dollars / 1_000_000)


def _find_messages(query: Mapping[str, str], total: int) -> tuple[int, int]:
    """Return the positions between which messages are shown: those asked for, or the newest."""
    at = read_number(query.get("message", ""))
    if at is not None and at < total:
        start = at // MESSAGES * MESSAGES
        return start, min(total, start + MESSAGES)
    return max(0, total - MESSAGES), total


# Templates and files.


_KINDS: Final = {"css": "text/css", "js": "text/javascript"}


_STATIC: Final = {
    file.name: (_KINDS[kind], file.read_bytes())
    for file in (files("langgraph_om.web") / "static").iterdir()
    if (kind := file.name.rpartition(".")[2]) in _KINDS
}
"""Type and content of each file that a page asks for, by its name."""
_VERSION: Final = hashlib.sha256(b"".join(body for _, body in _STATIC.values())).hexdigest()[:12]
"""Asked for with each file, which browsers then keep for good."""


def _find_root(request: Request) -> str:
    """Return the way from a page to where the application is, as its browser sees it.

    It is relative, so that it leads there behind a proxy that takes a part of the path away.
    """
    path, root = request.scope["path"], str(request.scope.get("root_path", ""))
    raw = request.scope.get("raw_path") or quote(path).encode()
    outside = root.count("/") if path.startswith(root) else 0
    inside = raw.count(b"/") - outside - 1
    return "../" * inside


def _render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    text = render(template, root=_find_root(request), version=_VERSION, **values)
    return HTMLResponse(text, status, headers=_HEADERS)


def _telling(page: Page) -> Page:
    """Return a page that says what is configured wrongly.

    A handler of the application would answer for a LangGraph server's own routes too, which are
    added to it.
    """

    async def answer(request: Request) -> Response:
        try:
            return await page(request)
        except ConfigurationError as error:
            return _refuse(request, f"{error}.", 503)

    return answer


def _refuse(request: Request, text: str, status: int) -> Response:
    return _render(request, "refusal.html", status, title="That did not work", text=text)

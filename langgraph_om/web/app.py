"""An application with a page for each memory, for a LangGraph server and for FastAPI."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from langgraph_om.core.items.listing import list_items
from langgraph_om.core.page.html import Child, Html, element
from langgraph_om.core.page.page import frame, render_memory_view, render_page, write_title
from langgraph_om.core.page.words import Sizes
from langgraph_om.core.titles.state import is_named
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory, check_memory
from langgraph_om.web.forms import (
    DONE,
    MAX_BODY,
    ItemForms,
    is_from_our_page,
    read_act,
    render_done,
    render_name,
    render_remember,
)
from langgraph_om.web.threads import GraphThreads, ServerThreads, Threads

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
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

_CUT: Final = (
    "Threads that have been quiet for long are not listed. Each has its page at memory/ and its id."
)
_FOREIGN_HOST: Final = (
    "These pages answer under localhost alone. To serve them under another name, pass "
    "`authorize=...`, which says who may see them, or `allowed_hosts=[...]` to `memory_app`."
)

_MAX_DIGITS: Final = 9
"""Of a number in a query; Python refuses to read one of thousands."""

Authorize = Callable[[Request, str | None], bool | Awaitable[bool]]
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
) -> Starlette:
    """Return an application with the pages `/memory` and `/memory/{thread}`.

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

    Raises:
        ConfigurationError: When `graph` and `client` are both given, the graph has no checkpointer,
            or `allowed_hosts` is a text.
    """
    if isinstance(allowed_hosts, str):
        msg = f"`allowed_hosts` is {allowed_hosts!r}; pass a list of hosts"
        raise ConfigurationError(msg)
    if authorize is None and allowed_hosts is None:
        authorize = _is_local
    pages = _Pages(check_memory(memory), _choose_threads(graph, client), edit, authorize, limit)
    hosts = ["*"] if allowed_hosts is None else [*allowed_hosts]
    methods = ["GET", "POST"] if edit else ["GET"]
    register_url_convertor("om_thread", _AnyThread())
    return Starlette(
        routes=[
            Route("/memory", pages.list),
            Route("/memory/{thread:om_thread}", pages.thread, methods=methods),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )


class _AnyThread(Convertor[str]):
    """Takes any thread id from a path, also one with slashes and line breaks."""

    regex = r"(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def _is_local(request: Request, thread: str | None) -> bool:
    """Return whether the request names this machine as its host."""
    del thread
    return _LOCAL_HOST.fullmatch(request.headers.get("host", "")) is not None


def _choose_threads(graph: Any, client: Any) -> Threads:
    if graph is not None and client is not None:
        msg = "`graph` and `client` are both given; pass the one whose threads are to be shown"
        raise ConfigurationError(msg)
    if graph is None:
        return ServerThreads(client if client is not None else _connect())
    if not getattr(graph, "checkpointer", None):
        msg = "`graph` has no checkpointer, so that there are no threads to show"
        raise ConfigurationError(msg)
    return GraphThreads(graph)


def _connect() -> Any:
    try:
        from langgraph_sdk import get_client  # noqa: PLC0415 optional
    except ImportError as error:
        msg = "pass `graph`, or install the package 'langgraph-sdk' to ask a server"
        raise ConfigurationError(msg) from error
    return get_client()


class _Pages:
    """Answers requests."""

    def __init__(
        self,
        memory: ObservationalMemory,
        threads: Threads,
        edit: bool,  # noqa: FBT001 a setting among others
        authorize: Authorize | None,
        limit: int,
    ) -> None:
        self._memory, self._threads, self._edit = memory, threads, edit
        self._authorize, self._limit = authorize, limit
        self._refusal = _FOREIGN_HOST if authorize is _is_local else "You may not see this."

    async def list(self, request: Request) -> Response:
        """Answer with the list of threads."""
        if not await self._may(request, None):
            return _refuse(self._refusal, 403)
        start = _read_number(request, "from") or 0
        seen, has_more, is_cut = 0, False, False
        items: list[Child] = []
        async with aclosing(self._threads.names()) as names:
            async for found in names:
                if found is None:
                    is_cut = True
                elif await self._may(request, found[0]):
                    seen += 1
                    if seen > start + self._limit:
                        has_more = True
                        break
                    if seen > start:
                        items.append(await _render_thread(*found))
        said = element("ul", *items, class_="threads") if items else element("p", "None yet.")
        before = max(0, start - self._limit)
        links = [
            element("a", "Newer threads", href=f"?from={before}") if start else None,
            " " if start and has_more else None,
            element("a", "Older threads", href=f"?from={start + self._limit}")
            if has_more
            else None,
        ]
        nav = element("nav", element("p", *links), aria_label="Pages") if any(links) else None
        cut = element("p", _CUT, class_="note") if is_cut else None
        return _answer(frame(element("h1", "Memories"), said, nav, cut), "Memories")

    async def thread(self, request: Request) -> Response:
        """Answer with the memory of a thread, or change it."""
        thread = request.path_params["thread"]
        if not await self._may(request, thread):
            return _refuse(self._refusal, 403)
        state = await self._threads.state(thread)
        if state is None:
            return _refuse(f"There is no thread {thread!r}.", 404)
        if request.method == "POST":
            return await self._change(request, thread, state)
        history = await self._threads.history(thread) if "history" in request.query_params else None
        view = self._memory.view(state, history=history)
        done = DONE.get(request.query_params.get("done", ""))
        at = _find_place(request, view.record)
        content = render_memory_view(
            view.record,
            view.status,  # type: ignore[arg-type]
            view.history,
            sizes=Sizes(view.conversation_tokens, view.prompt_tokens),
            is_closed=view.is_closed,
            extra=ItemForms(done, at) if self._edit else None,
            lead=self._render_lead(view.record, done if at is None else None),
        )
        return _answer(content, write_title(view.record))

    async def _change(self, request: Request, thread: str, state: Any) -> Response:
        if not is_from_our_page(request.headers):
            return _refuse("This form was not sent by a page of this site.", 403)
        form = await _read_form(request)
        if form is None:
            return _refuse("The form is too large.", 413)
        try:
            update = read_act(self._memory, form, state)
            await self._threads.write(thread, update)
        except ConfigurationError as error:
            return _refuse(str(error), 400)
        query = urlencode(
            {"done": form["action"], "act": update[0]["id"], "at": form.get("at", "")}
        )
        place = f"{quote(request.url.path)}?{query}#done"
        return RedirectResponse(place, 303, headers=_HEADERS)

    def _render_lead(self, record: MemoryRecord, done: str | None) -> Child:
        past = element("p", element("a", "What each generation changed", href="?history"))
        if not self._edit:
            return past
        undo = element(
            "form",
            element("input", type="hidden", name="action", value="undo"),
            element("button", "Undo the last change"),
            method="post",
        )
        name = render_name(record["thread_title"], is_named=is_named(record))
        told = render_done(done) if done else None
        return element("div", told, render_remember(), element("p", undo), name, past)

    async def _may(self, request: Request, thread: str | None) -> bool:
        if self._authorize is None:
            return True
        allowed = self._authorize(request, thread)
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)


async def _render_thread(name: str, read_title: Callable[[], str | None]) -> Html:
    title = await asyncio.to_thread(read_title)
    link = element("a", title or name, href=f"memory/{quote(name, safe='')}")
    return element("li", link, dir="auto")


def _read_number(request: Request, name: str) -> int | None:
    """Return a number of the query; `None` where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _find_place(request: Request, record: MemoryRecord) -> int | None:
    """Return the number of the item at which a change is told; `None` for the head of the page."""
    at, items = _read_number(request, "at"), list_items(record["log"])
    if at is None or not items:
        return None
    act = request.query_params.get("act")
    after = [own["after"] for own in record.get("steered", []) if own["id"] == act]
    left = [group["id"] for group in after if group is not None]
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


def _answer(content: Html, title: str, status: int = 200) -> Response:
    return HTMLResponse(render_page(content, title), status, headers=_HEADERS)


def _refuse(text: str, status: int) -> Response:
    content = frame(element("h1", "That did not work"), element("pre", text))
    return _answer(content, "That did not work", status)

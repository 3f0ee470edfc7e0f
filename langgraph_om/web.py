"""An application with a page for each memory, for a LangGraph server and for FastAPI."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from langgraph_om.core.acts import Act
from langgraph_om.core.items import LogItem, list_items
from langgraph_om.core.page.html import Child, Html, Sizes, element, join
from langgraph_om.core.page.page import frame, render_memory_view, render_page, write_title
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import ACTS
from langgraph_om.inspection import read_server_label, read_stored_label, server_labels
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of

__all__ = ["memory_app"]

# The threads that the pages show: of a graph in this process, or of the server around it.


_UNKNOWN = (404, 422)
"""Answers of a server about a thread that it does not have, or whose id it cannot have."""
_NEWEST = 20_000
"""Checkpoints that are looked through for threads."""
_PAGE = 100
"""Threads that are read at once."""

Named = tuple[str, Callable[[], str | None]]
"""A thread's id, and a function that reads its title."""


class Threads(Protocol):
    """Reads and writes states."""

    def names(self) -> AsyncGenerator[Named | None]:
        """Yield the threads, newest first; `None` last where older ones were not looked for."""

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write an update of `om`."""


class GraphThreads:
    """The threads of a compiled graph with a checkpointer."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    async def names(self) -> AsyncGenerator[Named | None]:
        """Yield those with the newest checkpoints."""
        wanted, yielded, rest = _PAGE, set[str](), "more"
        while rest == "more":
            # In one go, as some checkpointers answer nothing else while they list.
            found, rest = await asyncio.to_thread(_read_newest, self._graph.checkpointer, wanted)
            for key, (_, om) in sorted(found.items(), key=lambda own: own[1][0], reverse=True):
                if key not in yielded:
                    yield (
                        key,
                        partial(read_stored_label, {"om": om}, partial(self._read_values, key)),
                    )
            yielded |= found.keys()
            wanted *= 4
        if rest == "cut":
            yield None

    def _read_values(self, thread: str) -> Any:
        return self._graph.get_state(_config_of(thread)).values

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""
        found = await asyncio.to_thread(self._graph.get_state, _config_of(thread))
        return found if found.created_at else None

    async def history(self, thread: str) -> Any:
        """Return its checkpoints."""
        config = _config_of(thread)
        return await asyncio.to_thread(lambda: list(self._graph.get_state_history(config)))

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write a checkpoint."""
        values = {"om": list(update)}
        await asyncio.to_thread(self._graph.update_state, _config_of(thread), values)


class ServerThreads:
    """The threads of a LangGraph server, by its SDK's asynchronous client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def names(self) -> AsyncGenerator[Named | None]:
        """Yield those that were updated last."""
        offset = 0
        while True:
            found = await self._client.threads.search(
                limit=_PAGE,
                offset=offset,
                sort_by="updated_at",
                sort_order="desc",
                extract=server_labels(),
            )
            for own in found:
                yield str(own["thread_id"]), partial(read_server_label, own)
            if len(found) < _PAGE:
                return
            offset += _PAGE

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""
        try:
            return await self._client.threads.get_state(thread)
        except Exception as error:
            response = getattr(error, "response", None)
            if getattr(response, "status_code", None) in _UNKNOWN:
                return None
            raise

    async def history(self, thread: str) -> Any:
        """Return its checkpoints."""
        return await self._client.threads.get_history(thread, limit=1000)

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write a checkpoint."""
        await self._client.threads.update_state(thread, {"om": list(update)})


def _read_newest(
    saver: Any, wanted: int
) -> tuple[dict[str, tuple[str, Any]], Literal["more", "cut", ""]]:
    """Return id and memory of the newest checkpoint by thread, and what is left of threads.

    Ids grow with time. Databases list the newest first, and are read until there are enough; the
    checkpointer in memory lists thread by thread, and is read to its end.
    """
    found: dict[str, tuple[str, Any]] = {}
    is_by_time, before = True, None
    for number, entry in enumerate(saver.list(None)):
        own = entry.config["configurable"]
        is_by_time = is_by_time and (before is None or own["checkpoint_id"] <= before)
        before = own["checkpoint_id"]
        if number == _NEWEST:
            return found, "cut"
        if is_by_time and len(found) == wanted:
            return found, "more"
        memory = entry.checkpoint["channel_values"].get("om")
        found.setdefault(str(own["thread_id"]), (own["checkpoint_id"], memory))
    return found, ""


def _config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


# The forms with which a person changes what is remembered, and what they send.


DONE: Final = {
    **{act.name: act.done for act in ACTS},
    **{act.clearing.name: act.clearing.done for act in ACTS if act.clearing},
}
"""Said when a change is made."""
MAX_BODY: Final = 64 * 1024
"""Bytes of a form that is read."""


def render_act(act: Act, item: LogItem, at: int) -> Html:
    """Render what does an act.

    Args:
        act: The act.
        item: The item that it is about.
        at: The number of that item.
    """
    return _render_form(act.name, act.label, _render_text(act), item=item, at=at)


def render_thread_act(act: Act, record: MemoryRecord) -> Html:
    """Render what does an act that is about the thread, and what gives its text back to memory."""
    form = _render_form(act.name, act.label, _render_text(act, act.value(record)))
    clearing = act.clearing
    if clearing is None or not clearing.is_offered(record):
        return element("p", form)
    return element("p", form, " ", _render_form(clearing.name, clearing.label))


def _render_text(act: Act, value: str | None = None) -> Html | None:
    """Render the field for the text that goes with an act, if one does."""
    text = act.find("text")
    if text is None:
        return None
    label = f"{text.help[0].upper()}{text.help[1:]}"
    longest = str(text.longest) if text.longest else None
    return _render_field(label, placeholder=text.placeholder, maxlength=longest, value=value)


def render_done(said: str) -> Html:
    """Render what a change did, where the browser goes after it."""
    return element("p", said, id="done", class_="card", role="status")


class ItemForms:
    """Renders what changes an item of the log."""

    def __init__(self, done: str | None, at: int | None, record: MemoryRecord) -> None:
        """Number the items.

        Args:
            done: What the change before did, if there was one.
            at: The number of the item that it was made at.
            record: The memory with the log.
        """
        self._done, self._at = done, at
        self._numbers = {item.id: n for n, item in enumerate(list_items(record["log"]))}

    def __call__(self, item: LogItem) -> Html:
        """Render the forms of an item."""
        number = self._numbers.get(item.id, 0)
        told = render_done(self._done) if self._done and number == self._at else None
        acts = [act for act in ACTS if act.find("item") and act.is_offered(item)]
        if not acts:
            return join([told])
        forms = element("div", *[render_act(act, item, number) for act in acts], class_="acts")
        summary = element("summary", element("span", "Change"))
        return join([told, element("details", summary, forms, class_="change")])


def read_act(memory: ObservationalMemory, form: Mapping[str, str], state: Any) -> list[Any]:
    """Return the update of `om` that a form asks for.

    Raises:
        ConfigurationError: When it cannot be meant.
    """
    action, given = form.get("action", ""), {name: form.get(name, "") for name in ("item", "text")}
    act = next((act for act in ACTS if act.name == action), None)
    cleared = next((act for act in ACTS if act.clearing and act.clearing.name == action), None)
    if cleared is not None:
        return cleared.build(memory.updates, {"text": None}, state)
    if act is None:
        *known, last = DONE
        msg = f"`action` is {action!r}; pass {', '.join(known)} or {last}"
        raise ConfigurationError(msg)
    return act.build(memory.updates, given, state)


def is_from_our_page(headers: Mapping[str, str]) -> bool:
    """Return whether a form was sent by a page of the same origin, and not by another site.

    Browsers say so, and no page can change what they say. What says nothing is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _render_field(name: str, *, placeholder: str | None = None, **more: str | None) -> Html:
    """Render the text that a person writes; its name stands in it while it is empty."""
    return element(
        "input",
        type="text",
        name="text",
        required=True,
        aria_label=name,
        placeholder=placeholder or name,
        **more,
    )


def _render_form(
    action: str,
    label: str,
    field: Html | None = None,
    *,
    item: LogItem | None = None,
    at: int | None = None,
) -> Html:
    """Render a button, with what it is about and what is sent with it."""
    return element(
        "form",
        element("input", type="hidden", name="action", value=action),
        element("input", type="hidden", name="item", value=item.id) if item else None,
        element("input", type="hidden", name="at", value=at) if at is not None else None,
        field,
        " " if field else None,
        element("button", label),
        method="post",
    )


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
        at = _find_place(self._memory, request, view.record)
        content = render_memory_view(
            view.record,
            view.status,  # type: ignore[arg-type]
            view.history,
            sizes=Sizes(view.conversation_tokens, view.prompt_tokens),
            is_closed=view.is_closed,
            extra=ItemForms(done, at, view.record) if self._edit else None,
            apart=view.apart,
            sections=view.sections,
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
        acts = [render_thread_act(act, record) for act in ACTS if not act.find("item")]
        told = render_done(done) if done else None
        return element("div", told, *acts, past)

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


def _find_place(memory: ObservationalMemory, request: Request, record: MemoryRecord) -> int | None:
    """Return the number of the item at which a change is told; `None` for the head of the page."""
    at, items = _read_number(request, "at"), list_items(record["log"])
    if at is None or not items:
        return None
    act = request.query_params.get("act", "")
    left = [
        key
        for find in runner_of(memory).settings.features.having("find_left")
        for key in find(record, act)
    ]
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

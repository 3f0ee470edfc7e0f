"""The forms with which a person changes what is remembered, and what they send."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from langgraph_om.core.content.text import LABEL_CHARACTERS
from langgraph_om.core.items.listing import LogItem
from langgraph_om.core.page.html import Html, element, join
from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory

DONE: Final = {
    "remember": "It is remembered.",
    "forget": "An item that stood here is forgotten.",
    "correct": "It is corrected.",
    "pin": "It is pinned: no reflection changes it.",
    "unpin": "It is not pinned any more.",
    "undo": "The last change is undone.",
    "title": "The thread has its title.",
    "untitle": "Memory names the thread.",
}
"""Said when a change is made."""
MAX_BODY: Final = 64 * 1024
"""Bytes of a form that is read."""


def render_remember() -> Html:
    """Render what adds an item."""
    field = _render_field("What to remember", placeholder="Remember that ...")
    return _render_form("remember", "Remember", field)


def render_name(title: str | None, *, is_named: bool) -> Html:
    """Render what gives the thread a title, and what gives that back to memory.

    Args:
        title: The title that there is.
        is_named: Whether a person set it.
    """
    field = _render_field(
        "Title of this thread", maxlength=str(LABEL_CHARACTERS), value=title or ""
    )
    rename = _render_form("title", "Name it", field)
    clear = _render_form("untitle", "Let memory name it")
    return element("p", rename, " " if is_named else None, clear if is_named else None)


def render_done(said: str) -> Html:
    """Render what a change did, where the browser goes after it."""
    return element("p", said, id="done", class_="card", role="status")


class ItemForms:
    """Renders what changes an item, item by item in their order."""

    def __init__(self, done: str | None, at: int | None) -> None:
        """Begin with the first item.

        Args:
            done: What the change before did, if there was one.
            at: The number of the item that it was made at.
        """
        self._done, self._at, self._number = done, at, -1

    def __call__(self, item: LogItem) -> Html:
        """Render the forms of the next item."""
        self._number += 1
        told = render_done(self._done) if self._done and self._number == self._at else None
        pin = "unpin" if item.group.get("person") else "pin"
        render = partial(_render_form, item=item, at=self._number)
        forms = element(
            "div",
            render(pin, pin.capitalize()),
            render("forget", "Forget"),
            render("correct", "Correct", _render_field("What is right")),
            class_="acts",
        )
        summary = element("summary", element("span", "Change"))
        return join([told, element("details", summary, forms, class_="change")])


def read_act(memory: ObservationalMemory, form: Mapping[str, str], state: Any) -> list[Any]:
    """Return the update of `om` that a form asks for.

    Raises:
        ConfigurationError: When it cannot be meant.
    """
    action, item, text = (form.get(name, "") for name in ("action", "item", "text"))
    if action == "remember":
        return memory.updates.remember(text)
    if action == "undo":
        return memory.updates.undo()
    if action == "title":
        return memory.updates.set_title(text)
    if action == "untitle":
        return memory.updates.set_title(None)
    if action == "correct":
        return memory.updates.correct(item, text, state=state)
    updates = memory.updates
    acts = {"forget": updates.forget, "pin": updates.pin, "unpin": updates.unpin}
    if action not in acts:
        known = "remember, forget, correct, pin, unpin, undo, title or untitle"
        msg = f"`action` is {action!r}; pass {known}"
        raise ConfigurationError(msg)
    return acts[action](item, state=state)


def is_from_our_page(headers: Mapping[str, str]) -> bool:
    """Return whether a form was sent by a page of the same origin, and not by another site.

    Browsers say so, and no page can change what they say. What says nothing is refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _render_field(name: str, *, placeholder: str | None = None, **more: str) -> Html:
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

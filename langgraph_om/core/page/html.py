"""Write HTML so that text cannot become markup: what is no `Html` is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

_VOID: Final = frozenset({"br", "hr", "meta", "input"})
_UNSHOWABLE: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 65534, 65535], "�"
)


class Html(str):
    """Text that is HTML already; made by `element` and `join` alone."""

    __slots__ = ()


Child = str | Html | None


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Write an element.

    Args:
        name: Its name.
        children: What is in it; `None` for nothing.
        attributes: By name; `class_` for `class`, `_` for `-`. `None` and `False` are left out,
            `True` has no value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{write_text(str(value))}"')
    inner = join(children)
    parts.append(">" if name in _VOID else f">{inner}</{name}>")
    return Html("".join(parts))


def join(children: Iterable[Child]) -> Html:
    """Put elements and texts side by side."""
    return Html(
        "".join(
            child if isinstance(child, Html) else write_text(child) for child in children if child
        )
    )


def write_text(text: str) -> Html:
    """Escape a text; characters that no page may hold become a replacement character."""
    plain = text.encode("utf-8", "replace").decode("utf-8").translate(_UNSHOWABLE)
    return Html(escape(plain, quote=True))

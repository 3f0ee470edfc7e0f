"""The pages of a memory, as templates of jinja2, and what renders them.

`page.html` is one of its own, with `view.html` for notebooks inside; the rest is the inspector's.
All text is escaped, and a character that no page may hold becomes a replacement character.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

try:
    from jinja2 import Environment, PackageLoader
except ModuleNotFoundError as error:
    msg = (
        "HTML is written by the package 'jinja2', and it is not installed; install it with "
        "`pip install 'langgraph-om[web]'`"
    )
    raise ImportError(msg) from error

from langgraph_om.core.content.text import show_key
from langgraph_om.core.page import (
    count,
    describe_room,
    diff_logs,
    name_range,
    show_item,
    split_days,
    write_moment,
)
from langgraph_om.core.record.record import log_tokens

_UNSHOWABLE: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 65534, 65535], "�"
)


def _clean(value: Any) -> Any:
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value.encode("utf-8", "replace").decode("utf-8").translate(_UNSHOWABLE)


_TEMPLATES: Final = Environment(
    loader=PackageLoader("langgraph_om", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_clean,
)
_TEMPLATES.filters.update(
    count=count,
    moment=write_moment,
    room=describe_room,
    tokens=log_tokens,
    diff=lambda pair: diff_logs(pair[1], pair[0]),
    quoted=lambda text: quote(text, safe=""),
    days=split_days,
    shown=show_item,
    ids=name_range,
    key=show_key,
)


def render(template: str, **values: Any) -> str:
    """Return the text of a page."""
    return _TEMPLATES.get_template(template).render(values)

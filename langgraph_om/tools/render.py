"""The renderer of all HTML: jinja2 templates.

All text is escaped, and a character that no page may hold becomes a replacement character.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

try:
    from jinja2 import Environment, FileSystemLoader
except ModuleNotFoundError as error:
    msg = (
        "pages of memory need the package 'jinja2', which is not installed; install it with "
        "`pip install 'langgraph-om[web]'`"
    )
    raise ImportError(msg) from error

from langgraph_om.core.content.text import show_key
from langgraph_om.core.record.record import log_tokens
from langgraph_om.tools.shown import (
    count,
    diff_logs,
    name_range,
    show_item,
    split_days,
    write_moment,
)

STATIC: Final = Path(__file__).parent / "static"
_UNSHOWABLE: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 65534, 65535], "�"
)


def _clean(value: Any) -> Any:
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value.encode("utf-8", "replace").decode("utf-8").translate(_UNSHOWABLE)


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader([STATIC.parent / "templates", STATIC]),  # a notebook's view has its CSS
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_clean,
)
_TEMPLATES.filters.update(
    number="{:,}".format,
    count=count,
    moment=lambda at: write_moment(at.isoformat()),
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

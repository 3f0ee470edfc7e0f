"""Write the tables of options in `docs/options.md` from the options themselves.

cd tests && python -m support.option_tables     # after an option or its sentence has changed
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from langgraph_om import ObservationConfig, ObservationOptions, ReflectionConfig, ReflectionOptions
from langgraph_om.core.config.options import presets_of
from langgraph_om.options import MemoryOptions

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
_NESTED = ("observation", "reflection")
"""Options with a table of their own."""
_INSTEAD = {"token_counter": "EstimatingCounter()", "buffering": "BackgroundBuffering()"}
"""Calls that stand for `None`."""
_MORE = {
    "retrieval": "search.md",
    "thread_title": "memory-family.md#titles",
    "working_memory": "memory-family.md",
    "hooks": "redaction.md",
    "buffering": "#where-background-work-runs",
    "extract": "memory-family.md#extractors",
    "activate_after_idle": "workers.md#after-a-pause",
    "token_budget": "windows.md#one-budget-for-both",
    "message_tokens": "windows.md",
    "observation_tokens": "windows.md",
    "buffer_tokens": "windows.md#ahead-in-the-background",
    "buffer_activation": "windows.md#activation",
    "block_after": "windows.md#when-a-turn-waits",
    "max_input_tokens": "windows.md#the-models-own-limit",
    "archive": "archive.md",
    "evict": "archive.md",
    "scope": "archive.md#one-memory-for-all-threads-of-a-user",
    "token_counter": "models.md#token-counts",
}
"""Pages that say more, by the option."""
_END = re.compile(r"(?<=\.) (?=[A-Z`])")
"""Between two sentences."""


def sentences_of(kind: Any) -> dict[str, str]:
    """Return the first sentence under each key of a `TypedDict` and of those that it is made of."""
    told: dict[str, str] = {}
    for base in getattr(kind, "__orig_bases__", ()):
        if getattr(base, "__annotations__", None):
            told |= sentences_of(base)
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for key, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(key.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            told[key.target.id] = _END.split(" ".join(str(text.value.value).split()))[0]
    return told


def write_table(defaults: Mapping[str, Any], sentences: Mapping[str, str]) -> str:
    """Return a table of options: name, default, and what it means."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for name, default in defaults.items():
        value = _INSTEAD.get(name) or f"{default!r}".replace("'", '"').removesuffix(".0")
        more = f" ([more]({_MORE[name]}))" if name in _MORE else ""
        sentence = sentences[name].replace("|", "\\|")
        rows.append(f"| `{name}` | `{value}` | {sentence}{more} |")
    return "\n".join(rows)


def defaults_of(config: Any, kind: Any) -> dict[str, Any]:
    """Return the default of each key of a nested option."""
    made = config()
    return {name: getattr(made, name) for name in get_type_hints(kind)}


def tables() -> dict[str, str]:
    """Return the text of each table by its name on the page."""
    own = {name: value for name, value in presets_of(MemoryOptions).items() if name not in _NESTED}
    return {
        "memory": write_table(own, sentences_of(MemoryOptions)),
        "observation": write_table(
            defaults_of(ObservationConfig, ObservationOptions), sentences_of(ObservationOptions)
        ),
        "reflection": write_table(
            defaults_of(ReflectionConfig, ReflectionOptions), sentences_of(ReflectionOptions)
        ),
    }


def fill_in(text: str) -> str:
    """Return the page with the tables as they should be."""
    for name, table in tables().items():
        start, stop = f"<!-- options: {name} -->", "<!-- end -->"
        pattern = re.escape(start) + r".*?" + re.escape(stop)
        assert re.search(pattern, text, re.DOTALL), f"docs/options.md has no {start}"
        filled = f"{start}\n{table}\n{stop}"
        text = re.sub(pattern, lambda _, filled=filled: filled, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(fill_in(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

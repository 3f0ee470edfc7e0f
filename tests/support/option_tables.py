"""Write the tables of options in `docs/options.md` from the options themselves.

cd tests && python -m support.option_tables     # after an option or its sentence has changed
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph_om import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.options import Group
from support.docstrings import read_keys
from support.inside import MemoryOptions

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
_NESTED = ("observation", "reflection")
"""Options with a table of their own."""
_INSTEAD = {"token_counter": "EstimatingCounter()", "buffering": "BackgroundBuffering()"}
"""Calls that stand for `None`."""
_MORE = {
    "retrieval": "search.md",
    "thread_title": "working-memory.md#titles",
    "working_memory": "working-memory.md",
    "hooks": "redaction.md",
    "buffering": "workers.md#where-it-runs",
    "extract": "working-memory.md#extractors",
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
    "retention": "security.md#retention",
    "scope": "archive.md#share-memory-between-a-users-threads",
    "token_counter": "models.md#token-counts",
}
"""Pages that say more, by the option."""
_END = re.compile(r"(?<=\.) (?=[A-Z`])")
"""Between two sentences."""


def write_table(defaults: Mapping[str, Any], sentences: Mapping[str, str]) -> str:
    """Return a table of options: name, default, and what it means."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for name, default in defaults.items():
        value = _INSTEAD.get(name) or f"{default!r}".replace("'", '"').removesuffix(".0")
        more = f" ([more]({_MORE[name]}))" if name in _MORE else ""
        sentence = _END.split(sentences[name])[0].replace("|", "\\|")
        rows.append(f"| `{name}` | `{value}` | {sentence}{more} |")
    return "\n".join(rows)


def list_options(kind: type[Group]) -> dict[str, Any]:
    """Return the options of a group that stand in its table, with their defaults."""
    fields = kind.model_fields.items()
    return {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in fields
        if name not in _NESTED and (kind, name) != (MemoryOptions, "model")
    }


def tables() -> dict[str, str]:
    """Return the text of each table by its name on the page."""
    kinds = {
        "memory": MemoryOptions,
        "observation": ObservationConfig,
        "reflection": ReflectionConfig,
    }
    return {name: write_table(list_options(kind), read_keys(kind)) for name, kind in kinds.items()}


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

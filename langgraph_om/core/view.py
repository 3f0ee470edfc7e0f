"""The memory of a thread for a person to read: as text, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from langgraph_om.core.record.record import MemoryRecord
from langgraph_om.core.reflect.regroup import log_text

_BAR = 24
"""Characters of a full progress bar."""


@dataclass(frozen=True, slots=True, repr=False)
class MemoryView:
    """A readable summary of a thread's memory.

    `str(view)` is plain text; a notebook shows it with two progress bars.
    """

    record: MemoryRecord
    status: Mapping[str, Any]
    """The `data` of `data-om-status`."""
    conversation_tokens: int
    """Tokens of the whole conversation."""
    prompt_tokens: int
    """Tokens of observations and unobserved messages: what the Actor gets of it."""

    @property
    def compression_ratio(self) -> float:
        """Tokens of the conversation for each token that the Actor gets; 1.0 without memory."""
        return self.conversation_tokens / self.prompt_tokens if self.prompt_tokens else 1.0

    def __str__(self) -> str:
        """Return the summary as plain text."""
        lines = [self._title(), *(_bar_line(*row) for row in self._windows())]
        lines += [f"buffered: {self._buffered()}", f"compression: {self._compression()}"]
        lines += [f"{name}: {value}" for name, value in self._hints()]
        return "\n".join([*lines, "", log_text(self.record["log"]) or "(no observations yet)"])

    def __repr__(self) -> str:
        """Return the summary, as a prompt shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the summary as HTML; all text of the conversation is escaped."""
        rows = "".join(_bar_html(*row) for row in self._windows())
        facts = [("buffered", self._buffered()), ("compression", self._compression())]
        items = "".join(
            f"<li><b>{escape(name)}</b>: {escape(value)}</li>"
            for name, value in [*facts, *self._hints()]
        )
        log = escape(log_text(self.record["log"])) or "<i>no observations yet</i>"
        return (
            f"<div><b>{escape(self._title())}</b><table>{rows}</table><ul>{items}</ul>"
            f"<pre style='white-space:pre-wrap'>{log}</pre></div>"
        )

    def _title(self) -> str:
        named = self.record["thread_title"] or self.record["thread_id"] or "(no thread id)"
        return f"memory of {named}, generation {self.record['generation']}"

    def _windows(self) -> list[tuple[str, int, int]]:
        active = self.status["windows"]["active"]
        return [
            (name, active[name]["tokens"], active[name]["threshold"])
            for name in ("messages", "observations")
        ]

    def _buffered(self) -> str:
        buffered = self.status["windows"]["buffered"]
        chunks, reflection = buffered["observations"], buffered["reflection"]
        count = chunks["chunks"]
        working = [name for name in ("observation", "reflection") if name in self.record["pending"]]
        return (
            f"{count} chunk{'' if count == 1 else 's'} for {chunks['messageTokens']} tokens "
            "of messages"
            + (", a reflection" if reflection["inputObservationTokens"] else "")
            + (f"; at work: {' and '.join(working)}" if working else "")
        )

    def _compression(self) -> str:
        return (
            f"{self.compression_ratio:.1f} to 1 "
            f"({self.conversation_tokens} tokens of conversation, {self.prompt_tokens} shown)"
        )

    def _hints(self) -> list[tuple[str, str]]:
        names = {"current_task": "current task", "suggested_response": "suggested response"}
        values: Mapping[str, Any] = self.record
        failures = [
            (f"last failure of {name}", f"{last['error']} ({last['failures']} in a row)")
            for name, last in self.record["attempts"].items()
            if last.get("error")
        ]
        return [*failures, *((title, values[key]) for key, title in names.items() if values[key])]


def _bar_line(name: str, tokens: int, threshold: int) -> str:
    full = min(_BAR, round(_BAR * tokens / threshold)) if threshold else 0
    return f"{name:<12} [{'#' * full}{'.' * (_BAR - full)}] {tokens} of {threshold} tokens"


def _bar_html(name: str, tokens: int, threshold: int) -> str:
    return (
        f"<tr><td>{escape(name)}</td>"
        f"<td><progress value='{min(tokens, threshold)}' max='{threshold}'></progress></td>"
        f"<td>{tokens} of {threshold} tokens</td></tr>"
    )

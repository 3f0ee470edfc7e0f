"""Ask the Observer for values by schema, after its answer and on the same prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.prompts import fill
from langgraph_om.core.working.form import Form, InvalidError, TemplateForm
from langgraph_om.core.working.merge import merge


@dataclass(frozen=True, slots=True)
class Found:
    """What a question found out about one value."""

    name: str
    patch: Any = None
    """What changes in it: fields, or the whole text; `None` where that could not be told."""
    error: str | None = None
    """Why not."""


def extract(
    asked: AskModel,
    observations: str,
    forms: Mapping[str, Form],
    known: Mapping[str, Any],
) -> Flow[list[Found]]:
    """Ask for values; whatever goes wrong is told in what is returned.

    Args:
        asked: What the Observer was asked.
        observations: What it answered.
        forms: The form of each value.
        known: The values so far.

    Returns:
        For each value that changes what changes in it, or why it cannot be told.
    """
    schemas = {name: form.json_schema for name, form in forms.items()}
    shown = {name: _show(form, known.get(name)) for name, form in forms.items()}
    task = fill("observer_extract", forms=_write(schemas), known=escape(_write(shown)))
    answer = f"<observations>\n{escape(observations)}\n</observations>"
    messages = [*asked.messages, AIMessage(answer), HumanMessage(task)]
    reply: ModelReply = yield replace(asked, messages=messages)
    if reply.error is not None:
        return [_fail(name, str(build_failure(reply.error, "Observer"))) for name in forms]
    found = _read_object(reply.text)
    if found is None:
        return [_fail(name, "the answer is no JSON object") for name in forms]
    return [
        read_value(name, form, found[name], known.get(name))
        for name, form in forms.items()
        if found.get(name) and found[name] != shown[name]
    ]


def read_value(name: str, form: Form, given: Any, known: Any) -> Found:
    """Read what was said of one value; an error where the value would not have its form."""
    try:
        patch = form.read_patch(given)
        form.check(merge(known, patch))
    except InvalidError as error:
        return _fail(name, str(error))
    return Found(name, patch)


def _fail(name: str, error: str) -> Found:
    return Found(name, error=error)


def _show(form: Form, value: Any) -> Any:
    """Return a value as the Observer is shown it: an empty text is its template."""
    return form.write(value) if isinstance(form, TemplateForm) else value


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer, which models like to put between fences or words."""
    start, stop = text.find("{"), text.rfind("}")
    try:
        # Some models break the lines of a text as they are.
        found = json.loads(sanitize(text[start : stop + 1]), strict=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

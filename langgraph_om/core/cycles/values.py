"""Values that features ask for beside an observation, all of them in one question.

The question follows the Observer's answer, on the same prompt. A value that cannot be told is noted
with the reason, and never fails the observation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import rewrite_by_hook
from langgraph_om.core.effects import AskModel, EffectFlow, Flow, ModelReply
from langgraph_om.core.forms import Form, InvalidError, TemplateForm, Value, merge
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.prompts import fill
from langgraph_om.core.wire import Chunk, Event, Found, Hints
from langgraph_om.errors import ObserverError


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value that a feature asks for."""

    name: str
    form: Form
    known: Value
    """As the Observer is shown it."""
    had_failed: bool = False
    """Whether it could not be told when it was asked for before."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about one value; with neither a patch nor an error, a former error is over."""

    value: Wanted
    patch: Any = None
    """What changes in it: fields, or the whole text; `None` where that could not be told."""
    error: str | None = None
    """Why not."""


def ask_for_values(
    info: CycleInfo, asked: AskModel, observations: str, chunks: Sequence[Chunk] = ()
) -> EffectFlow[Found]:
    """Ask for the values of all features; without any, nothing is asked.

    Args:
        info: The cycle.
        asked: The last question to the Observer.
        observations: Its answer.
        chunks: Observations made ahead of the messages that are not activated yet.

    Returns:
        The entries of each feature that has some.
    """
    hooks = info.settings.features.having("values")
    wanted = {values.__self__: values(info, chunks) for values in hooks}
    answers = dict[str, Answer]()
    for answer in (yield from _ask(asked, observations, [*_flatten(wanted.values())])):
        is_told = answer.error is not None
        answers[answer.value.name] = answer if is_told else (yield from _redact(info, answer))
    found: Found = {}
    for feature, values in wanted.items():
        own = [
            answers.get(value.name, Answer(value))
            for value in values
            if value.name in answers or value.had_failed
        ]
        if own:
            found[feature.name] = feature.write_entries(info, own)
    return found


def _flatten(lists: Iterable[Sequence[Wanted]]) -> Iterable[Wanted]:
    return (value for values in lists for value in values)


def _ask(asked: AskModel, observations: str, wanted: Sequence[Wanted]) -> Flow[list[Answer]]:
    """Ask for values; whatever goes wrong is told in the answers.

    Returns:
        An answer for each value that changes or that cannot be told.
    """
    if not wanted:
        return []
    schemas = {value.name: value.form.json_schema for value in wanted}
    shown = {value.name: _show(value) for value in wanted}
    task = fill("observer_values", forms=_write(schemas), known=escape(_write(shown)))
    answer = f"<observations>\n{escape(observations)}\n</observations>"
    messages = [*asked.messages, AIMessage(answer), HumanMessage(task)]
    reply: ModelReply = yield replace(asked, messages=messages)
    if reply.error is not None:
        error = str(build_failure(reply.error, "Observer"))
        return [Answer(value, error=error) for value in wanted]
    said = _read_object(reply.text)
    if said is None:
        return [Answer(value, error="the answer is no JSON object") for value in wanted]
    return [
        _read(value, said[value.name])
        for value in wanted
        if said.get(value.name) and said[value.name] != shown[value.name]
    ]


def _read(value: Wanted, given: Any) -> Answer:
    """Read the answer about one value; an error where the value would not have its form."""
    try:
        patch = value.form.read_patch(given)
        value.form.check(merge(value.known, patch))
    except InvalidError as error:
        return Answer(value, error=str(error))
    return Answer(value, patch)


def _show(value: Wanted) -> Any:
    """Return a value as the Observer is shown it: an empty text is its template."""
    is_text = isinstance(value.form, TemplateForm)
    return value.form.write(value.known) if is_text else value.known


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


def _redact(info: CycleInfo, answer: Answer) -> EffectFlow[Answer]:
    """Let the hook that rewrites observations rewrite an answer: a text, or fields as JSON."""
    value, is_text = answer.value, isinstance(answer.value.form, TemplateForm)
    text = answer.patch if is_text else json.dumps(answer.patch, ensure_ascii=False)
    field = f"extracted.{value.name}"
    try:
        said = yield from rewrite_by_hook(info, "after_observation", {field: text})
    except ObserverError as error:
        return Answer(value, error=str(error))
    return _read(value, said[field])


# Entries as they wait in chunks, and are told once they take effect.


def join_found(parts: Iterable[Mapping[str, list[Any]]]) -> Found:
    """Return the entries of several observations together, by feature and in their order."""
    joined: Found = {}
    for part in parts:
        for name, entries in part.items():
            joined[name] = [*joined.get(name, ()), *entries]
    return joined


def tell_found(found: Found) -> dict[str, Found]:
    """Return the field of an event, or of a chunk, with entries; none where there are none."""
    return {"found": found} if found else {}


def announce_hints(info: CycleInfo, at: datetime, hints: Hints) -> list[Event]:
    """Return what features say of hints that an observation states."""
    announcers = info.settings.features.having("announce_hints")
    return [event for announce in announcers for event in announce(info, at, hints)]


def announce_found(info: CycleInfo, at: datetime, event: Mapping[str, Any]) -> EffectFlow[None]:
    """Let features say what an observation has changed of theirs; it has taken effect.

    Args:
        info: The cycle.
        at: When.
        event: The event of the cycle or of its activation.
    """
    found: Found = event.get("found", {})
    for announce in info.settings.features.having("announce"):
        entries = found.get(announce.__self__.name)
        if entries:
            yield from announce(info, at, entries)
    yield from announce_hints(info, at, event.get("hints", {}))

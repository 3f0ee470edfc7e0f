"""Hooks that keep skills and secrets out of what Observer and Reflector are shown and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_om.core.content.text import compile_late

SKILL_TOOLS: Final = ("skill", "skill_search", "skill_read", "load_skill", "read_skill")
"""Names of tools that return a skill's text."""
_SKILL_FILE: Final = "SKILL.md"
"""The file of a skill, which other tools read."""

_SECRETS: Final = tuple(
    compile_late(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!-{4})){0,8000}-----END[A-Z ]+-{5}",
        r"\b(?:sk|rk|pk)[-_](?:[A-Za-z]{2,12}[-_]){0,3}[A-Za-z0-9_-]{16,200}",
        r"\bgh[opsur]_[A-Za-z0-9]{30,255}\b",
        r"\bgithub_pat_[A-Za-z0-9_]{20,255}\b",
        r"\bglpat-[A-Za-z0-9_-]{20,64}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\bhf_[A-Za-z0-9]{30,64}\b",
        r"\beyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}",
    )
)
"""Keys and tokens that say by their form what they are."""
_NAMED: Final = compile_late(
    r"(?i)(\b(?:\w{0,40}[_-])?(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)"
    r"[\"']?\s{0,5}[:=]\s{0,5}[\"']?)([^\s\"',;]{6,500})"
)
_BEARER: Final = compile_late(
    r"(?i)(\bauthorization[\"']?\s{0,5}[:=]\s{0,5}[\"']?\w{1,20}\s{1,5})(\S{8,4000})"
)
_IN_URL: Final = compile_late(r"(\b[a-z][a-z0-9+.-]{1,30}://[^\s:/@]{1,200}:)([^\s@/]{1,200})(?=@)")
_UNREAD: Final = frozenset({"data", "base64", "bytes", "id", "type", "mime_type", "signature"})
"""Keys of a block whose values are no text."""
_HIDDEN: Final = "[secret]"

Redactor = Callable[[Any, Mapping[str, Any]], Any]


def redactor(*, skills: bool = True, secrets: bool = True, tools: Collection[str] = ()) -> Redactor:
    """Return a hook that hides the texts of skills, and secrets.

    It serves as each of the four hooks that change something:

        hooks = {"before_observation": redactor(), "after_observation": redactor()}

    Calls stay, so that what was used is known. What the Actor is shown does not change.

    Args:
        skills: Whether results of tools that return a skill's text are left out: those of a usual
            name, and any call with the path of a `SKILL.md`.
        secrets: Whether keys, tokens, passwords and the like are hidden, by their form or by the
            name before them.
        tools: Names of more tools whose results are left out.
    """
    hidden = {*tools, *(SKILL_TOOLS if skills else ())}

    def redact(value: Any, about: Mapping[str, Any]) -> Any:
        """Return messages or a text without what is to be hidden."""
        if isinstance(value, str):
            return hide_secrets(value) if secrets else value
        messages: Sequence[BaseMessage] = value
        left_out = _find_calls(messages, hidden, skills=skills)
        changed = [_leave_out(message, left_out, hidden) for message in messages]
        return [_hide(message) for message in changed] if secrets else changed

    return redact


def hide_secrets(text: str) -> str:
    """Return a text with `[secret]` in the place of keys, tokens and passwords."""
    for pattern in _SECRETS:
        text = pattern.sub(_HIDDEN, text)
    for pattern in (_NAMED, _BEARER, _IN_URL):
        text = pattern.sub(rf"\g<1>{_HIDDEN}", text)
    return text


def _find_calls(
    messages: Sequence[BaseMessage], names: Collection[str], *, skills: bool
) -> set[str]:
    """Return the ids of calls whose results are left out."""
    calls = [call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls]
    return {
        str(call["id"])
        for call in calls
        if call["name"] in names or (skills and _SKILL_FILE in str(call["args"]))
    }


def _leave_out(message: BaseMessage, calls: set[str], names: Collection[str]) -> BaseMessage:
    if not isinstance(message, ToolMessage):
        return message
    if message.tool_call_id not in calls and message.name not in names:
        return message
    told = f"[the result of {message.name or 'this call'} is left out]"
    return message.model_copy(update={"content": told, "artifact": None})


def _hide(message: BaseMessage) -> BaseMessage:
    changed: dict[str, Any] = {"content": _hide_in(message.content)}
    if isinstance(message, AIMessage):
        changed["tool_calls"] = [
            {**call, "args": _hide_in(call["args"])} for call in message.tool_calls
        ]
    return message.model_copy(update=changed)


def _hide_in(value: Any) -> Any:
    """Return a JSON value with secrets hidden in its texts, and in what keys name so."""
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, Mapping):
        return {key: _hide_under(key, inner) for key, inner in value.items()}
    return [_hide_in(inner) for inner in value] if isinstance(value, list) else value


def _hide_under(key: Any, value: Any) -> Any:
    if key in _UNREAD:
        return value
    if isinstance(value, str) and _NAMED.fullmatch(f"{key}={value}"):
        return _HIDDEN
    return _hide_in(value)

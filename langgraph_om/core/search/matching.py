"""What a search asks for beside its words, and the ranking of texts that are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import ROLES, Part, call_names, parts_of, role_of
from langgraph_om.core.search.excerpt import read_text
from langgraph_om.core.search.ranking import rank_texts
from langgraph_om.core.search.words import query_words, split_pieces, split_words
from langgraph_om.core.wire import Group

Kind: TypeAlias = Literal["message", "observations"]
"""What a search finds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What has to be true of a hit, beside its words."""

    before: datetime | None = None
    """It was said before this time."""
    after: datetime | None = None
    """It was said at this time or later."""
    role: str | None = None
    """Who said it: `user`, `assistant`, `tool`, or another role."""
    tool_name: str | None = None
    """It calls this tool, or is a result of it."""

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return self == Filter()

    @property
    def is_of_messages(self) -> bool:
        """Whether observations, which have no role and no tool, pass never."""
        return self.role is not None or self.tool_name is not None

    def passes(self, at: datetime | None, role: str | None, tools: Iterable[str]) -> bool:
        """Return whether a hit passes; one of unknown time passes no limit of time."""
        if (self.before or self.after) and at is None:
            return False
        return (
            (self.before is None or (at is not None and at < self.before))
            and (self.after is None or (at is not None and at >= self.after))
            and (self.role is None or (role is not None and same_role(role, self.role)))
            and (self.tool_name is None or self.tool_name in tools)
        )


def read_role(role: str) -> str:
    """Return a role as it is compared: LangChain's names are those of the conversation."""
    folded = role.strip().casefold()
    return ROLES.get(folded, folded)


def same_role(one: str, other: str) -> bool:
    """Return whether two words name the same role."""
    return read_role(one) == read_role(other)


def name_calls(messages: Iterable[BaseMessage]) -> dict[str, str]:
    """Return the tools of all calls in some messages, by the ids of the calls."""
    return {call: name for message in messages for call, name in call_names(message)}


def tools_of(message: BaseMessage, calls: Mapping[str, str]) -> set[str]:
    """Return the tools that a message calls or is a result of.

    Args:
        message: The message.
        calls: The tools of calls, by their ids; a result often has the id alone.
    """
    return tools_in(parts_of(message), calls)


def tools_in(parts: Iterable[Part], calls: Mapping[str, str]) -> set[str]:
    """Do the same as `tools_of` for a message whose parts are at hand."""
    found: set[str] = set()
    for part in parts:
        if part.kind.startswith("tool-"):
            named = {"" if part.name == "tool" else part.name, calls.get(part.call_id, "")}
            found |= named - {""} or {part.name} - {""}
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    kind: Kind
    key: str
    """The key of the message, or the id of the group."""
    cursor: str
    """The key of the message, or of the first one that the group was written from."""
    text: str
    """Its text, or the piece of a long one that was found."""
    score: float
    """How much of the query it holds: 0 nothing, near 1 all of it."""
    at: datetime | None
    """When it was said, or observed."""
    role: str | None
    """Who said it; `None` for observations."""


@dataclass(frozen=True, slots=True)
class _Text:
    found: Found
    words: list[str] = field(default_factory=list)


def search_texts(
    query: str,
    messages: Sequence[tuple[str, BaseMessage, datetime | None]],
    groups: Sequence[Group],
    wanted: Filter,
) -> list[Found]:
    """Search messages and observations that are at hand; return what was found, the best first.

    Args:
        query: What to look for.
        messages: Per message its key, the message, and when it was said.
        groups: Groups of observations.
        wanted: What has to be true of a hit.
    """
    words = query_words(query)
    if not words:
        return []
    texts = [*_list_messages(messages, wanted)]
    texts += [] if wanted.is_of_messages else _list_groups(groups, wanted)
    scores = rank_texts(words, [text.words for text in texts])
    return best_first(
        Found(
            text.found.kind,
            text.found.key,
            text.found.cursor,
            text.found.text,
            score,
            text.found.at,
            text.found.role,
        )
        for text, score in zip(texts, scores, strict=True)
        if score > 0
    )


def best_first(found: Iterable[Found]) -> list[Found]:
    """Return the best piece of each text, the best text first; of equals, the last one."""
    best: dict[tuple[Kind, str], Found] = {}
    for each in found:
        name = (each.kind, each.key)
        if name not in best or each.score > best[name].score:
            best[name] = each
    newest = [*best.values()][::-1]
    return sorted(newest, key=lambda each: -each.score)


def _list_messages(
    messages: Sequence[tuple[str, BaseMessage, datetime | None]], wanted: Filter
) -> Iterable[_Text]:
    calls = name_calls(message for _, message, _ in messages) if wanted.tool_name else {}
    for key, message, at in messages:
        role = role_of(message)
        tools = tools_of(message, calls) if wanted.tool_name else ()
        if role is None or not wanted.passes(at, role, tools):
            continue
        for piece in split_pieces(read_text(message)):
            yield _Text(Found("message", key, key, piece, 0.0, at, role), split_words(piece))


def _list_groups(groups: Sequence[Group], wanted: Filter) -> Iterable[_Text]:
    for group in groups:
        at = datetime.fromisoformat(group["observed_at"])
        if group["text"] and wanted.passes(at, None, ()):
            cursor = group["ranges"][0][0] if group["ranges"] else ""
            found = Found("observations", group["id"], cursor, group["text"], 0.0, at, None)
            yield _Text(found, split_words(group["text"]))

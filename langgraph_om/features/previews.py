"""Show the Actor the beginning and the end of what is enormous, and the call that reads the rest.

In the view, never in the state: the Observer and `recall` have the message itself. A preview is
another message with the same id, and a pure function of the message and the rule, so that a
provider's prompt cache holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Self

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.blocks import holds_bound_reasoning
from langgraph_om.core.content.parts import (
    Part,
    Placeholders,
    all_parts,
    content_blocks,
    part_text,
    result_parts,
)
from langgraph_om.core.content.text import (
    CHARACTERS_PER_TOKEN_CEILING,
    MAX_TOKENS_PER_CHARACTER,
    find_longest_head,
    show_key,
    to_whole_character,
    write_json,
)
from langgraph_om.core.prompts import fill

NEVER: Final = sys.maxsize
"""Tokens above which nothing is."""
TOOL_TOKENS: Final = 20_000
"""A longer result of a tool, or arguments of one call, are shown as a preview."""
TEXT_TOKENS: Final = 50_000
"""The same for what a user or the Actor wrote."""
LEAST_PREVIEWED: Final = 100
"""Tokens; of less, a tenth shows nothing."""
_SHOWN: Final = 10
"""Of what a text may count before it is previewed, a preview shows this part, such as a tenth."""
_HEAD: Final = 0.75
"""How much of that is the beginning."""
_MOST_LEVELS: Final = 20
"""Arguments that are nested deeper are cut as text."""
_CALL_VALUES: Final = ("args", "input", "arguments")
"""Where a call has its arguments: LangChain's, Anthropic's, OpenAI's."""


@dataclass(frozen=True)
class PreviewRule:
    """What counts as enormous, and what a preview says of the rest."""

    tool_tokens: int
    """For the result of a tool, and for the arguments of one call."""
    text_tokens: int
    """For what a user or the Actor wrote."""
    count: Callable[[str], int]
    """Returns the tokens of a text."""
    reads_on: bool = True
    """Whether `recall` can read what is left out."""

    @classmethod
    def choose(cls, count: Callable[[str], int], *, reads_on: bool) -> Self:
        """Return the rule of a memory; without recall nothing is cut until it has to be."""
        tools, texts = (TOOL_TOKENS, TEXT_TOKENS) if reads_on else (NEVER, NEVER)
        return cls(tools, texts, count, reads_on)

    @property
    def name(self) -> str:
        """What tells previews of one rule from those of another; empty where there are none."""
        if self.tool_tokens == NEVER:
            return ""
        return f"previews={self.tool_tokens},{self.text_tokens},{self.reads_on}"

    def fit(self, room: int) -> PreviewRule:
        """Return the rule for an Actor that has so much room for messages and observations.

        What `recall` can read on may be cut early; anything else only where it would not fit.

        Args:
            room: Tokens.
        """
        tools, texts = (room // 4, room // 2) if self.reads_on else (room, room)
        return replace(
            self,
            tool_tokens=max(LEAST_PREVIEWED, min(self.tool_tokens, tools)),
            text_tokens=max(LEAST_PREVIEWED, min(self.text_tokens, texts)),
        )


class _Cut(NamedTuple):
    """What is left out of neighbouring texts, as if they were one."""

    first: int
    """The text in which the gap begins."""
    head: int
    """After how many of its characters."""
    last: int
    """The text in which it ends."""
    tail: int
    """From which of its characters on it is shown again."""
    characters: int


class _Place(NamedTuple):
    """A text within a message, and where `recall` finds it."""

    at: int
    """Index of its block; -1 where the content is the text."""
    text: str
    part: int
    offset: int


def preview_message(message: BaseMessage, key: str, rule: PreviewRule) -> BaseMessage:
    """Return a message as the Actor is shown it; the message itself where it is not enormous.

    Answers with reasoning that is bound to its prefix are shown whole: a changed one is refused.
    """
    if not _may_be_enormous(message, rule):
        return message
    if isinstance(message, AIMessage):
        if holds_bound_reasoning(message):
            return message
        update = _cut_calls(message, key, rule)
        message = message.model_copy(update=update) if update else message
    is_result = isinstance(message, ToolMessage | FunctionMessage)
    limit = rule.tool_tokens if is_result else rule.text_tokens
    places = [*_find_texts(message)]
    cut = _find_cut(tuple(place.text for place in places), limit, rule.count)
    if cut is None:
        return message
    begin = places[cut.first]
    note = _write_note(rule, key, begin.part, begin.offset + cut.head, cut.characters)
    return message.model_copy(update={"content": _cut_content(message.content, places, cut, note)})


def _may_be_enormous(message: BaseMessage, rule: PreviewRule) -> bool:
    """Return whether a message is worth a closer look; nearly all are short."""
    if rule.tool_tokens == NEVER or isinstance(message, SystemMessage):
        return False  # the agent's own prompt, and the observations, are no messages of anyone
    content = message.content
    text = content if isinstance(content, str) else None
    size = sum(map(_count_characters, content_blocks(content))) if text is None else len(text)
    if isinstance(message, AIMessage) and message.tool_calls:
        size += sum(len(write_json(call["args"])) for call in message.tool_calls)
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        size += sum(len(call["args"] or "") for call in message.invalid_tool_calls)
    least = min(rule.tool_tokens, rule.text_tokens)
    if size * MAX_TOKENS_PER_CHARACTER <= least:
        return False
    return size > least or text is None or not text.isascii()


def _count_characters(block: Any) -> int:
    text = block.get("text") if isinstance(block, Mapping) else block
    if isinstance(block, Mapping) and "json" in block:
        text = write_json(block["json"])
    # Of other blocks only calls can be cut, which are listed beside the content too.
    return len(text) if isinstance(text, str) else 0


# --- Texts ---------------------------------------------------------------------------------------


def _find_texts(message: BaseMessage) -> Iterator[_Place]:
    """Give the texts of a message in order, with the part and the character `recall` counts."""
    content = message.content
    if isinstance(message, ToolMessage | FunctionMessage):
        offset = 0
        for at, block in _numbered(content):
            for part in result_parts(block, Placeholders()):
                text = part_text(part)
                if _is_text(part, block) or _is_json(part, block):
                    yield _Place(at, text, 0, offset)
                offset += len(text) + 1  # they are joined by a line break
        return
    blocks = [*_numbered(content)]
    for part, index, offset in _place_parts(message):
        found = next((at for at, (_, block) in enumerate(blocks) if block is part.block), None)
        if part.kind != "text" or found is None:
            continue
        at, block = blocks[found]
        del blocks[: found + 1]
        if _is_text(part, block):
            yield _Place(at, str(part.body), index, offset)


def _place_parts(message: BaseMessage) -> Iterator[tuple[Part, int, int]]:
    """Give the parts of a message, each with its number and its first character for `recall`.

    There, blank texts are no parts, and neighbouring texts of an answer are one.
    """
    joins = isinstance(message, AIMessage)
    index, run = 0, ""
    for part in all_parts(message, Placeholders()):
        text = str(part.body) if part.kind in {"text", "reasoning"} else "?"
        if part.kind != "text" or not joins:
            index += bool(run.strip())
            run = ""
        yield part, index, len(run)
        if part.kind == "text":
            run += text
        else:
            index += bool(text.strip())


def _numbered(content: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(content, str):
        yield -1, content
    else:
        yield from enumerate(content_blocks(content))


def _is_text(part: Part, block: Any) -> bool:
    """Return whether a block is text that can be cut where it stands."""
    if part.kind != "text":
        return False
    return isinstance(block, str) or (isinstance(block, dict) and block.get("text") == part.body)


def _is_json(part: Part, block: Any) -> bool:
    """Return whether a block of a tool's result is JSON, which is cut as text."""
    return part.kind == "other" and isinstance(block, dict) and "json" in block


@lru_cache(maxsize=16)  # each call of the Actor shows the same texts
def _find_cut(texts: tuple[str, ...], limit: int, count: Callable[[str], int]) -> _Cut | None:
    """Find what is left out of texts that count more than a limit; `None` where they do not."""
    if not _counts_more(texts, limit, count):
        return None
    room = max(2, limit // _SHOWN)
    first, head = _find_head(texts, int(room * _HEAD), count)
    last, tail = _find_tail(texts, room - int(room * _HEAD), count)
    if (last, tail) <= (first, head):
        return None
    between = sum(map(len, texts[first:last])) - head + tail
    return _Cut(first, head, last, tail, between)


def _counts_more(texts: Sequence[str], limit: int, count: Callable[[str], int]) -> bool:
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size <= limit:  # a token is a byte or more
        return False
    if size > limit * CHARACTERS_PER_TOKEN_CEILING:
        return True
    return sum(map(count, texts)) > limit


def _find_head(texts: Sequence[str], tokens: int, count: Callable[[str], int]) -> tuple[int, int]:
    """Return where the beginning ends: the text, and the character in it."""
    for at, text in enumerate(texts):
        end = find_longest_head(text, tokens, count)
        if end < len(text):
            line = text.rfind("\n", end * 4 // 5, end) + 1
            return at, line or end
        tokens -= count(text)
        if tokens <= 0:
            return at, len(text)
    return len(texts) - 1, len(texts[-1])


def _find_tail(texts: Sequence[str], tokens: int, count: Callable[[str], int]) -> tuple[int, int]:
    """Return where the end begins: the text, and the character in it."""
    for at in range(len(texts) - 1, -1, -1):
        text = texts[at]
        size = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
        while size and (counted := count(text[-size:])) > tokens:
            size = min(size * 9 // 10, size * tokens // counted)
        if size < len(text):
            begin = to_whole_character(text, 0, len(text) - size)
            line = text.find("\n", begin, begin + size // 5) + 1
            return at, line or begin
        tokens -= count(text)
        if tokens <= 0:
            return at, 0
    return 0, 0


def _cut_content(content: Any, places: Sequence[_Place], cut: _Cut, note: str) -> Any:
    """Return the content of a message with a note in the place of what is left out."""

    def rewrite(number: int) -> str:
        text = places[number].text
        if number == cut.first:
            end = text[cut.tail :] if cut.last == number else ""
            return f"{text[: cut.head]}\n{note}\n{end}"
        return text[cut.tail :] if number == cut.last else ""

    changed = {places[n].at: rewrite(n) for n in range(cut.first, cut.last + 1)}
    if -1 in changed:
        return changed[-1]
    out: list[Any] = []
    for at, block in enumerate(block for block in content if block is not None):
        if at not in changed:
            out.append(block)
        elif changed[at]:
            out.append(changed[at] if isinstance(block, str) else _with_text(block, changed[at]))
    return out


def _with_text(block: Mapping[str, Any], text: str) -> dict[str, Any]:
    # What cites or caches a place in the text does not hold for another text.
    kept = {name: block[name] for name in ("id", "phase") if name in block}
    kind = "text" if "json" in block else block.get("type", "text")
    return {"type": kind, "text": text, **kept}


def _write_note(rule: PreviewRule, key: str, part: int, offset: int, characters: int) -> str:
    left_out = f"{characters:,}"
    if not rule.reads_on:
        return fill("preview_unread", characters=left_out)
    cursor = json.dumps(show_key(key), ensure_ascii=False)
    where = {"cursor": cursor, "part": str(part), "offset": str(offset)}
    return fill("preview", characters=left_out, **where)


# --- Calls ---------------------------------------------------------------------------------------


def _cut_calls(message: AIMessage, key: str, rule: PreviewRule) -> dict[str, Any]:
    """Return the fields of an answer that are other ones once its enormous arguments are cut."""
    changed: dict[str, Any] = {}
    listed = {id(call) for call in message.tool_calls}
    for part, index, _ in _place_parts(message):
        call = part.block
        if isinstance(call, dict) and call.get("type") == "invalid_tool_call" and call.get("id"):
            text = str(call.get("args") or "")
            cut = _find_cut((text,), rule.tool_tokens, rule.count)
            if cut is not None:  # it is no JSON, and stays a text
                note = _write_note(rule, key, index, cut.head, cut.characters)
                changed[str(call["id"])] = f"{text[: cut.head]}\n{note}\n{text[cut.tail :]}"
        if id(call) not in listed or not call.get("id"):
            continue
        text = part_text(part)
        cut = _find_cut((text,), rule.tool_tokens, rule.count)
        if cut is not None:
            write = partial(_write_note, rule, key, index)
            changed[str(call["id"])] = _cut_arguments(call.get("args"), text, cut, rule, write)
    if not changed:
        return {}

    def put(calls: Sequence[Any]) -> list[Any]:
        return [{**call, "args": changed.get(str(call["id"]), call["args"])} for call in calls]

    update: dict[str, Any] = {
        "tool_calls": put(message.tool_calls),
        "invalid_tool_calls": put(message.invalid_tool_calls),
    }
    if isinstance(message.content, list):
        update["content"] = [_change_call(block, changed) for block in message.content]
    raw = message.additional_kwargs.get("tool_calls")
    if isinstance(raw, list):
        calls = [_change_call(call, changed) for call in raw]
        update["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": calls}
    return update


def _cut_arguments(
    arguments: object, text: str, cut: _Cut, rule: PreviewRule, write: Callable[[int, int], str]
) -> dict[str, Any]:
    """Return the arguments of a call with their long texts cut; as one text where that is too much.

    Names and short values stay, so that the Actor sees what it has called with.
    """
    room = max(2, rule.tool_tokens // _SHOWN)

    def cut_text(value: str) -> str:
        own = _find_cut((value,), room, rule.count)
        if own is None:
            return value
        written = json.dumps(value, ensure_ascii=False)[1:-1]
        at = text.find(written)
        begin = max(at, 0) + (len(json.dumps(value[: own.head], ensure_ascii=False)) - 2)
        note = write(begin if at >= 0 else 0, own.characters)
        return f"{value[: own.head]}\n{note}\n{value[own.tail :]}"

    def walk(value: object, levels: int) -> object:
        if isinstance(value, str):
            return cut_text(value)
        if levels and isinstance(value, Mapping):
            return {name: walk(item, levels - 1) for name, item in value.items()}
        if levels and isinstance(value, list):
            return [walk(item, levels - 1) for item in value]
        return value

    shorter = walk(arguments, _MOST_LEVELS)
    if isinstance(shorter, dict):
        written = part_text(Part("tool-call", {"args": shorter}))
        if not _counts_more((written,), rule.tool_tokens, rule.count):
            return shorter
    note = write(cut.head, cut.characters)
    return {"preview": f"{text[: cut.head]}\n{note}\n{text[cut.tail :]}"}


def _change_call(block: Any, changed: Mapping[str, Any]) -> Any:
    """Return a call in a provider's form with its new arguments; any other block itself."""
    if not isinstance(block, dict):
        return block
    call_id = next((str(block[name]) for name in ("call_id", "id") if block.get(name)), "")
    if call_id not in changed:
        return block
    inner, arguments = block.get("function"), changed[call_id]
    written = arguments if isinstance(arguments, str) else write_json(arguments)
    if isinstance(inner, dict):
        return {**block, "function": {**inner, "arguments": written}}
    values = {
        name: written if isinstance(block[name], str) else arguments
        for name in _CALL_VALUES
        if name in block
    }
    return {**{name: item for name, item in block.items() if name != "partial_json"}, **values}


_TEXTS: Final = 2.5
"""Times as much as of tools is shown of other texts, as by default, where a view must be shorter.
"""


class Previews:
    """Puts a preview in the place of each enormous message.

    Args:
        rule: What counts as enormous.
    """

    def __init__(self, rule: PreviewRule) -> None:
        self._rule = rule

    @property
    def view_rule(self) -> str:
        """The name of the rule; with another one, tokens are counted again."""
        return self._rule.name

    def fit(self, room: int) -> Previews:
        """Return the previews for an Actor that has so many tokens of room."""
        return Previews(self._rule.fit(room))

    def shorten(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return the preview of an enormous message; any other message itself."""
        return preview_message(message, key, self._rule)

    def cut(self, message: BaseMessage, key: str, tokens: int) -> BaseMessage:
        """Return the preview of a message of more tokens."""
        rule = replace(self._rule, tool_tokens=tokens, text_tokens=int(tokens * _TEXTS))
        return preview_message(message, key, rule)

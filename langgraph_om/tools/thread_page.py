"""What the inspector shows of a thread: plain values for the templates, read from a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.prompt import list_channels
from langgraph_om.core.actor.view import list_parts
from langgraph_om.core.content.message_keys import keyed_conversation
from langgraph_om.core.content.parts import content_blocks, role_of
from langgraph_om.core.content.text import write_json
from langgraph_om.core.record.record import list_ranges
from langgraph_om.core.record.titles import is_named
from langgraph_om.core.search import read_text
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Group
from langgraph_om.memory import ObservationalMemory, runner_of
from langgraph_om.tools.sources import read_number
from langgraph_om.tools.view import build_view, describe_view

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

_PAGE: Final = 100
"""Messages on a page."""
_LONG: Final = 600
"""Characters of a message that are shown at once; the rest unfolds."""
_READ_FOR_TURNS: Final = 1000
"""Messages among which turns are looked for."""
_UNSENT: Final = 1000
"""Messages of a state among which those are looked for that the archive does not have yet."""


def read_page(
    memory: ObservationalMemory, thread: str, state: Any, states: Any, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the page of a thread shows, by the names that its template uses.

    Args:
        thread: The id that was authorized. Whoever writes a state chooses the id in its record.
        states: The thread's history, if it is wanted.
    """
    runner = runner_of(memory)
    view = build_view(runner, state, states, thread)
    record, messages = view.record, runner.conversation(state)
    step = runner.look(record, messages, runner.read_state(state))
    talk = Conversation(messages, memory.archive, thread)
    waiting = [group for chunk in record["chunks"] for group in chunk["groups"]]
    ranges = find_ranges(talk, (thread, record["thread_id"]), [*record["log"], *waiting])
    asked = read_number(query.get("message", ""))
    start = max(0, talk.total - _PAGE)
    if asked is not None and asked < talk.total:
        start = asked // _PAGE * _PAGE
    stop = min(talk.total, start + _PAGE)
    shown = describe_view(view)
    sent = runner.actor_input(step, runner.actor.prompt) if "prompt" in query else []
    return {
        **shown,
        "values": [
            *(
                (name, text, "")
                for name, text in list_channels(step.settings, step.in_state.channels)
            ),
            *shown["values"],
        ],
        "thread": thread,
        "is_named": is_named(record),
        # The nodes that the graph goes on with; none after its last run has ended.
        "next": state.get("next") if isinstance(state, Mapping) else getattr(state, "next", ()),
        "ranges": ranges,
        "messages": read_messages(talk.read(start, stop), ranges, step),
        "start": start,
        "stop": stop,
        "total": talk.total,
        "parts_of_prompt": list_parts(step.settings, step.view, runner.actor.prompt),
        "sent": [(_ROLES.get(own.type, own.type), _write_whole(own)) for own in sent],
        "turns": read_turns(talk),
    }


# --- The conversation ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A message and its position, counted from 0 at the beginning of the conversation."""

    at: int
    key: str
    message: BaseMessage


class Conversation:
    """A thread's messages by their positions: in the archive, if there is one, and the state."""

    def __init__(
        self, messages: Sequence[BaseMessage], archive: SQLAlchemyArchive | None, thread: str
    ) -> None:
        """Find out how many there are."""
        self._own = keyed_conversation(messages)
        self._archive, self._thread, self._kept = archive, thread, 0
        last = None if archive is None else archive.last_position(thread)
        if archive is not None and last is not None:
            self._kept = last + 1
            newest = self._own[-_UNSENT:]
            known = archive.contains(thread, [key for key, _ in newest])
            sent = [at for at, (key, _) in enumerate(newest) if key in known]
            self._own = newest[sent[-1] + 1 :] if sent else newest

    @property
    def total(self) -> int:
        """The number of messages."""
        return self._kept + len(self._own)

    def read(self, start: int, stop: int) -> list[Place]:
        """Return the messages of these positions."""
        found: list[Place] = []
        if self._archive is not None and start < self._kept:
            last = min(stop, self._kept)
            rows = self._archive.messages(
                self._thread, start=start, stop=last, limit=last - start, visible_only=False
            )
            there = [row for row in rows if not row.is_pruned]
            found += [Place(row.position, row.key, row.message) for row in there]
        for at in range(max(start, self._kept), min(stop, self.total)):
            found.append(Place(at, *self._own[at - self._kept]))
        return found

    def places(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the positions of messages, without those that are not found."""
        wanted = set(keys)
        own = {key: self._kept + at for at, (key, _) in enumerate(self._own) if key in wanted}
        kept = {} if self._archive is None else self._archive.places(self._thread, keys)
        return {**kept, **own}


def find_ranges(
    talk: Conversation, threads: Sequence[str], groups: Sequence[Group]
) -> dict[str, list[tuple[int, int]]]:
    """Return the runs of messages, first and last, that groups of this thread were written from."""
    runs = {
        group["id"]: list_ranges(group)
        for group in groups
        if not group["thread_id"] or group["thread_id"] in threads
    }
    places = talk.places([key for own in runs.values() for run in own for key in run])
    return {
        name: sorted({(places[a], places[b]) for a, b in own if a in places and b in places})
        for name, own in ((name, [(run[0], run[-1]) for run in own]) for name, own in runs.items())
    }


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the page shows it."""

    at: int
    role: str
    name: str
    """Of a tool; empty for others."""
    time: str
    text: str
    rest: str
    """What unfolds of a long message."""
    calls: Sequence[tuple[str, str]]
    """Name and arguments of tool calls."""
    groups: Sequence[str]
    """The ids of the groups of observations that were written from it."""


def read_messages(
    places: Sequence[Place], ranges: Mapping[str, Sequence[tuple[int, int]]], step: Step
) -> list[Said]:
    """Return messages as the page shows them."""
    stamps, settings = step.record["stamps"], step.settings
    times = settings.times_of([(each.key, each.message) for each in places], stamps)
    found: list[Said] = []
    for place, time in zip(places, times, strict=True):
        message = place.message
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        # Only the words: calls are shown by themselves.
        text = message.text.strip() or ("" if calls else read_text(message).strip())
        cut = len(text) if len(text) <= _LONG else max(text.rfind(" ", 0, _LONG), _LONG // 2)
        found.append(
            Said(
                at=place.at,
                role=role_of(message) or message.type,
                name=str(getattr(message, "name", None) or "") if message.type == "tool" else "",
                time=f"{time.astimezone(settings.timezone):%Y-%m-%d %H:%M}" if time else "",
                text=text[:cut],
                rest=text[cut:],
                calls=[(call["name"], write_json(call["args"])) for call in calls],
                groups=[
                    name
                    for name, runs in ranges.items()
                    if any(start <= place.at <= stop for start, stop in runs)
                ],
            )
        )
    return found


# --- What the Actor's model is sent, and was sent ------------------------------------------------

_ROLES: Final = {"human": "user", "ai": "assistant"}


def _write_whole(message: BaseMessage) -> str:
    """Return all that a message says, its calls as JSON."""
    said = ""
    for block in content_blocks(message.content):
        text = block if isinstance(block, str) else block.get("text")
        is_text = isinstance(block, str) or (block.get("type") == "text" and text is not None)
        said += str(text) if is_text else write_json(block)
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({write_json(call['args'])})" for call in calls]
    return "\n".join(filter(None, [said, *written]))


@dataclass(slots=True)
class Turn:
    """What the agent's model read and wrote from one message of the user to the next."""

    at: int
    """The position of the user's message."""
    prompt: int = 0
    """Tokens of the longest prompt."""
    tokens_in: int = 0
    cached: int = 0
    """Of these, what the provider had in its cache."""
    tokens_out: int = 0


def read_turns(talk: Conversation) -> list[Turn]:
    """Return the newest turns, oldest first, as far as the model's answers say what they took."""
    turns: list[Turn] = []
    for place in talk.read(max(0, talk.total - _READ_FOR_TURNS), talk.total):
        message = place.message
        if message.type == "human" or not turns:
            turns.append(Turn(place.at))
        usage: Any = message.usage_metadata if isinstance(message, AIMessage) else None
        if usage:
            turn, read = turns[-1], int(usage.get("input_tokens") or 0)
            turn.prompt = max(turn.prompt, read)
            turn.tokens_in += read
            turn.tokens_out += int(usage.get("output_tokens") or 0)
            turn.cached += int((usage.get("input_token_details") or {}).get("cache_read") or 0)
    return [turn for turn in turns if turn.prompt]

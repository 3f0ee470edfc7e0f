"""What the page of a thread shows: plain values for the templates, read from a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.view import PromptPart, list_parts
from langgraph_om.core.content.message_keys import keyed_conversation
from langgraph_om.core.content.parts import content_blocks, role_of
from langgraph_om.core.content.text import write_json
from langgraph_om.core.items import list_items
from langgraph_om.core.record.record import list_ranges
from langgraph_om.core.search import read_text
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

MESSAGES: Final = 100
"""Messages on a page."""
_LONG: Final = 600
"""Characters of a message that are shown at once; the rest unfolds."""
_TURNS: Final = 200
"""Turns in a curve."""
_READ_FOR_TURNS: Final = 1000
"""Messages of an archive that are read for the curves."""
_UNSENT: Final = 1000
"""Messages of a state among which those are looked for that the archive does not have yet."""

Prices = Mapping[str, Sequence[float]]
"""Dollars for a million tokens in and out, of `agent` and of `memory`; a third number is for tokens
that the provider had in its cache."""


# --- The conversation ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A message and where it stands."""

    at: int
    """0-based, from the beginning of the conversation."""
    key: str
    message: BaseMessage


class Conversation:
    """A thread's messages by their positions: of the archive, where there is one, and the state."""

    def __init__(
        self, messages: Sequence[BaseMessage], archive: SQLAlchemyArchive | None, thread: str
    ) -> None:
        """Find out how many there are."""
        self._own = keyed_conversation(messages)
        self._archive: SQLAlchemyArchive | None = None
        self._thread, self._kept = thread, 0
        last = archive.last_position(thread) if archive is not None and thread else None
        if archive is not None and last is not None:
            self._archive, self._kept = archive, last + 1
            newest = self._own[-_UNSENT:]
            known = archive.contains(thread, [key for key, _ in newest])
            sent = [at for at, (key, _) in enumerate(newest) if key in known]
            self._own = newest[sent[-1] + 1 :] if sent else newest

    @property
    def total(self) -> int:
        """How many messages there are."""
        return self._kept + len(self._own)

    def read(self, start: int, stop: int) -> list[Place]:
        """Return the messages of these positions."""
        found: list[Place] = []
        if self._archive is not None and start < self._kept:
            rows = self._archive.messages(
                self._thread,
                start=start,
                stop=min(stop, self._kept),
                limit=stop - start,
                visible_only=False,
            )
            found += [Place(row.position, row.key, row.message) for row in rows]
        first = max(0, start - self._kept)
        for at, (key, message) in enumerate(self._own[first : max(0, stop - self._kept)], first):
            found.append(Place(self._kept + at, key, message))
        return found

    def places(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return where messages stand; those that are not there, or not found, are left out."""
        wanted = set(keys)
        own = {key: self._kept + at for at, (key, _) in enumerate(self._own) if key in wanted}
        kept = {} if self._archive is None else self._archive.places(self._thread, keys)
        return {**kept, **own}


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
    """Of a long message, what unfolds."""
    calls: Sequence[tuple[str, str]]
    """Name and arguments of calls of tools."""
    notes: Sequence[str]
    """The ids of the groups of notes that were made of it."""


# --- The log -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranges:
    """Positions of the first and the last message of each run that a group was made of."""

    runs: Sequence[tuple[int, int]]
    """Empty where these are not known."""

    @property
    def first(self) -> int | None:
        """The position of the first message; `None` where it is not known."""
        return self.runs[0][0] if self.runs else None

    @property
    def lights(self) -> str:
        """The runs for the script: `3-9 12-14`."""
        return " ".join(f"{start}-{stop}" for start, stop in self.runs)

    @property
    def told(self) -> str:
        """The runs for people, who count from one."""
        runs = [
            f"{start + 1:,}" if start == stop else f"{start + 1:,} to {stop + 1:,}"
            for start, stop in self.runs
        ]
        noun = "message" if [s == e for s, e in self.runs] == [True] else "messages"
        return f"{noun} {', '.join(runs)}" if runs else ""


class LogReader:
    """Knows the places of the messages that a log is about, and the numbers of its items."""

    def __init__(self, record: MemoryRecord, groups: Sequence[Group], talk: Conversation) -> None:
        """Find the messages."""
        own = record["thread_id"]
        ranges = {
            group["id"]: list_ranges(group)
            for group in groups
            if group["thread_id"] in (own, None) or not group["thread_id"]
        }
        keys = [key for runs in ranges.values() for run in runs for key in run]
        places = talk.places(keys)
        self.ranges = {
            key: sorted(
                {
                    (places[run[0]], places[run[-1]])
                    for run in runs
                    if run[0] in places and run[-1] in places
                }
            )
            for key, runs in ranges.items()
        }
        self.numbers = {item.id: at for at, item in enumerate(list_items(record["log"]))}

    def find(self, group: Group) -> Ranges:
        """Return where the messages stand that a group was made of."""
        return Ranges(self.ranges.get(group["id"], []))


def read_messages(places: Sequence[Place], reader: LogReader, step: Step) -> list[Said]:
    """Return messages as the page shows them, each with the notes that were made of it."""
    stamps, settings = step.record["stamps"], step.settings
    times = settings.times_of([(each.key, each.message) for each in places], stamps)
    ranges = [(key, run) for key, runs in reader.ranges.items() for run in runs]
    found: list[Said] = []
    for place, time in zip(places, times, strict=True):
        message = place.message
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        # The words alone: calls are shown by themselves.
        text = message.text.strip() or ("" if calls else read_text(message).strip())
        cut = _find_cut(text)
        found.append(
            Said(
                place.at,
                role_of(message) or message.type,
                str(getattr(message, "name", None) or "") if message.type == "tool" else "",
                f"{time.astimezone(settings.timezone):%Y-%m-%d %H:%M}" if time else "",
                text[:cut],
                text[cut:],
                [(call["name"], write_json(call["args"])) for call in calls],
                list(dict.fromkeys(key for key, (a, b) in ranges if a <= place.at <= b)),
            )
        )
    return found


def _find_cut(text: str) -> int:
    """Return where the rest of a long text begins: between two words, if there are any."""
    if len(text) <= _LONG:
        return len(text)
    space = max(text.rfind(each, _LONG // 2, _LONG) for each in " \n")
    return space if space > 0 else _LONG


# --- What the Actor is sent ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the Actor is sent next."""

    parts: Sequence[PromptPart]
    messages: Sequence[tuple[str, str]]
    """Role and text, word for word; empty where nobody asked for them."""

    @property
    def tokens(self) -> int:
        """Of all parts."""
        return sum(part.tokens for part in self.parts)


def read_prompt(runner: StepRunner, step: Step, *, is_whole: bool) -> Prompt:
    """Return what the Actor is sent.

    Args:
        is_whole: Whether its words are wanted.
    """
    sent = runner.actor_input(step, runner.agent_prompt)
    parts = list_parts(step.settings, step.view, runner.agent_prompt)
    shown = sent if is_whole else ()
    roles = {"human": "user", "ai": "assistant"}
    return Prompt(parts, [(roles.get(own.type, own.type), _write_whole(own)) for own in shown])


def _write_whole(message: BaseMessage) -> str:
    """Return all that a message says, its calls as JSON."""
    said = ""
    for block in content_blocks(message.content):
        is_text = isinstance(block, str) or (block.get("type") == "text" and "text" in block)
        text = block if isinstance(block, str) else block.get("text")
        said += str(text) if is_text else write_json(block)
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({write_json(call['args'])})" for call in calls]
    return "\n".join(filter(None, [said, *written]))


# --- Turns ---------------------------------------------------------------------------------------


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

    def cost(self, prices: Sequence[float] | None) -> float:
        """Return dollars by the prices of a million tokens, or all tokens where there are none."""
        if prices is None:
            return self.tokens_in + self.tokens_out
        for_in, for_out, *more = prices
        fresh = (self.tokens_in - self.cached) * for_in + self.cached * (more or [for_in])[0]
        return (fresh + self.tokens_out * for_out) / 1_000_000


def read_turns(talk: Conversation) -> list[Turn]:
    """Return the newest turns, oldest first, as far as the model's answers say what they took."""
    turns: list[Turn] = []
    for place in talk.read(max(0, talk.total - _READ_FOR_TURNS), talk.total):
        message = place.message
        if message.type == "human":
            turns.append(Turn(place.at))
        usage: Any = message.usage_metadata if isinstance(message, AIMessage) else None
        if not usage:
            continue
        if not turns:
            turns.append(Turn(place.at))
        turn, read = turns[-1], int(usage.get("input_tokens") or 0)
        turn.prompt = max(turn.prompt, read)
        turn.tokens_in += read
        turn.tokens_out += int(usage.get("output_tokens") or 0)
        turn.cached += int((usage.get("input_token_details") or {}).get("cache_read") or 0)
    return [turn for turn in turns if turn.prompt][-_TURNS:]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over turns, drawn in a box of 600 by 120."""

    title: str
    points: Sequence[tuple[float, float, str]]
    """Across, down, and what it says."""
    top: str
    """The highest value."""
    sum: str
    """What is said of all of it."""

    @property
    def line(self) -> str:
        """The points of the line."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in self.points)

    @property
    def area(self) -> str:
        """The points of the area below."""
        return f"{self.points[0][0]:.1f},120 {self.line} {self.points[-1][0]:.1f},120"


def draw_curves(turns: Sequence[Turn], prices: Sequence[float] | None) -> list[Curve]:
    """Return the sizes of prompts, and what turns cost; nothing of less than two turns."""
    if len(turns) <= 1:
        return []
    sizes = [float(turn.prompt) for turn in turns]
    costs = [turn.cost(prices) for turn in turns]
    total = sum(costs)
    read, cached = sum(turn.tokens_in for turn in turns), sum(turn.cached for turn in turns)
    last = f"now {turns[-1].prompt:,} tokens"
    hits = f", {cached / read:.0%} from the provider's cache" if cached else ""
    said = f"{_write_cost(total, prices)} in {len(turns):,} turns{hits}"
    by_turn = "Cost by turn" if prices is not None else "Tokens by turn, in and out"
    return [
        _draw("Prompt size by turn", sizes, [f"{size:,.0f} tokens" for size in sizes], last),
        _draw(by_turn, costs, [_write_cost(cost, prices) for cost in costs], said),
    ]


def _draw(title: str, values: Sequence[float], said: Sequence[str], total: str) -> Curve:
    most = max(values) or 1
    step = 600 / (len(values) - 1)
    points = [
        (at * step, 118 - 114 * value / most, f"Turn {at + 1}: {text}")
        for at, (value, text) in enumerate(zip(values, said, strict=True))
    ]
    return Curve(title, points, said[values.index(max(values))], total)


def _write_cost(cost: float, prices: Sequence[float] | None) -> str:
    return f"{cost:,.0f} tokens" if prices is None else write_dollars(cost)


def write_dollars(cost: float) -> str:
    """Write dollars, with as many digits as tell something."""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"


# --- Bars ----------------------------------------------------------------------------------------


def place_shares(tokens: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yield where each part of a whole begins and how wide it is, in hundredths."""
    whole, begin = sum(tokens) or 1, 0.0
    for number in tokens:
        share = 100 * number / whole
        yield begin, share
        begin += share

"""What must be true of every conversation with memory; each law returns what breaks it.

A law looks at a moment, the point at which the Actor is called: what the state held then, and the
prompt that the Actor really got. What was said in truth is known from `Told`, a plain list that
memory never touches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any, cast, get_args

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import Provider, check_message_sequence
from support.inside import (
    GAP_ID,
    OWN_IDS,
    ParsedAnswer,
    content_digest,
    derive_id,
    escape,
    is_standing,
    parse_output,
    read_group,
)
from support.laws.cast import label_of, words_of
from support.reasoning import misplaced, without_thoughts
from support.rendering import render_output

Record = Mapping[str, Any]

_LEFT_OUT = re.compile(r"\[\.\.\. [\d,]+ characters are left out here.*?\.\.\.\]", re.DOTALL)
LEAST_PREVIEWED = 100
"""Tokens, which are words here, of which no preview is made."""

_ORDERS = re.compile(
    r"\n\n## Standing instructions of the user\n"
    r".*?(?=\n\n(?:<observations>|## Pinned messages\n)|\Z)",
    re.DOTALL,
)

DOUBLED = "is covered"
LOST = "left the state uncovered"
UNCOVERED = "are not shown as they are"
UNREAD = "was read by nobody, and is noted"


@dataclass
class Told:
    """What was said in a thread up to a point, with what the user took back or changed."""

    messages: dict[str, BaseMessage] = field(default_factory=dict)
    """By id, in the order in which they were said; edited ones as they are now."""
    taken_back: set[str] = field(default_factory=set)
    """Ids of what the user removed."""
    former: dict[str, str | None] = field(default_factory=dict)
    """Per message of any branch, the one before it."""
    edited: set[str] = field(default_factory=set)
    """Ids of what was changed on any branch."""
    replaced: set[str] = field(default_factory=set)
    """The labels of requests in place of which an edit put other words, on any branch."""
    removed: set[str] = field(default_factory=set)
    """Ids of what the user removed on any branch."""
    versions: dict[str, list[BaseMessage]] = field(default_factory=dict)
    """What messages said before they were edited, on any branch."""
    is_adrift: bool = False
    """Whether all that the record named as observed last was removed at once: what stood before it
    may be observed again, since nothing tells how far that went."""

    pinned: list[str] = field(default_factory=list)
    """Ids of the messages that a person pinned."""

    def learn(self, messages: Iterable[BaseMessage]) -> None:
        """Take note of what a state shows."""
        for message in messages:
            if not isinstance(message, SystemMessage):
                self.former.setdefault(str(message.id), next(reversed(self.messages), None))
                self.messages[str(message.id)] = message

    def copy(self) -> Told:
        said = dict(self.messages), set(self.taken_back)
        others = self.former, self.edited, self.replaced, self.removed, self.versions
        return Told(*said, *others, self.is_adrift, list(self.pinned))

    def within(self, first: str, last: str) -> range:
        """Places of the messages from one to another, which may be one of another branch."""
        places, key = self.places, str(last)
        while key not in places:
            before = self.former[key]
            if before is None or key == first:
                return range(0)
            key = before
        return range(places[first], places[key] + 1) if first in places else range(0)

    @property
    def places(self) -> dict[str, int]:
        return {key: at for at, key in enumerate(self.messages)}

    @property
    def standing(self) -> list[str]:
        """Ids of what the user did not remove."""
        return [key for key in self.messages if key not in self.taken_back]


@dataclass(frozen=True)
class Moment:
    """A call of the Actor."""

    thread: str
    told: Told
    messages: list[BaseMessage]
    """The conversation in the state."""
    record: Record
    prompt: list[BaseMessage]
    """What the Actor got."""
    left_out: int
    """How many messages memory said to leave out of the view."""
    today: date
    hidden_groups: int = 0
    """How many groups of the log it said to leave out, where the Actor's window has no room."""
    shows_hints: bool = True
    is_branched: bool = False
    """Whether the thread went on from an earlier point at some time."""
    unread: Callable[[set[str]], set[str]] = lambda words: words - words
    """Returns those of a message's words that the Observer did not read."""
    longest: int = 0
    """Words of a message that is always read whole; of a longer one the inside may be left out."""

    @property
    def is_shared(self) -> bool:
        return bool(self.record["scope"] == "resource")


# --- 1: every message is shown verbatim, or covered by exactly one range of the log ---------------


def lost_or_doubled(now: Moment, archive: SQLAlchemyArchive | None = None) -> list[str]:
    """Messages that are neither shown nor noted, or noted twice."""
    times = times_covered(now)
    shown = {message.id: message for message in now.prompt}
    present = {message.id for message in now.messages}
    often = [
        key
        for key, count in times.items()
        if count > 1 and key not in now.told.edited  # its new words were observed, too
    ]
    is_certain = not now.told.is_adrift
    problems = [f"{key} {DOUBLED} {times[key]} times" for key in often if is_certain]
    again = (now.record["observed"] or {}).get("strays", ())  # edited, so covered as they were
    open_ones = [key for key in now.told.standing if not times[key] or key in again]
    problems += [f"{key} {LOST}" for key in open_ones if key not in present]
    lost = [key for key in open_ones if not _is_shown(shown.get(key), now.told.messages[key])]
    is_told = len(lost) == now.left_out if is_certain else len(lost) <= now.left_out
    if not is_told or not set(lost) <= set(open_ones[: len(lost) + 1]):
        # Of the oldest ones, only the live request may be shown while newer ones are not.
        problems.append(f"{lost} {UNCOVERED}, {now.left_out} were said to be")
    gone = [key for key in now.told.standing if key not in present]
    return [*problems, *_not_archived(now, gone, archive)]


def covered_unread(now: Moment, before: Moment | None) -> list[str]:
    """Messages covered since that no cycle was shown whole, and that the prompt does not show.

    Only the inside of one that is longer than a question may be left out, and the record says so.
    """
    times, shown = times_covered(now), {message.id for message in now.prompt}
    known = set[str]()
    if before is not None:
        stood = {message.id for message in before.prompt}
        known = {key for key, count in times_covered(before).items() if count and key not in stood}
    skips = now.is_shared or any(
        spent.get("left_out_tokens") for spent in now.record["usage"].values()
    )
    problems = []
    for key in now.told.standing:
        if not times[key] or key in known or key in shown:
            continue
        # It may have been edited after it was read.
        versions = [now.told.messages[key], *now.told.versions.get(key, ())]
        words, unread = min(
            ((each, now.unread(each)) for each in map(words_of, versions)),
            key=lambda found: len(found[1]),
        )
        is_cut = skips and len(words) > now.longest and len(unread) < len(words)
        if unread and not is_cut:
            problems.append(f"{key} {UNREAD}: {len(unread)} of {len(words)} words")
    return problems


def out_of_order(now: Moment) -> list[str]:
    """Messages that came back to the state, behind what was said later."""
    places = now.told.places
    keys = [str(each.id) for each in now.messages if str(each.id) in places]
    return [f"{b} stands behind {a} again" for a, b in pairwise(keys) if places[a] > places[b]]


def hints_shown(now: Moment) -> list[str]:
    """Without `continuation_hints`, neither hint is in the prompt."""
    tags = ("\n<current-task>\n", "\n<suggested-response>\n")
    text = "" if now.shows_hints else "".join(_head(now))
    return [f"{tag.strip()} is shown" for tag in tags if tag in text]


def gaps_moved(before: Moment, now: Moment) -> list[str]:
    """A line about a pause stays as it is while the window begins where it did."""
    if before.told.taken_back != now.told.taken_back or before.left_out or now.left_out:
        return []
    if before.record["cursor"] != now.record["cursor"]:
        return []
    old, new = _gaps(before), _gaps(now)
    return [f"the line before {key} was {old[key]!r}" for key in old if new.get(key) != old[key]]


def _gaps(now: Moment) -> dict[str, str]:
    return {str(b.id): a.text for a, b in pairwise(now.prompt) if a.id == GAP_ID}


def _is_shown(shown: BaseMessage | None, said: BaseMessage) -> bool:
    """Whether a message is in the prompt as it is, its reasoning perhaps left out.

    Of one that is too large for the Actor's window, the beginning and the end are.
    """
    if shown is None or shown in (said, without_thoughts(said)):
        return shown is not None
    head, *rest = _LEFT_OUT.split(shown.text)
    is_cut = bool(rest) and len(said.text.split()) > LEAST_PREVIEWED
    ends = [
        said.text.startswith(head.rstrip()),
        *(said.text.endswith(rest[0].lstrip()) for _ in rest),
    ]
    return is_cut and len(rest) == 1 and all(ends)


def request_not_shown(now: Moment) -> list[str]:
    """The live user request stays in the prompt, observed or not."""
    humans = [key for key in now.told.standing if now.told.messages[key].type == "human"]
    shown = {message.id: message for message in now.prompt}
    is_shown = not humans or _is_shown(shown.get(humans[-1]), now.told.messages[humans[-1]])
    return [] if is_shown else [f"the live request {humans[-1]} is not in the prompt"]


def _not_archived(now: Moment, keys: list[str], archive: SQLAlchemyArchive | None) -> list[str]:
    """What left the state and is not in the archive, word for word."""
    if not keys:
        return []
    if archive is None:
        return [f"{key} left the state without an archive" for key in keys]
    missing = set(keys) - archive.contains(now.thread, keys)
    if missing:
        return [f"{key} left the state and is not in the archive" for key in sorted(missing)]
    stored = archive.branch(now.thread, keys, branch=now.record.get("branch"))
    return [
        f"{key} is in the archive with other words"
        for key, message in zip(keys, stored, strict=True)
        if _essence(message) != _essence(now.told.messages[key])
    ]


def archived_otherwise(
    thread: str, told: Told, record: Record, archive: SQLAlchemyArchive
) -> list[str]:
    """What the archive has of a thread's branch where a turn is over: all that stands, in order.

    What the user took back may stay in between.
    """
    branch, most = record.get("branch"), 2 * len(told.messages) + 10
    rows = archive.messages(thread, branch=branch, limit=most, visible_only=False)
    keys = [row.key for row in rows]
    kept = [key for key in keys if key not in told.taken_back]
    problems = [f"{thread}: the archive has {keys}, and {told.standing} were said"]
    return [] if kept == told.standing and len({*keys}) == len(keys) else problems


def _essence(message: BaseMessage) -> tuple[Any, ...]:
    return (message.type, message.content, getattr(message, "tool_calls", None))


def times_covered(now: Moment) -> dict[str, int]:
    """How many ranges of the log cover each message of the thread."""
    counts = [0] * len(now.told.messages)
    for first, last in ranges_of(now.record["log"], now.thread):
        for at in now.told.within(first, last):
            counts[at] += 1
    return dict(zip(now.told.messages, counts, strict=True))


def ranges_of(groups: Iterable[Mapping[str, Any]], thread: str) -> list[list[str]]:
    """The ranges of one thread; a log may be about several."""
    mine = (group for group in groups if group["thread_id"] in (None, thread))
    return [ends for group in mine for ends in group["ranges"]]


def groups_ahead(record: Record) -> list[Mapping[str, Any]]:
    """What the chunks of a record become in the log."""
    return [group for chunk in record["chunks"] for group in chunk["groups"]]


def chunks_out_of_place(now: Moment) -> list[str]:
    """Chunks have to follow the observed messages and each other, leaving nothing out."""
    covered = times_covered(now)
    open_ones = [key for key in now.told.standing if not covered[key]]
    expected, problems = 0, []
    for first, last in ranges_of(groups_ahead(now.record), now.thread):
        if now.is_shared and not {first, last} <= set(open_ones[expected:]):
            break  # another thread observed its messages; the next step drops it
        if first not in open_ones or last not in open_ones:
            problems.append(f"chunk {first}..{last} is about what is observed or gone")
        elif open_ones.index(first) != expected:
            problems.append(f"chunk {first}..{last} does not begin at {open_ones[expected]}")
        else:
            expected = open_ones.index(last) + 1
    return problems


def chunks_of_other_words(now: Moment) -> list[str]:
    """Chunks whose messages were edited since; what they say is about other words."""
    problems = []
    for chunk in now.record["chunks"]:
        ranges = ranges_of(chunk["groups"], now.thread)
        first, last = ranges[0][0], ranges[-1][1]
        places = now.told.places
        said = [
            f"{key}:{content_digest(now.told.messages[key])}"
            for key in now.told.standing
            if places[first] <= places[key] <= places[last]
        ]
        if derive_id("messages", *said) != chunk["digest"]:
            problems.append(f"chunk {first}..{last} was made of other words")
    return problems


# --- 3: the cursor never moves back --------------------------------------------------------------


def cursor_moved_back(before: Moment, now: Moment) -> list[str]:
    """On one line of a thread's history, what was observed stays observed, where that is known."""
    if not before.record["cursor"]:
        return []
    if not now.record["cursor"]:
        return ["the cursor is gone"]
    old, new = before.record["cursor"][-1], now.record["cursor"][-1]
    is_back = now.told.places[new] < now.told.places[old] and not now.told.is_adrift
    return [f"the cursor moved back from {old} to {new}"] if is_back else []


# --- 4: no cut splits a tool exchange, and no provider refuses a prompt ---------------------------


def refused(now: Moment) -> list[str]:
    """What a provider would refuse in the prompt."""
    return [
        f"{provider}: {problem}"
        for provider in get_args(Provider)
        for problem in check_message_sequence(now.prompt, provider)
    ]


def split_exchanges(now: Moment) -> list[str]:
    """Calls of tools that are covered without their results, or the other way round."""
    covered, callers = times_covered(now), dict[str, str]()
    for key in now.told.standing:
        message = now.told.messages[key]
        if isinstance(message, AIMessage):
            callers.update({str(call["id"]): key for call in message.tool_calls})
    return [
        f"{key} and its call are parted"
        for key in now.told.standing
        if isinstance(message := now.told.messages[key], ToolMessage)
        and bool(covered[callers[message.tool_call_id]]) != bool(covered[key])
    ]


# --- 6: the prefix of the prompt moves only with memory or the day --------------------------------


def prefix_moved(before: Moment, now: Moment) -> list[str]:
    """The system message up to the end of the log has to stay, byte for byte."""
    old, new = ([group["id"] for group in each.record["log"]] for each in (before, now))
    if _pins(before) != _pins(now):
        return []  # they stand before the log
    if before.today != now.today or before.hidden_groups or now.hidden_groups:
        return []
    if before.record.get("others") != now.record.get("others"):
        return []  # what is known from other threads stands before the log
    # The hints behind the log may move with what another branch observed before.
    read = _head if before.record["cursor"] == now.record["cursor"] else _prefix
    if old and old == new and read(before) != read(now):
        moved = f"{read(before)} to {read(now)}"
        return [f"the prefix moved though nothing was observed or reflected: {moved}"]
    was, is_now = _without_orders(_prefix(before)), _without_orders(_prefix(now))
    if old and new[: len(old)] == old and is_now[: len(was) - 1] != was[:-1]:
        return ["the log grew, and what stood before changed"]
    return []


def _head(now: Moment) -> list[str]:
    """The texts of the system message."""
    first = now.prompt[0]
    if not isinstance(first, SystemMessage) or isinstance(first.content, str):
        return []
    return [block["text"] if isinstance(block, dict) else block for block in first.content]


def _prefix(now: Moment) -> list[str]:
    texts = _head(now)
    ends = [at for at, text in enumerate(texts) if text.endswith("</observations>")]
    return texts[: ends[0] + 1] if ends else []


def _without_orders(texts: Sequence[str]) -> list[str]:
    """Texts of a system message without the standing instructions, which stand before the log."""
    return [_ORDERS.sub("", text) for text in texts]


def others_among_own(now: Moment) -> list[str]:
    """Messages in the prompt that were never said in this thread."""
    return [
        f"{message.id} was not said here"
        for message in now.prompt
        if message.type != "system"
        and message.id not in OWN_IDS
        and message.id not in now.told.messages
    ]


# --- What the Observer keeps beside the log, follows the conversation -----------------------------


def kept_of_others(now: Moment) -> list[str]:
    """Requests in the extracted value that were never made in this conversation."""
    told = {label_of(message).partition(".")[0] for message in now.told.messages.values()}
    told |= now.told.replaced  # what was kept of the former words may stay
    return [f"{label} was not said here, and is kept" for label in _kept(now) if label not in told]


def kept_no_more(before: Moment, now: Moment) -> list[str]:
    """What is gone from the extracted value, from which nobody took anything."""
    return [f"{label} is kept no more" for label in _kept(before) if label not in _kept(now)]


def _kept(now: Moment) -> list[str]:
    kept: Any = cast("Any", now.record).get("extracted", {}).get("seen", {})
    return [*(kept.get("value") or {}).get("read", ())]


# --- What the user ordered holds until somebody ends it -------------------------------------------


def orders_of_nobody(now: Moment) -> list[str]:
    """Standing instructions that no user gave, or that the Actor is not shown."""
    said = " ".join(message.text for message in now.told.messages.values())
    said += " ".join(message.text for told in now.told.versions.values() for message in told)
    prompt = " ".join(message.text for message in now.prompt)
    return [
        f"the order {words!r} {problem}"
        for words in _orders(now)
        for problem, is_so in (
            ("is nobody's", words not in said),
            ("is not shown", escape(words.replace("\n", "\n  ")) not in prompt),
        )
        if is_so
    ]


def orders_lost(before: Moment, now: Moment) -> list[str]:
    """Standing instructions that are gone though nobody took them out."""
    taken = str([act["before"] for act in now.record.get("steered", ())])
    gone = [words for words in _orders(before) if words not in _orders(now)]
    return [f"the order {words!r} is lost" for words in gone if words not in taken]


def _orders(now: Moment) -> list[str]:
    known = now.record.get("others", {}).get("known", [])
    ended = {key for group in [*known, *now.record["log"]] for key in group.get("ends", ())}
    groups = (group for group in now.record["log"] if is_standing(group))
    return [read_group(group) for group in groups if group["id"] not in ended]


# --- What the prompt says of observations that are left out is what was said of them --------------


def left_out_in_silence(now: Moment) -> list[str]:
    """A number of observations in the prompt that no event told."""
    counts = [int(count) for count in _HIDDEN.findall("\n".join(_head(now)))]
    is_told = counts == [now.hidden_groups] if now.hidden_groups else not counts
    return [] if is_told else [f"{counts} are left out, {now.hidden_groups} were said to be"]


_HIDDEN = re.compile(r"\[(\d+) of the oldest observations are left out here")

# --- What a person pinned stays in sight, word for word -------------------------------------------

_PINNED = re.compile(
    r'<pinned-message id="([^"]*)" role="\w+">\n(.*?)\n</pinned-message>', re.DOTALL
)


def pins_not_shown(now: Moment) -> list[str]:
    """Pinned messages that the Actor is shown otherwise or not at all, and others that it is."""
    shown = dict(_PINNED.findall("\n".join(_head(now))))
    pinned = now.told.pinned
    unseen = [key for key in pinned if key not in shown and not now.hidden_groups]
    problems = [f"{key} is pinned, and is not shown" for key in unseen]
    problems += [f"{key} is shown, and nobody pinned it" for key in shown.keys() - {*pinned}]
    for key in shown.keys() & {*pinned}:
        said = [now.told.messages[key], *now.told.versions.get(key, [])]
        if not any(is_same_or_cut(shown[key], each.text.strip()) for each in said):
            problems.append(f"{key} is pinned, and other words are shown: {shown[key]!r}")
    return problems


def is_same_or_cut(shown: str, text: str) -> bool:
    """Whether a text is shown whole, or, where it is long, its beginning and its end."""
    if shown == text:
        return True
    head, *rest = _PIN_CUT.split(shown)
    is_long = len(text.split()) > LEAST_PREVIEWED
    return is_long and len(rest) == 1 and text.startswith(head) and text.endswith(rest[0])


_PIN_CUT = re.compile(r"\s*\[?\.*\s*[\d,]+ characters omitted[^\n\]]*\]?\s*")


def _pins(now: Moment) -> Any:
    return now.record.get("pinned")


# --- 8: rendering and parsing are inverse on what was committed -----------------------------------


def not_rendered_back(now: Moment) -> list[str]:
    """Groups whose text would be read otherwise than it was written; records that are not JSON."""
    problems = []
    for group in [*now.record["log"], *groups_ahead(now.record)]:
        text = group["text"]
        if not text:
            continue
        read = parse_output(render_output(ParsedAnswer("ok", text)))
        if (read.status, read.observations) != ("ok", text):
            problems.append(f"{group['id']}: {text!r} is read as {read}")
    if json.loads(json.dumps(now.record)) != now.record:
        problems.append("the record is no JSON")
    return problems


# --- All of them ---------------------------------------------------------------------------------


def broken(
    moments: Sequence[Moment], before: Moment | None, archive: SQLAlchemyArchive | None
) -> list[str]:
    """What is wrong with the calls of a turn, and with their order."""
    problems = [
        problem
        for now in moments
        for problem in (
            *lost_or_doubled(now, archive),
            *out_of_order(now),
            *request_not_shown(now),
            *chunks_out_of_place(now),
            *chunks_of_other_words(now),
            *refused(now),
            *split_exchanges(now),
            *not_rendered_back(now),
            *others_among_own(now),
            *misplaced(now.prompt),
            *hints_shown(now),
            *kept_of_others(now),
            *orders_of_nobody(now),
            *pins_not_shown(now),
            *left_out_in_silence(now),
        )
    ]
    problems += [
        problem
        for earlier, now in zip([before, *moments], moments, strict=False)
        for problem in covered_unread(now, earlier)
    ]
    line = [before, *moments] if before is not None else [*moments]
    for earlier, later in pairwise(line):
        problems += [*cursor_moved_back(earlier, later), *prefix_moved(earlier, later)]
        problems += gaps_moved(earlier, later)
        problems += [*kept_no_more(earlier, later), *orders_lost(earlier, later)]
    return problems

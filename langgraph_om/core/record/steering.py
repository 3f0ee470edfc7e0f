"""What a person does to the log: remember, forget, correct, pin, unpin, undo.

An act takes its item out of its group, into a group of its own, and puts another one in its place,
or none. To undo it is to put the former one back. So a group that was read by a reflection that is
under way has another id afterwards, and that reflection does not bring back what a person changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar, cast

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import for_terminal
from langgraph_om.core.items import LogItem, find_spans, list_items, read_head, replace_spans
from langgraph_om.core.record.kept import list_pinned, name_pinned
from langgraph_om.core.wire import (
    Chunk,
    Event,
    Group,
    ItemPlace,
    MemoryRecord,
    Steered,
    SteeredItem,
    SteeringTold,
)
from langgraph_om.errors import ItemError

# Find the item that is meant, by its id or by words of it.


ID_FORM: Final = re.compile(r"#?(?P<id>[0-9a-f]{8}(?:-\d{1,4})?)")
"""How an item is named by its id, such as `3f9a2c1e`, or `#3f9a2c1e` as it is shown."""

_MAX_CANDIDATES: Final = 8
_MAX_SHOWN: Final = 90
"""Characters of an item in an error."""


def find_item(wanted: str, items: Sequence[LogItem]) -> LogItem:
    """Return the one item that is meant.

    Args:
        wanted: The id of an item, or words of it: all of its words before a part of them, in any
            case and with any spaces.

    Raises:
        ItemError: When it is none of them, or could be several; the message lists these.
    """
    form = ID_FORM.fullmatch(wanted.strip())
    if form is not None:
        for item in items:
            if item.id == form["id"]:
                return item
    words = _fold_words(wanted)
    if not words:
        msg = f"`item` is {wanted!r}; pass an observation's id, or words from it"
        raise ItemError(msg)
    said = _cut(wanted)  # a model is told what it asked for, and may have pasted very much
    texts = [(item, _fold_words(item.words), _fold_words(item.text)) for item in items]
    found = [item for item, own, whole in texts if words in (own, whole)]
    found = found or [item for item, _, whole in texts if words in whole]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{len(found)} items match {said!r}; pass the id of one:\n{_list(found)}"
        raise ItemError(msg)
    close = _find_close(words, items)
    hint = f"; closest are:\n{_list(close)}" if close else "; the log has no item like it"
    msg = f"no item matches {said!r}{hint}"
    raise ItemError(msg)


def _fold_words(text: str) -> str:
    return " ".join(text.casefold().split())


def _find_close(words: str, items: Sequence[LogItem]) -> list[LogItem]:
    """Return the items that share most words with what was asked for."""
    asked = set(words.split())
    scored = [(len(asked & set(_fold_words(item.words).split())), item) for item in items]
    ranked = sorted(scored, key=lambda pair: -pair[0])
    return [item for score, item in ranked[:_MAX_CANDIDATES] if score]


def _list(items: Sequence[LogItem]) -> str:
    lines = [f"  {item.id}  {_shorten(item)}" for item in items[:_MAX_CANDIDATES]]
    more = len(items) - len(lines)
    return "\n".join([*lines, *([f"  and {more} more"] if more else [])])


def _shorten(item: LogItem) -> str:
    day = f"{item.day.isoformat()}: " if item.day else ""
    return _cut(f"{day}{' '.join(for_terminal(item.words).split())}")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


# Do it.


ActT = TypeVar("ActT", bound=SteeredItem)

MAX_ACTS: Final = 100
"""How many acts a record keeps; older ones cannot be undone any more."""

NOTED: Final = "(noted by a person)"
CORRECTED: Final = "(corrected by a person)"
"""What the log says of where an item is from."""


@dataclass(frozen=True, slots=True)
class Steering:
    """What an act comes to."""

    log: list[Group]
    chunks: list[Chunk]
    acts: list[SteeredItem]
    replaced: str | None
    """The group of the log that held the item; `None` when none did."""
    groups: list[Group]
    """What takes its place, or what is new."""


def steer(
    log: Sequence[Group],
    chunks: Sequence[Chunk],
    acts: Sequence[SteeredItem],
    event: Steered,
    *,
    thread_id: str,
) -> Steering:
    """Return what becomes of a log by what a person does.

    Args:
        chunks: What was observed ahead of need.
        thread_id: Whose item a new one is.

    Raises:
        ItemError: When the item or the act that is meant cannot be told, or cannot be undone.
    """
    if event["action"] == "remember":
        return _remember(log, chunks, acts, event, thread_id)
    if event["action"] == "undo":
        return _undo(log, chunks, acts, event)
    item = find_item(event.get("item") or "", list_items(log, chunks))
    rest, single = take_out(item, event["id"])
    after = _change(single, item, event)
    groups = _order(item, rest, [after] if after is not None else [])
    noted = _note(acts, event, single, after)
    if after is None and rest is not None:
        noted[-1]["place"] = _describe_place(item.group, rest)
    if item.chunk is None:
        place = item.group["id"]
        return Steering(_splice(log, place, groups), list(chunks), noted, place, groups)
    kept = [_replace_in_chunk(chunk, item, rest) for chunk in chunks]
    new = [after] if after is not None else []
    return Steering([*log, *new], kept, noted, None, new)


def take_out(item: LogItem, act_id: str) -> tuple[Group | None, Group]:
    """Return what is left of an item's group, and the item alone in a group.

    Nothing is left of a group that covers no messages and holds no other item.
    """
    group, span = item.group, item.span
    if not group["ranges"] and len(find_spans(group["text"])) == 1:
        return None, group
    heading = f"{span.heading}\n" if span.heading else ""
    left, alone = replace_spans(group["text"], {span: ""}), f"{heading}{item.text}"
    rest: Group = {
        **group,
        "id": derive_id("group", act_id, group["id"]),
        "text": left,
        "tokens": _share_tokens(group, left),
    }
    if not left:
        rest.pop("sources", None)
    single: Group = {
        "id": derive_id("item", act_id, group["id"]),
        "kind": group["kind"],
        "ranges": [],
        "thread_id": group["thread_id"],
        "observed_at": group["observed_at"],
        "text": alone,
        "tokens": max(1, _share_tokens(group, alone)),
    }
    sources = [*group.get("sources", []), *group["ranges"]]
    if sources:
        single["sources"] = sources
    if "leftover" in group:
        single["leftover"] = group["leftover"]
    return rest, single


def _describe_place(group: Group, rest: Group) -> ItemPlace:
    """Return where the lines stood that are not in the rest of a group."""
    lines, left = group["text"].split("\n"), rest["text"].split("\n") if rest["text"] else []
    line = 0
    while line < len(left) and lines[line] == left[line]:
        line += 1
    taken = lines[line : line + len(lines) - len(left)]
    return {"group": group["id"], "rest": rest["id"], "line": line, "text": "\n".join(taken)}


def _put_back(rest: Group, place: ItemPlace, tokens: int) -> Group:
    """Return a group with the lines that were taken out of it."""
    lines = rest["text"].split("\n") if rest["text"] else []
    text = "\n".join([*lines[: place["line"]], place["text"], *lines[place["line"] :]])
    return {**rest, "id": place["group"], "text": text, "tokens": rest["tokens"] + tokens}


def _splice(log: Sequence[Group], key: str | None, groups: Sequence[Group]) -> list[Group]:
    """Return a log with groups in the place of one."""
    return [each for own in log for each in (groups if own["id"] == key else [own])]


def _find_same(log: Sequence[Group], single: Group) -> LogItem | None:
    """Return the item that stands alone in a group, where a log has it elsewhere."""
    own = {item.id for item in list_items([single])[:1]}
    return next((item for item in list_items(log) if item.id in own), None)


def _order(item: LogItem, rest: Group | None, single: Sequence[Group]) -> list[Group]:
    """Return what an item's group becomes; an item that was its first one stays before the rest."""
    left = [rest] if rest is not None else []
    is_first = find_spans(item.group["text"])[0] == item.span
    return [*single, *left] if is_first else [*left, *single]


def insert_by_day(log: Sequence[Group], group: Group) -> list[Group]:
    """Return a log with a group more, before those of its thread that are of later days."""
    day = _find_days(group)[:1]
    for at, other in enumerate(log):
        days = _find_days(other)[:1]
        if day and days > day and other["thread_id"] == group["thread_id"]:
            return [*log[:at], group, *log[at:]]
    return [*log, group]


def write_item(head: str, text: str, origin: str) -> str:
    """Write what a person said as one item; its further lines stand below the first.

    Args:
        head: Bullet, mark and time.
        text: The words; with a mark of their own, they replace the head.
        origin: What says that a person wrote it.
    """
    first, *rest = [line.strip() for line in text.strip().split("\n") if line.strip()]
    if read_head(first).mark:
        head = "" if first.startswith("*") else "* "
    head = head if first.startswith("*") else head or "* "
    return "\n".join([f"{head}{first} {origin}", *(f"  {line}" for line in rest)])


# --- Acts ----------------------------------------------------------------------------------------


def _remember(
    log: Sequence[Group],
    chunks: Sequence[Chunk],
    acts: Sequence[SteeredItem],
    event: Steered,
    thread_id: str,
) -> Steering:
    group: Group = {
        "id": derive_id("item", event["id"]),
        "kind": "observation",
        "ranges": [],
        "thread_id": thread_id,
        "observed_at": event["at"],
        "text": f"{event['day']}\n{event['text']}",
        "tokens": event["tokens"],
        "keep": {"by": "person", "how": "remembered", "since": event["at"]},
    }
    noted = _note(acts, event, None, group)
    return Steering(insert_by_day(log, group), list(chunks), noted, None, [group])


def _change(single: Group, item: LogItem, event: Steered) -> Group | None:
    """Return an item as it is after an act; `None` when it is forgotten."""
    action = event["action"]
    if action == "forget":
        return None
    after: Group = {**single, "id": derive_id("item", event["id"], single["id"])}
    if action == "unpin":
        if not _is_persons(single):
            msg = f"the item {item.id} is not pinned: {' '.join(item.words.split())!r}"
            raise ItemError(msg)
        after.pop("keep")
    elif action == "pin":
        if not _is_persons(single):
            after["keep"] = {"by": "person", "how": "pinned", "since": event["at"]}
    else:
        heading = f"{item.span.heading}\n" if item.span.heading else ""
        head = item.text[: item.head.end]
        if "keep" in single and not _is_persons(single):  # the user did not say so in these words
            head = head.replace(item.head.mark, "🔴", 1)
        after["text"] = f"{heading}{write_item(head, event['text'], CORRECTED)}"
        after["tokens"] = event["tokens"]
        after["observed_at"] = event["at"]
        after["keep"] = {"by": "person", "how": "corrected", "since": event["at"]}
    return after


def _is_persons(group: Group) -> bool:
    """Return whether a person keeps the item of a group."""
    return "keep" in group and group["keep"]["by"] == "person"


def _undo(
    log: Sequence[Group], chunks: Sequence[Chunk], acts: Sequence[SteeredItem], event: Steered
) -> Steering:
    """Put back what was there before an act, under the id that it had."""
    former = find_act(acts, event.get("item"))
    left, again = former["after"], former["before"]
    noted = _note(_mark_undone(acts, former), event, left, again)
    groups = [again] if again is not None else []
    ids = [group["id"] for group in log]
    place = former.get("place")
    if again is not None and place is not None and place["rest"] in ids:
        whole = _put_back(log[ids.index(place["rest"])], place, again["tokens"])
        changed = _splice(log, place["rest"], [whole])
        return Steering(changed, list(chunks), noted, place["rest"], [whole])
    if left is None:
        changed = list(log) if again is None else insert_by_day(log, again)
        return Steering(changed, list(chunks), noted, None, groups)
    if left["id"] not in ids:
        item = _find_same(log, left)  # put back where it stood, among others
        if item is None:
            msg = (
                f"the act {former['id']!r} cannot be undone: its result has changed since; name "
                f"the observation by its words instead"
            )
            raise ItemError(msg)
        rest, _ = take_out(item, event["id"])
        if again is None and rest is not None:
            noted[-1]["place"] = _describe_place(item.group, rest)
        left, groups = item.group, _order(item, rest, groups)
    changed = _splice(log, left["id"], groups)
    return Steering(changed, list(chunks), noted, left["id"], groups)


def _mark_undone(acts: Sequence[SteeredItem], former: SteeredItem) -> list[SteeredItem]:
    return [cast("SteeredItem", {**act, "undone": True}) if act is former else act for act in acts]


def find_act(acts: Sequence[ActT], wanted: str | None) -> ActT:
    """Return the act to undo: the one that is named, or the newest that still stands."""
    open_ones = [act for act in acts if not act["undone"]]
    if wanted is None:
        persons = [act for act in open_ones if act["action"] not in ("undo", "end")]
        if persons:
            return persons[-1]
        msg = "there is nothing to undo: nobody changed this log, or all changes were undone"
        raise ItemError(msg)
    named = [act for act in open_ones if act["id"] == wanted]
    if named:
        return named[0]
    known = "".join(f"\n  {act['id']}  {act['action']} at {act['at']}" for act in open_ones[-8:])
    msg = f"there is no act {wanted!r} to undo" + (f"; the newest are:{known}" if known else "")
    raise ItemError(msg)


# --- In a record ---------------------------------------------------------------------------------


def do_act(record: MemoryRecord, event: Steered) -> None:
    """Do to the log what a person wants."""
    acts = record.get("steered", [])
    if any(act["id"] == event["id"] for act in acts):
        return
    if _act_on_message(record, event):
        return
    thread_id = record["thread_id"]
    done = steer(record["log"], record["chunks"], acts, event, thread_id=thread_id)
    record["log"], record["chunks"], record["steered"] = done.log, done.chunks, done.acts


def _act_on_message(record: MemoryRecord, event: Steered) -> bool:
    """Pin or unpin a message, or take that back; return whether an act is one of these."""
    acts, pinned = record.get("steered", []), list_pinned(record)
    if event["action"] == "undo":
        former = find_act(acts, event.get("item"))
        before, after = former["after"], former["before"]
        acts = _mark_undone(acts, former)
        if not _is_message(before) and not _is_message(after):
            return False
    elif event["action"] in ("pin-message", "unpin-message"):
        key = event.get("item")
        before = next((each for each in pinned if name_pinned(each) == key), None)
        after = event.get("message")
        if before is None and after is None:
            msg = f"the message {key!r} is not pinned; these are: {[*map(name_pinned, pinned)]}"
            raise ItemError(msg)
    else:
        return False
    others = {name_pinned(group) for group in (before, after) if group is not None}
    kept = [each for each in pinned if name_pinned(each) not in others]
    record["pinned"] = [*kept, *filter(None, [after])]
    record["steered"] = _note(acts, event, before, after)
    return True


def _is_message(group: Group | None) -> bool:
    return group is not None and "keep" in group and group["keep"]["how"] == "message"


def end_item(record: MemoryRecord, group_id: str, cycle_id: str, at: str, by: str) -> None:
    """Take an instruction out of the log that the user ended.

    Args:
        by: What the user said.
    """
    ended = next((group for group in record["log"] if group["id"] == group_id), None)
    known = record.get("others", {}).get("known", [])
    elsewhere = next((group for group in known if group["id"] == group_id), None)
    if ended is None and elsewhere is None:
        return
    after = None if ended is not None else build_end(cycle_id, record["thread_id"], group_id, at)
    event: Steered = {
        "type": "steered",
        "id": derive_id("end", cycle_id, group_id),
        "action": "end",
        "at": at,
    }
    acts = _note(record.get("steered", []), event, ended, after)
    acts[-1] |= {"is_new": False, "by": by}  # the stream is told by the cycle
    log = [group for group in record["log"] if group["id"] != group_id]
    record["log"], record["steered"] = [*log, *filter(None, [after])], acts


def build_end(cycle_id: str, thread_id: str, group_id: str, at: str) -> Group:
    """Return the group of a thread's log that ends an instruction of another thread."""
    return {
        "id": derive_id("end", cycle_id, group_id),
        "kind": "observation",
        "ranges": [],
        "thread_id": thread_id,
        "observed_at": at,
        "text": "",
        "tokens": 0,
        "keep": {"by": "user", "how": "end", "since": at},
        "ends": [group_id],
    }


def note_acts_told(record: MemoryRecord) -> None:
    """Note that the stream was told of all acts."""
    if "steered" in record:
        record["steered"] = [
            {**act, "is_new": False} if act["is_new"] else act for act in record["steered"]
        ]


# --- What several acts do ------------------------------------------------------------------------


def _note(
    acts: Sequence[SteeredItem], event: Steered, before: Group | None, after: Group | None
) -> list[SteeredItem]:
    """Return the acts with one more; of very many, the oldest are let go."""
    act: SteeredItem = {
        "id": event["id"],
        "action": event["action"],
        "at": event["at"],
        "before": before,
        "after": after,
        "undone": False,
        "is_new": True,
    }
    return [*acts, act][-MAX_ACTS:]


def _replace_in_chunk(chunk: Chunk, item: LogItem, rest: Group | None) -> Chunk:
    if chunk["id"] != item.chunk or rest is None:
        return chunk
    groups = [rest if group["id"] == item.group["id"] else group for group in chunk["groups"]]
    tokens = sum(group["tokens"] for group in groups)
    return cast("Chunk", {**chunk, "groups": groups, "tokens": tokens})


def _share_tokens(group: Group, part: str) -> int:
    """Estimate the tokens of a part of a group by its length; nothing here has a counter."""
    whole = len(group["text"])
    return min(group["tokens"], -(-group["tokens"] * len(part) // whole)) if whole else 0


def _find_days(group: Group) -> list[date]:
    lines = group["text"].split("\n")
    return [day for line in lines if (day := observation_date(line)) is not None]


def tell_acts(record: MemoryRecord) -> list[Event]:
    """Tell the stream of what a person did to the log since the last step."""
    told: list[SteeringTold] = [
        {
            "type": "steering",
            "id": act["id"],
            "action": act["action"],
            "at": act["at"],
            "before": act["before"] and act["before"]["text"],
            "after": act["after"] and act["after"]["text"],
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
        for act in record.get("steered", [])
        if act["is_new"]
    ]
    return [*told]

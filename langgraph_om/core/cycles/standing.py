"""Keep the messages of the user that an Observer marked as standing instructions.

Each is a group of the log of its own. So it follows forks and restarts, and the user's other
threads are shown it, as every group is. A person can forget it, and no reflection is asked about
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import rewrite_by_hook
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.items import replace_spans
from langgraph_om.core.observe.standing import (
    Mark,
    UserMessage,
    choose_words,
    drop_marks,
    find_room,
    read_marks,
)
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.core.record.standing import (
    MARK,
    STANDING,
    read_group,
    select_standing,
    write_words,
)
from langgraph_om.core.wire import Found, Group, StandingEntry


def keep_marked(
    info: CycleInfo,
    groups: Sequence[Group],
    known: Sequence[Group],
    cited: Mapping[int, UserMessage],
) -> EffectFlow[tuple[list[Group], Found]]:
    """Take the standing instructions out of what was observed.

    Args:
        known: The groups that the Observer was given as known.
        cited: The messages that it was shown with numbers.
    """
    if not any(MARK in group["text"] for group in groups):
        return [*groups], {}
    count = info.settings.counter.count_text
    held = select_standing(known)
    in_force = {read_group(group): group for group in held}
    room = find_room(info.settings) - sum(group["tokens"] for group in held)
    kept: list[Group] = []
    entries: list[StandingEntry] = []
    for group in groups:
        own: list[Group] = []
        cuts = {}
        for mark in read_marks(group["text"], cited, held):
            cuts[mark.span] = mark.fact
            words = yield from _read_cited(info, mark)
            if words is None or mark.cited is None:
                continue
            if mark.ended is not None:
                ended = read_group(mark.ended)
                if in_force.pop(ended, None) is not None:
                    entry: StandingEntry = {"change": "ended", "words": ended}
                    entries.append({**entry, "group": mark.ended["id"], "by": words})
                    cuts[mark.span] = ""
                continue
            if words in in_force:
                cuts[mark.span] = ""
                continue
            one = _build_group(info, group, mark.cited, words)
            if one["tokens"] > room:
                entries.append({"change": "no-room", "words": words})
                continue
            room -= one["tokens"]
            cuts[mark.span] = ""
            own.append(one)
            in_force[words] = one
            entries.append({"change": "began", "words": words, "group": one["id"]})
        text = drop_marks(replace_spans(group["text"], cuts))
        rest: Group = {**group, "text": text, "tokens": count(text)}
        kept += [rest if text != group["text"] else group, *own]
    return kept, {STANDING: entries} if entries else {}


def _read_cited(info: CycleInfo, mark: Mark) -> EffectFlow[str | None]:
    """Return the words that a mark cites; `None` where a hook would change them."""
    words = choose_words(mark, info.settings.counter.count_text)
    if not words:
        return None
    rewritten = yield from rewrite_by_hook(info, "after_observation", {STANDING: words})
    return words if rewritten[STANDING] == words else None


def _build_group(info: CycleInfo, group: Group, message: UserMessage, words: str) -> Group:
    day = format_day(message.time) if message.time is not None else ""
    text = write_words(day, message.time, words)
    return {
        "id": derive_id(STANDING, group["id"], words),
        "kind": "observation",
        "ranges": [],
        "thread_id": group["thread_id"],
        "observed_at": group["observed_at"],
        "text": text,
        "tokens": info.settings.counter.count_text(text),
        "sources": [[message.id, message.id]] if message.id else group["ranges"],
        "keep": {"by": "user", "how": STANDING, "since": group["observed_at"]},
    }

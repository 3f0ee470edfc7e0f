"""The four kinds of files, read into one shape; what is wrong with a file is said by place.

- LongMemEval: a list of `{"question_id", "question_type", "question", "answer", "question_date",
  "haystack_session_ids", "haystack_dates", "haystack_sessions": [[{"role", "content"}]]}`. Each
  question has a history of its own. Ids that end in `_abs` mark questions without an answer.
- LoCoMo: a list of `{"sample_id", "conversation": {"speaker_a", "speaker_b", "session_1",
  "session_1_date_time", ...}, "qa": [{"question", "answer" or "adversarial_answer", "category"}]}`.
- LoCoMo, one conversation as messages: `{"id", "messages": [{"role", "name", "content",
  "created_at", "session"}], "questions": [{"question", "answer", "category"}]}`.
- BEAM: `chats/SIZE/NUMBER/chat.json`, a list of `{"batch_number", "turns": [[{"role", "content",
  "time_anchor"}]]}`; its questions are in `probing_questions/probing_questions.json` beside it, by
  ability: `{"event_ordering": [{"question", "rubric": [...]}]}`. A `chat.json` of ten million
  tokens has another form, and is not read.

What would give an answer away is left behind: `has_answer`, `answer_session_ids`, the ids of
sessions and questions. A message is known by the number of its session and its place in it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

Benchmark = Literal["LongMemEval", "LoCoMo", "BEAM", "probes"]

QUESTION_TYPES = (
    *("single-session-user", "single-session-assistant", "single-session-preference"),
    *("multi-session", "temporal-reasoning", "knowledge-update"),
)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ABILITIES = (
    *("abstention", "contradiction_resolution", "event_ordering", "information_extraction"),
    *("instruction_following", "knowledge_update", "multi_session_reasoning"),
    *("preference_following", "summarization", "temporal_reasoning"),
)
BEAM_QUESTIONS = Path("probing_questions") / "probing_questions.json"
BEAM_MARK = "->->"
"""What follows it in a message says which part of BEAM's plan it is."""
PROBES = ("error", "files", "decision", "next", "rules")
ORDER: Mapping[Benchmark, tuple[str, ...]] = {
    "LongMemEval": QUESTION_TYPES,
    "LoCoMo": tuple(CATEGORIES.values()),
    "BEAM": ABILITIES,
    "probes": PROBES,
}
ROLES = {"user": HumanMessage, "assistant": AIMessage}
# LongMemEval's, LoCoMo's and BEAM's; else ISO
DATES = ("%Y/%m/%d %H:%M", "%I:%M %p on %d %B, %Y", "%B-%d-%Y")
SHAPES = (
    "a LongMemEval list (`haystack_sessions`), a LoCoMo list (`conversation`, `qa`), a chat of "
    "BEAM (`turns`), or a conversation as messages (`messages`, `questions`)"
)


class FormatError(ValueError):
    """A file is not understood."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said."""

    role: str
    text: str
    at: datetime
    tool: str = ""
    """The tool that the assistant calls, with the text; or whose result this is."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """What was said at one meeting."""

    number: int
    at: datetime
    turns: tuple[Turn, ...]
    opens: bool = True
    """Whether its first message says which day it is."""

    def messages(self) -> list[BaseMessage]:
        """Return the turns as messages."""
        opening = f"[A session begins: {self.at:%A, %d %B %Y, %H:%M}]\n\n" if self.opens else ""
        return [
            _message(turn, opening + turn.text if place == 1 else turn.text, self.number, place)
            for place, turn in enumerate(self.turns, start=1)
        ]


def _message(turn: Turn, text: str, number: int, place: int) -> BaseMessage:
    about: dict[str, Any] = {
        "id": f"S{number}:{place}",
        "additional_kwargs": {"created_at": turn.at.isoformat()},
    }
    if turn.role == "tool":
        call = f"call-{number}-{place - 1}"
        status = "error" if turn.failed else "success"
        return ToolMessage(text, name=turn.tool, tool_call_id=call, status=status, **about)
    if turn.tool:
        call = {"name": turn.tool, "args": {"input": text}, "id": f"call-{number}-{place}"}
        return AIMessage("", tool_calls=[call], **about)
    return ROLES[turn.role](text, **about)


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a conversation, and what is known of its answer."""

    id: str
    text: str
    answer: str
    """The right answer; a rubric or an explanation in some of LongMemEval's; BEAM's rubric, an item
    a line."""
    category: str
    asked_at: datetime
    has_answer: bool = True
    lure: str = ""
    """LoCoMo's adversarial questions: the answer that is wrong."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Of probes: words that an answer has to have, those of one key close together."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A history, and the questions that are asked when it is over."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    speakers: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """What is asked."""

    benchmark: Benchmark
    conversations: tuple[Conversation, ...]

    @property
    def categories(self) -> list[str]:
        """Return the categories that have questions, in the benchmark's order."""
        found = {question.category for each in self.conversations for question in each.questions}
        return [category for category in ORDER[self.benchmark] if category in found]


# --- Reading -------------------------------------------------------------------------------------


def read_files(paths: Sequence[Path]) -> Dataset:
    """Read files of one benchmark.

    Raises:
        FormatError: When one can not be read; the message names the file and the place.
    """
    conversations: dict[str, Conversation] = {}
    benchmarks: set[Benchmark] = set()
    for path in paths:
        for benchmark, conversation in _read_file(path):
            benchmarks.add(benchmark)
            if conversations.setdefault(conversation.id, conversation) is not conversation:
                msg = f"{path}: the id {conversation.id!r} is there twice; ids have to be unique"
                raise FormatError(msg)
    if len(benchmarks) != 1:
        found = " and ".join(sorted(benchmarks)) or "nothing"
        msg = f"{', '.join(map(str, paths))}: {found} to evaluate; name files of one benchmark"
        raise FormatError(msg)
    return Dataset(benchmarks.pop(), tuple(conversations.values()))


def _read_file(path: Path) -> Iterator[tuple[Benchmark, Conversation]]:
    data = _load(path)
    rows = data if isinstance(data, list) else [data]
    if rows and isinstance(rows[0], dict) and "turns" in rows[0]:
        yield "BEAM", _beam(rows, path)
        return
    for number, row in enumerate(rows, start=1):
        where = f"{path}, entry {number}"
        keys = set(row) if isinstance(row, dict) else set()
        if "haystack_sessions" in keys:
            yield "LongMemEval", _longmemeval(row, where)
        elif "conversation" in keys or "qa" in keys:
            yield "LoCoMo", _locomo(row, where)
        elif {"messages", "questions"} <= keys:
            yield "LoCoMo", _as_messages(row, where)
        else:
            msg = f"{where} is none of the formats read here: {SHAPES}"
            raise FormatError(msg)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path} can not be read: {error}"
        raise FormatError(msg) from error


def _longmemeval(row: dict[str, Any], where: str) -> Conversation:
    key = str(_need(row, "question_id", str, where))
    where = f"{where} ({key!r})"
    category = _need(row, "question_type", str, where)
    if category not in QUESTION_TYPES:
        msg = f"{where}: `question_type` is {category!r}; write one of {', '.join(QUESTION_TYPES)}"
        raise FormatError(msg)
    rows, dates = (
        _need(row, name, list, where) for name in ("haystack_sessions", "haystack_dates")
    )
    if len(rows) != len(dates):
        msg = (
            f"{where}: there are {len(rows)} `haystack_sessions` and {len(dates)} "
            f"`haystack_dates`; each session needs its date"
        )
        raise FormatError(msg)
    held = []
    for number, (said, date) in enumerate(zip(rows, dates, strict=True), start=1):
        place = f"{where}, session {number}"
        at = _date(date, "haystack_dates", place)
        turns = [_turn(turn, at, f"{place}, turn {n}") for n, turn in enumerate(said, start=1)]
        held.append((at, turns))
    question = Question(
        id=key,
        text=_need(row, "question", str, where),
        answer=str(_need(row, "answer", (str, int, float), where)),
        category=category,
        asked_at=_date(_need(row, "question_date", str, where), "question_date", where),
        has_answer="_abs" not in key,
    )
    # The oracle file is not in the order of time.
    return Conversation(key, _sessions(sorted(held, key=lambda each: each[0]), where), (question,))


def _locomo(row: dict[str, Any], where: str) -> Conversation:
    key = str(_need(row, "sample_id", (str, int), where))
    where = f"{where} ({key!r})"
    told = _need(row, "conversation", dict, where)
    speakers = tuple(_need(told, name, str, where) for name in ("speaker_a", "speaker_b"))
    numbers = sorted(int(name[8:]) for name in told if re.fullmatch(r"session_\d+", name))
    held = []
    for number in numbers:
        place = f"{where}, session_{number}"
        date = f"session_{number}_date_time"
        at = _date(_need(told, date, str, place), date, place)
        turns = []
        for n, turn in enumerate(_need(told, f"session_{number}", list, place), start=1):
            at_turn = f"{place}, turn {n}"
            speaker = _need(turn, "speaker", str, at_turn)
            if speaker not in speakers:
                msg = f"{at_turn}: `speaker` is {speaker!r}; the speakers are {speakers}"
                raise FormatError(msg)
            text = _need(turn, "text", str, at_turn)
            if turn.get("blip_caption"):
                text = f"{text} [shares a picture: {turn['blip_caption']}]"
            role = "user" if speaker == speakers[0] else "assistant"
            turns.append(Turn(role, f"{speaker}: {text.strip()}", at))
        held.append((at, turns))
    sessions = _sessions(held, where)
    questions = _locomo_questions(_need(row, "qa", list, where), key, sessions, where)
    return Conversation(key, sessions, questions, (speakers[0], speakers[1]))


def _beam(batches: list[Any], path: Path) -> Conversation:
    """Read a chat, each group of turns as a session: what is between two topics of the user."""
    at: datetime | None = None
    sessions: list[Session] = []
    for number, batch in enumerate(batches, start=1):
        place = f"{path}, batch {number}"
        for n, group in enumerate(_need(batch, "turns", list, place), start=1):
            where = f"{place}, turn {n}"
            said: list[Turn] = []
            is_dated = False
            for row in group:
                if row.get("time_anchor"):
                    at, is_dated = _date(row["time_anchor"], "time_anchor", where), True
                if at is None:
                    msg = f"{where} has no `time_anchor`; the first message of a chat needs one"
                    raise FormatError(msg)
                turn = _turn(row, at, where)
                said.append(replace(turn, text=turn.text.partition(BEAM_MARK)[0].strip()))
            if kept := tuple(turn for turn in said if turn.text):
                sessions.append(Session(len(sessions) + 1, kept[0].at, kept, opens=is_dated))
    if not sessions:
        msg = f"{path} holds no turn with anything said in it"
        raise FormatError(msg)
    key = "/".join(path.absolute().parts[-3:-1])
    asked = _beam_questions(path.parent / BEAM_QUESTIONS, key, sessions[-1].at)
    return Conversation(key, tuple(sessions), asked)


def _beam_questions(path: Path, key: str, at: datetime) -> tuple[Question, ...]:
    questions: list[Question] = []
    for ability, rows in _load(path).items():
        if ability not in ABILITIES:
            msg = f"{path}: there is no ability {ability!r}; write one of {', '.join(ABILITIES)}"
            raise FormatError(msg)
        for number, row in enumerate(rows, start=1):
            where = f"{path}, {ability} {number}"
            rubric = _need(row, "rubric", list, where)
            if not rubric:
                msg = f"{where}: `rubric` is empty; write what a response has to do"
                raise FormatError(msg)
            questions.append(
                Question(
                    id=f"{key}/{ability}/{number}",
                    text=_need(row, "question", str, where),
                    answer="\n".join(" ".join(str(item).split()) for item in rubric),
                    category=ability,
                    asked_at=at,
                    has_answer=ability != "abstention",
                )
            )
    return tuple(questions)


def _as_messages(row: dict[str, Any], where: str) -> Conversation:
    key = str(_need(row, "id", (str, int), where))
    where = f"{where} ({key!r})"
    said: list[tuple[int, Turn]] = []
    names: dict[str, str] = {}
    for number, message in enumerate(_need(row, "messages", list, where), start=1):
        place = f"{where}, message {number}"
        at = _date(_need(message, "created_at", str, place), "created_at", place)
        turn = _turn(message, at, place)
        name = names.setdefault(turn.role, _need(message, "name", str, place))
        turn = replace(turn, text=f"{name}: {turn.text}")
        said.append((_need(message, "session", int, place), turn))
    held = []
    for _, each in groupby(said, key=lambda entry: entry[0]):
        turns = [turn for _, turn in each]
        held.append((turns[0].at, turns))
    sessions = _sessions(held, where)
    questions = _locomo_questions(_need(row, "questions", list, where), key, sessions, where)
    speakers = (names.get("user", "the user"), names.get("assistant", "the assistant"))
    return Conversation(key, sessions, questions, speakers)


def _locomo_questions(
    rows: list[Any], key: str, sessions: Sequence[Session], where: str
) -> tuple[Question, ...]:
    questions = []
    for number, row in enumerate(rows, start=1):
        place = f"{where}, question {number}"
        category = _need(row, "category", int, place)
        if category not in CATEGORIES:
            msg = f"{place}: `category` is {category!r}; write a number from 1 to 5"
            raise FormatError(msg)
        is_answered = CATEGORIES[category] != "adversarial"
        if is_answered:
            answer, lure = str(_need(row, "answer", (str, int, float), place)), ""
        else:
            answer, lure = "", str(row.get("adversarial_answer") or row.get("answer") or "")
        questions.append(
            Question(
                id=f"{key}/{number}",
                text=_need(row, "question", str, place),
                answer=answer,
                category=CATEGORIES[category],
                asked_at=sessions[-1].turns[-1].at,
                has_answer=is_answered,
                lure=lure,
            )
        )
    return tuple(questions)


def _sessions(held: Sequence[tuple[datetime, Sequence[Turn]]], where: str) -> tuple[Session, ...]:
    """Number the sessions; what is empty was never said."""
    said = [(at, tuple(turn for turn in turns if turn.text.strip())) for at, turns in held]
    kept = [(at, turns) for at, turns in said if turns]
    if not kept:
        msg = f"{where} holds no session with anything said in it"
        raise FormatError(msg)
    return tuple(Session(n, at, turns) for n, (at, turns) in enumerate(kept, start=1))


def _turn(row: Any, at: datetime, where: str) -> Turn:
    role = _need(row, "role", str, where)
    if role not in ROLES:
        msg = f"{where}: `role` is {role!r}; write 'user' or 'assistant'"
        raise FormatError(msg)
    return Turn(role, _need(row, "content", str, where), at)


def _need(row: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    if not isinstance(row, dict):
        msg = f"{where} is {_short(row)}; write an object"
        raise FormatError(msg)
    if key not in row:
        msg = f"{where} has no `{key}`; its keys are {', '.join(row) or 'none'}"
        raise FormatError(msg)
    if not isinstance(row[key], kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(each.__name__ for each in kinds)
        msg = f"{where}: `{key}` is {_short(row[key])}; write a value of type {wanted}"
        raise FormatError(msg)
    return row[key]


def _date(text: Any, key: str, where: str) -> datetime:
    """Read a time of any of the formats; all are taken for UTC."""
    bare = " ".join(re.sub(r"\([A-Za-z]+\)", " ", str(text)).split())
    for form in DATES:
        try:
            return datetime.strptime(bare, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    try:
        found = datetime.fromisoformat(bare)
    except ValueError:
        msg = (
            f"{where}: `{key}` is {_short(text)}; write '2023/05/20 (Sat) 02:21', "
            f"'1:56 pm on 8 May, 2023' or an ISO time"
        )
        raise FormatError(msg) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 one line of a terminal


# --- Choosing ------------------------------------------------------------------------------------


def choose(
    dataset: Dataset,
    *,
    categories: Collection[str] = (),
    conversations: int | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Keep some of the questions, and the conversations that they need.

    Args:
        dataset: Everything.
        categories: Names to keep; none: all.
        conversations: Keep the first so many.
        limit: Keep so many questions, drawn with the seed, in the order of the file.
        seed: What the draw begins with.

    Raises:
        FormatError: When nothing is left, or a category is unknown.
    """
    known = ORDER[dataset.benchmark]
    for category in categories:
        if category not in known:
            msg = f"there is no category {category!r}; {dataset.benchmark} has {', '.join(known)}"
            raise FormatError(msg)
    kept = dataset.conversations[:conversations]
    asked = [
        question.id
        for each in kept
        for question in each.questions
        if not categories or question.category in categories
    ]
    if limit is not None and limit < len(asked):
        asked = random.Random(seed).sample(asked, limit)  # noqa: S311 a draw, no secret
    drawn = set(asked)
    narrowed = [
        replace(each, questions=tuple(q for q in each.questions if q.id in drawn)) for each in kept
    ]
    left = tuple(each for each in narrowed if each.questions)
    if not left:
        msg = "no question is left to ask; ask for more categories, conversations or questions"
        raise FormatError(msg)
    return replace(dataset, conversations=left)

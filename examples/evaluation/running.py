"""The run: conversations in parallel, each remembered session by session, then asked about.

Whatever was paid for is written down at once, a line of JSON each, under a digest of everything it
depends on. A run that is started again reads these lines and goes on where the last one stopped;
other settings, models or files have other digests. What failed is not kept: it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.files import UnansweredError
from evaluation.formats import Conversation, Dataset, Question, Session
from evaluation.judging import Judge
from evaluation.memories import Players, Remembered, Setup, remember
from evaluation.reading import Read, add_read
from evaluation.rules import Asked, ask, own_measure, system_prompt
from evaluation.spending import COUNTER, Meter, Spent, add
from langgraph_om import __version__

Row = dict[str, Any]
DIGEST = 16
NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question."""

    question: Question
    scores: dict[str, float] = field(default_factory=dict)
    """By measure; a question that failed has none."""
    answer: str = ""
    recalls: int = 0
    prompt: int = 0
    """Tokens of the first prompt of the Actor, before anything was recalled."""
    stage: str = ""
    """Where it failed: `memory`, `answer` or `judge`; or `waiting`, for somebody's answer."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Paid:
    """What a run took, with what former runs wrote down for it."""

    remembering: Spent
    asking: Spent
    """Answers and verdicts, failed ones too."""
    failures: int
    """Observations and reflections of which nothing came."""
    held: tuple[int, ...]
    """The tokens that are remembered at the end of each conversation."""
    read: Read = field(default_factory=dict)
    """What the models of memory were shown, by kind."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step takes."""

    meter: Meter
    started: float

    def row(self) -> Row:
        """Return it as it is written down."""
        seconds = round(time.monotonic() - self.started, 3)
        return {"spent": self.meter.spent, "read": self.meter.read, "seconds": seconds}


# --- What is written down ------------------------------------------------------------------------


class Journal:
    """Rows in a file, one JSON object a line; a line that was cut off is left out."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._rows: dict[tuple[str, str, str], list[Row]] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            self._remember(row)
        if text and not text.endswith("\n"):
            self._append("\n")

    def rows(self, kind: str, digest: str, name: str) -> list[Row]:
        """Return what was written of a thing: `kind` is session, answer, verdict, or failure."""
        with self._lock:
            return list(self._rows.get((kind, digest, name), []))

    def write(self, kind: str, digest: str, name: str, **values: Any) -> Row:
        """Write a row, and return it."""
        row = {"kind": kind, "digest": digest, "name": name, **values}
        with self._lock:
            self._append(json.dumps(row, ensure_ascii=False) + "\n")
            self._remember(row)
        return row

    def _remember(self, row: Row) -> None:
        self._rows.setdefault((row["kind"], row["digest"], row["name"]), []).append(row)

    def _append(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)


def digest_of(*values: Any) -> str:
    """Return a short name of some values, the same in each process."""
    text = json.dumps(
        values,
        sort_keys=True,
        default=lambda value: sorted(value) if isinstance(value, frozenset) else str(value),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


# --- The run -------------------------------------------------------------------------------------


@dataclass
class Run:
    """One evaluation: what is asked, of which memory, and who judges."""

    dataset: Dataset
    setup: Setup
    judge: Judge | None
    """LoCoMo and probes can do without one."""
    folder: Path
    seed: int = 0
    workers: int = 1
    players: Players = field(default_factory=Players)
    collects: bool = False
    """Whether all that can be asked now is asked, before it stops at what nobody has answered."""
    at_once: bool = False
    """Whether all questions about a conversation stand in one prompt."""
    tell: Callable[[str], None] = lambda _: None
    """Told of each step: `session` or `question`."""

    def __post_init__(self) -> None:
        self.journal = Journal(self.folder / "results.jsonl")
        self._stop = threading.Event()

    @property
    def measures(self) -> list[str]:
        """Return the names of the scores that each answer gets."""
        judged = [f"judge {self.judge.name}"] if self.judge else []
        own = own_measure(self.dataset.benchmark)
        return [*judged, own[0]] if own else judged

    def outcomes(self) -> list[Outcome]:
        """Go through all conversations, and return what came of their questions, in order."""
        with ThreadPoolExecutor(self.workers) as pool:
            jobs = {pool.submit(self._converse, each): each for each in self.dataset.conversations}
            try:
                done = {jobs[job].id: job.result() for job in as_completed(jobs)}
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        return [outcome for each in self.dataset.conversations for outcome in done[each.id]]

    def paid(self) -> Paid:
        """Add up what was written down of these conversations and questions, by this run or not."""
        sessions, asked, held = [], [], []
        for conversation in self.dataset.conversations:
            key = self._memory_key(conversation)
            taken_in = self.journal.rows("session", key, conversation.id)
            sessions += taken_in
            held += [row["held"] for row in taken_in if "held" in row][-1:]
            for question in conversation.questions:
                asked += self._answers(key, question) + self._verdicts(key, question)
                for digest in (self._answer_key(key, question), self._verdict_key(key, question)):
                    asked += self.journal.rows("failure", digest, question.id)
        return Paid(
            remembering=add(row["spent"] for row in sessions),
            asking=add(row["spent"] for row in asked),
            failures=sum(row.get("failures", 0) for row in [*sessions, *asked]),
            held=tuple(held),
            read=add_read(row.get("read", {}) for row in [*sessions, *asked]),
        )

    def _converse(self, conversation: Conversation) -> list[Outcome]:
        """Return what came of a conversation's questions, asking those that have no answer yet."""
        key = self._memory_key(conversation)
        is_answered = all(self._answers(key, question) for question in conversation.questions)
        if is_answered:
            for _ in conversation.sessions:
                self.tell("session")
            return [self._ask(None, key, question) for question in conversation.questions]
        outcomes: list[Outcome] = []
        try:
            with self._remembered(conversation, key) as memory:
                if self.at_once:
                    self._answer_all(memory, key, conversation.questions)
                for question in conversation.questions:
                    outcomes.append(self._ask(memory, key, question))  # noqa: PERF401 one may fail
        except UnansweredError:
            if not self.collects:
                raise
            self._fill(outcomes, conversation, "waiting")
        except Exception as error:  # noqa: BLE001 a model or a database may fail in any way
            self._fill(outcomes, conversation, "memory", _said(error))
        return outcomes

    def _fill(
        self, outcomes: list[Outcome], conversation: Conversation, stage: str, error: str = ""
    ) -> None:
        """Add what came of the questions that could not be asked."""
        for question in conversation.questions[len(outcomes) :]:
            outcomes.append(Outcome(question, stage=stage, error=error))
            self.tell("question")

    @contextmanager
    def _remembered(self, conversation: Conversation, key: str) -> Iterator[Remembered]:
        """Open a conversation, and remember what is not yet remembered of it."""
        name = re.sub(r"[^\w-]+", "-", conversation.id)[:NAME_LENGTH]
        prompt = system_prompt(self.dataset.benchmark, conversation)
        place = self.folder / f"{name}-{key}"
        with remember(self.setup, self.players, conversation, prompt, place) as memory:
            done = memory.sessions
            for session in conversation.sessions:
                self._go_on()
                if session.number > done:
                    self._take_in(memory, key, conversation, session)
                self.tell("session")
            yield memory

    def _take_in(
        self, memory: Remembered, key: str, conversation: Conversation, session: Session
    ) -> None:
        cost = Cost(Meter("summarizer"), time.monotonic())

        def note(failures: int, held: int | None) -> None:
            told = {"session": session.number, "failures": failures, **cost.row()}
            if held is not None:
                told["held"] = held
            self.journal.write("session", key, conversation.id, **told)

        memory.take_in(session, cost.meter, note)

    def _ask(self, memory: Remembered | None, key: str, question: Question) -> Outcome:
        """Return what came of a question; what fails is an outcome too."""
        self._go_on()
        known = Outcome(question)
        try:
            answers = self._answers(key, question)
            if memory is not None and not answers:
                answers = [self._answer(memory, key, question)]
            answer, recalls = answers[-1]["answer"], answers[-1]["recalls"]
            prompt = answers[-1].get("prompt", 0)
            known = Outcome(question, self._own(question, answer), answer, recalls, prompt)
            return replace(known, scores=self._scores(key, question, answer))
        except UnansweredError:
            if not self.collects:
                raise
            return replace(known, stage="waiting")
        except Exception as error:  # noqa: BLE001 a model may fail in any way
            return replace(known, stage="judge" if known.answer else "answer", error=_said(error))
        finally:
            self.tell("question")

    def _answer(self, memory: Remembered, key: str, question: Question) -> Row:
        asked = ask(self.dataset.benchmark, question, self.seed)
        place = (self._answer_key(key, question), question.id)
        with self._metered("actor", *place) as cost:
            reply = memory.ask(asked.text, question.asked_at, cost.meter)
        told = {"recalls": reply.recalls, "failures": reply.failures, **cost.row()}
        told["prompt"] = next(iter(cost.meter.prompts), 0)
        return self.journal.write("answer", *place, answer=asked.read(reply.text), **told)

    def _answer_all(self, memory: Remembered, key: str, questions: Sequence[Question]) -> None:
        """Ask all questions in one prompt, and write each answer down for itself."""
        asked = [ask(self.dataset.benchmark, each, self.seed) for each in questions]
        text = write_numbered(asked)
        first = (self._answer_key(key, questions[0]), questions[0].id)
        with self._metered("actor", *first) as cost:
            reply = memory.ask(text, questions[-1].asked_at, cost.meter, read_only=True)
        answers = read_numbered(reply.text, len(questions))
        told = {"recalls": reply.recalls, "failures": reply.failures, **cost.row()}
        told["prompt"] = max(0, next(iter(cost.meter.prompts), 0) - COUNTER.count_text(text))
        nothing = {**told, "recalls": 0, "failures": 0, "spent": {}, "read": {}, "seconds": 0}
        for question, how, answer in zip(questions, asked, answers, strict=True):
            place = (self._answer_key(key, question), question.id)
            self.journal.write("answer", *place, answer=how.read(answer), **told)
            told = nothing

    def _own(self, question: Question, answer: str) -> dict[str, float]:
        """Return the scores that need no judge."""
        own = own_measure(self.dataset.benchmark)
        return {own[0]: own[1](question, answer)} if own else {}

    def _scores(self, key: str, question: Question, answer: str) -> dict[str, float]:
        """Score an answer; LoCoMo's adversarial questions need no judge."""
        own = self._own(question, answer)
        if self.judge is None:
            return own
        if own and not question.has_answer:
            return dict.fromkeys(self.measures, *own.values())
        verdicts = self._verdicts(key, question)
        if not verdicts:
            place = (self._verdict_key(key, question), question.id)
            with self._metered("judge", *place) as cost:
                score = self.judge.score(self.dataset.benchmark, question, answer, cost.meter)
            verdicts = [self.journal.write("verdict", *place, score=score, **cost.row())]
        return {self.measures[0]: verdicts[-1]["score"], **own}

    @contextmanager
    def _metered(self, part: str, digest: str, name: str) -> Iterator[Cost]:
        """Count what is spent; what was spent on a failure is written down as such."""
        cost = Cost(Meter(part), time.monotonic())
        try:
            yield cost
        except Exception as error:
            self.journal.write("failure", digest, name, error=_said(error), **cost.row())
            raise

    def _answers(self, key: str, question: Question) -> list[Row]:
        return self.journal.rows("answer", self._answer_key(key, question), question.id)

    def _verdicts(self, key: str, question: Question) -> list[Row]:
        return self.journal.rows("verdict", self._verdict_key(key, question), question.id)

    def _go_on(self) -> None:
        """Stop between two steps when another worker was interrupted."""
        if self._stop.is_set():
            raise KeyboardInterrupt

    # --- What each thing depends on --------------------------------------------------------------

    def _memory_key(self, conversation: Conversation) -> str:
        told = asdict(replace(conversation, questions=()))
        remembering = _without(asdict(self.setup), "actor")
        if self.setup.memory == "full":
            remembering = {"memory": "full"}
        return digest_of(__version__, self.dataset.benchmark, remembering, told)

    def _answer_key(self, key: str, question: Question) -> str:
        asked = ask(self.dataset.benchmark, question, self.seed).text
        at_once = ["at once"] if self.at_once else []
        return digest_of(key, self.setup.actor, asked, question.asked_at, *at_once)

    def _verdict_key(self, key: str, question: Question) -> str:
        judge = self.judge.name if self.judge else None
        return digest_of(self._answer_key(key, question), judge, question.answer)


NUMBER = re.compile(r"^[ \t*]*\[(\d+)\][*:]*[ \t]*", re.MULTILINE)


def write_numbered(asked: Sequence[Asked]) -> str:
    """Write several questions as one text."""
    told = (
        f"These are {len(asked)} questions. Answer each for itself, and let no question tell you "
        f"about another. Begin each answer on a line of its own with its number, as in `[1] ...`."
    )
    return "\n\n".join([told, *(f"[{at}] {each.text}" for at, each in enumerate(asked, 1))])


def read_numbered(text: str, count: int) -> list[str]:
    """Return so many answers by their numbers; one that is not there is empty."""
    found = list(NUMBER.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)] * bool(found)
    answers = {
        int(each[1]): text[each.end() : end].strip() for each, end in zip(found, ends, strict=True)
    }
    return [answers.get(number, "") for number in range(1, count + 1)]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _without(values: Mapping[str, Any], *names: str) -> Row:
    return {name: value for name, value in values.items() if name not in names}

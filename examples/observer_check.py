# Measures a model as memory's Observer: what it keeps of eight short talks in three languages,
# which standing instructions it marks, and whether its answers can be read. No model judges.
#
#     pip install "langgraph-om[examples,openai]"
#     python examples/observer_check.py                              # offline: the plumbing alone
#     python examples/observer_check.py --model openai:gpt-6-luna --runs 3
#     OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none \
#         python examples/observer_check.py --model openai:local \
#         --settings '{"temperature": 0, "max_tokens": 600, "timeout": 900}'
#
# The first run shows a talk whole, the second day by day, the third four messages at a time.
#
# A talk is a file in `talks/`. A line of its `facts` is `kind: this|or this & that ~ wrong`: a fact
# is kept if one observation has an alternative of each part; it is changed if it is not kept and
# one has what is wrong. NO stands for a denial in any of the languages.

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, cast

from evaluation.command import count
from evaluation.spending import Meter
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import TypedDict

from langgraph_om import AdoptReport, InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

TALKS = Path(__file__).parent / "talks"
EXAMPLES = (
    *("what the user tells", "what it found, offers", "what is finished, each", "(hh:mm)"),
    *("what is worked on, and", "how you work from now on, in", "Opaal", "Helio", "Brandt", "Falk"),
)
"""Words that stand in memory's prompts, and in no talk."""
NO = re.compile(
    r"\b(?:no|not|none|never|without|denie[sd]|kein\w*|nicht|nie|ohne)\b|n['’]t\b"
    r"|ない|なし|ません|不要"
)
PREFIX = 4
"""Letters of a key that may be the beginning of a longer word."""
SECOND = "could not be used"
"""In a question to the Observer: its first answer was not readable."""
NUMBER = re.compile(r"\d[\w.:/-]*\w|\d")
HEAD = re.compile(
    r"^[^\w(]*|(?:\w+(?: #\d+)? )?\(\d\d:\d\d\):?|\((?:meaning|estimated)[^)]*\)", re.MULTILINE
)
EDIT = re.compile(r"^\W*(?:drop\b|\d+(?:\s*\+\s*\d+)*:)", re.MULTILINE)
UNREADABLE = ("unreadable at first", "unreadable at second")
FEW_TOKENS = {"message_tokens": 350}
"""By which messages of a second thread are observed in the turn of a third one."""
FEW = 4
"""Messages that the third run shows at a time."""
RESTS = ("trip", "planning", "support")
ASKED = "Use your tool recall to read what we said: what does the ferry from Hirtshals cost?"


class Trip(TypedDict, total=False):
    """What a program wants to know of a trip."""

    destination: str
    budget_euros: int


class Listener(Meter):
    """Counts what is asked, and keeps the answers."""

    def __init__(self) -> None:
        super().__init__("actor")
        self.seconds = 0
        self.answers: list[str] = []

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **about: Any
    ) -> None:
        super().on_chat_model_start(serialized, messages, **about)
        self.seconds += SECOND in messages[0][-1].text

    def on_llm_end(self, response: Any, **about: Any) -> None:
        super().on_llm_end(response, **about)
        self.answers += [each.text for batch in response.generations for each in batch]


def normalize(text: str) -> str:
    """Return a text in which spellings of letters and of thousands do not count."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"(?<=\d)[.,' ](?=\d{3}(?!\d))", "", plain)


def has(text: str, key: str) -> bool:
    """Return whether a normalized text has a key, as a whole word where it is short."""
    if key == "NO":
        return NO.search(text) is not None
    start = r"(?<![a-z0-9])" if key[0].isascii() else ""
    is_whole = key.isascii() and (len(key) < PREFIX or key[-1].isdigit())
    end = r"(?![a-z0-9])" if is_whole else ""
    return re.search(start + re.escape(normalize(key)) + end, text) is not None


def grade(fact: str, items: Sequence[str]) -> str:
    """Return whether a fact is `kept`, `changed` or `lost` in these observations."""
    told, _, wrong = fact.partition(":")[2].partition("~")
    parts = [[key.strip() for key in part.split("|")] for part in told.split("&")]
    if any(all(any(has(item, key) for key in part) for part in parts) for item in items):
        return "kept"
    known = [key.strip() for key in wrong.split("|") if key.strip()]
    return "changed" if any(has(item, key) for item in items for key in known) else "lost"


def split_items(log: str) -> list[str]:
    """Return the observations of a log, each with its details, normalized."""
    lines = [line for line in log.splitlines() if not line.startswith("Date:")]
    return [normalize(item) for item in re.split(r"\n(?=\S)", "\n".join(lines)) if item.strip()]


def find_invented(log: str, said: str) -> list[str]:
    """Return numbers that stand in observations and not in the talk, derived dates aside."""
    known = normalize(said)
    items = [HEAD.sub("", item) for item in split_items(log)]
    found = [each for item in items for each in NUMBER.findall(item)]
    return [each for each in found if each not in known]


class Talk:
    """A talk with what is to be kept of it."""

    def __init__(self, path: Path) -> None:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        self.name, self.language = path.stem, path.stem.partition("_")[2]
        self.facts, self.standing = told["facts"], told["standing"]
        self.parts: list[list[str]] = told["parts"]
        self.asks: list[str] = told.get("asks", [])
        self._begins: datetime = told["begins"]

    @property
    def said(self) -> str:
        return f"{self._begins:%Y-%m-%d}\n" + "\n".join(
            text for part in self.parts for text in part
        )

    def days(self) -> list[list[BaseMessage]]:
        """Return the messages of each part, a day after the part before."""
        return [
            [self._say(text, day, at) for at, text in enumerate(part)]
            for day, part in enumerate(self.parts)
        ]

    def _say(self, text: str, day: int, at: int) -> BaseMessage:
        time = self._begins + timedelta(days=day, minutes=2 * at)
        told = {"created_at": time.isoformat()}
        return (AIMessage if at % 2 else HumanMessage)(text, additional_kwargs=told)

    def pieces(self, run: int) -> list[list[BaseMessage]]:
        """Return the messages as they are observed together in one of the runs."""
        days = self.days()
        whole = [message for day in days for message in day]
        fours = [whole[at : at + FEW] for at in range(0, len(whole), FEW)]
        return ([whole], days, fours)[run % 3]


def open_model(name: str | None, settings: dict[str, Any]) -> Any:
    """Return the model of all roles; without a name doubles that quote."""
    if name is not None:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 an extra

        return init_chat_model(name, **settings)
    return ScriptedChatModel(
        actor=lambda _: AIMessage("offline"),
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )


def open_memory(model: Any, actor: Any = None, **options: Any) -> tuple[ObservationalMemory, Any]:
    observation = {"message_tokens": 100_000, "buffer_tokens": False, **options.pop("values", {})}
    memory = ObservationalMemory(
        model, observation=observation, buffering=InlineBuffering(), deadline=3600, **options
    )
    actor = model if actor is None else actor
    return memory, create_memory_agent(actor, memory=memory, checkpointer=InMemorySaver())


def place(thread: str, listener: Listener) -> RunnableConfig:
    where = {"thread_id": thread, "resource_id": "user"}
    return cast("RunnableConfig", {"configurable": where, "callbacks": [listener]})


def observe(
    memory: ObservationalMemory, agent: Any, config: RunnableConfig, messages: list[BaseMessage]
) -> AdoptReport:
    agent.update_state(config, {"messages": messages}, as_node="agent")
    return memory.of(agent, config).observe()


def read_log(memory: ObservationalMemory, state: Any) -> str:
    return "\n".join(group["text"] for group in memory.view(state).record["log"])


def check_talk(model: Any, talk: Talk, run: int) -> dict[str, Any]:
    """Return what became of one talk: its figures, and how much there is of what they count."""
    pieces = talk.pieces(run)
    listener, figures, of = Listener(), Counter[str](), Counter[str]()
    started = time.monotonic()
    memory, agent = open_memory(model)
    with memory:
        config = place(talk.name, listener)
        failed = sum(observe(memory, agent, config, each).error is not None for each in pieces)
        state = agent.get_state(config)
        log, rules, seen = read_log(memory, state), memory.rules(state), str(memory.view(state))
    came = {fact: grade(fact, split_items(log)) for fact in talk.facts}
    for fact, grades in came.items():
        for about in ("facts", talk.language, fact.partition(":")[0]):
            figures[f"kept: {about}"] += grades == "kept"
            of[f"kept: {about}"] += 1
    marked = [normalize(rule.words) for rule in rules]
    due = [normalize(words) for words in talk.standing]
    of |= {"standing marked": len(due)} | dict.fromkeys(UNREADABLE, len(pieces))
    figures.update(
        {
            "facts changed": sum(each == "changed" for each in came.values()),
            "numbers invented": len(find_invented(log, talk.said)),
            "standing marked": sum(any(words in rule for rule in marked) for words in due),
            "standing false": sum(not any(words in rule for words in due) for rule in marked),
            "examples echoed": sum(name in "\n".join(listener.answers) for name in EXAMPLES),
            "echoes remembered": sum(name in seen for name in EXAMPLES),
            **dict(zip(UNREADABLE, (listener.seconds, failed), strict=True)),
            "tokens in": sum(each["input"] for each in listener.spent.values()),
            "tokens out": sum(each["output"] for each in listener.spent.values()),
            "seconds": round(time.monotonic() - started),
        }
    )
    told = {"facts": came, "log": log, "answers": listener.answers}
    return {"talk": talk.name, "figures": figures, "of": of, **told}


def check_rest(model: Any, talks: Sequence[Talk]) -> dict[str, str]:
    """Return what came of the other questions of memory, which are asked about three talks."""
    listener, values = Listener(), {"thread_title": True, "extract": {"trip": Trip}}
    memory, agent = open_memory(model, values=values)
    config = place("rest", listener)
    with memory:
        before = observe(memory, agent, config, talks[0].pieces(0)[0]).log_tokens
        state = agent.get_state(config)
        title = memory.view(state).record.get("thread_title")
        trip = memory.extracted(state, Trip)
        asked = len(listener.answers)
        after = memory.of(agent, config).reflect()
        edits = len(EDIT.findall("\n".join(listener.answers[asked:])))
        said = agent.invoke({"messages": [HumanMessage(ASKED)]}, config)["messages"]
    calls = [each.status for each in said if isinstance(each, ToolMessage)]

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        archive = f"sqlite:///{Path(folder) / 'archive.db'}"
        options: dict[str, Any] = {"scope": "resource", "archive": archive}
        memory, agent = open_memory(model, open_model(None, {}), values=FEW_TOKENS, **options)
        with memory:
            for talk in talks:
                config = place(talk.name, listener)
                agent.update_state(config, {"messages": talk.pieces(0)[0]}, as_node="agent")
                agent.invoke({"messages": [HumanMessage("Thank you.")]}, config)
            items = split_items(read_log(memory, agent.get_state(config)))
    came = Counter(grade(fact, items) for talk in talks for fact in talk.facts)
    return {
        "title": str(title),
        "values": str(trip),
        "reflection": f"{edits} edits, {before} -> {after.log_tokens} tokens, {after.error}",
        "calls of recall": str(calls),
        "answer from recall": "right" if has(normalize(said[-1].text), "148") else "wrong",
        "facts of three threads in one log": str(dict(came)),
    }


def add(several: Iterable[Counter[str]]) -> Counter[str]:
    total = Counter[str]()
    for each in several:
        total.update(each)
    return total


def write_table(name: str, runs: Sequence[Sequence[dict[str, Any]]]) -> str:
    """Return the figures of all talks as a table: means of the runs, and their spread."""
    sums = [add(talk["figures"] for talk in run) for run in runs]
    of = add(talk["of"] for talk in runs[0])
    lines = [f"| {name} | mean | least to most | of |", "|---|---|---|---|"]
    for figure in dict.fromkeys([*sorted(of), *sums[0]]):
        counts = [run[figure] for run in sums]
        middle = f"{mean(counts):,.1f}".removesuffix(".0")
        lines.append(
            f"| {figure} | {middle} | {min(counts):,} to {max(counts):,} | {of[figure] or ''} |"
        )
    return "\n".join(lines)


def add_model(parser: argparse.ArgumentParser, *, runs: int) -> None:
    """Add the options that say which model is asked, and how often."""
    option = parser.add_argument
    option("--model", metavar="PROVIDER:NAME", help="default: doubles, which prove nothing")
    option("--settings", type=json.loads, default={}, metavar="JSON", help="of the model's client")
    option("--runs", type=count, default=runs, metavar="N", help="default: %(default)s")


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a model as memory's Observer.")
    option = parser.add_argument
    add_model(parser, runs=3)
    option("--talk", action="append", metavar="NAME", help="a file of talks/; may be repeated")
    option("--rest", action="store_true", help="also titles, values, reflection, recall, threads")
    option("--json", type=Path, metavar="FILE", help="figures, logs and answers are written there")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    name = options.model or "offline"
    model = open_model(options.model, options.settings)
    talks = [Talk(path) for path in sorted(TALKS.glob("*.toml"))]
    chosen = [talk for talk in talks if not options.talk or talk.name in options.talk]
    runs: list[list[dict[str, Any]]] = []
    for number in range(options.runs):
        runs.append([])
        for talk in chosen:
            runs[-1].append(check_talk(model, talk, number))
            print(f"run {number + 1}, {talk.name}: {runs[-1][-1]['figures']}", file=sys.stderr)
            if options.json:
                options.json.write_text(json.dumps(runs, ensure_ascii=False, indent=1))
    print(write_table(name, runs))
    if options.rest:
        rest = check_rest(model, [Talk(TALKS / f"{each}_english.toml") for each in RESTS])
        print("\n".join(f"| {what} | {came} | |" for what, came in rest.items()))
    if not options.model:
        print("\nNo model was asked: doubles quote the talks. These figures prove nothing.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

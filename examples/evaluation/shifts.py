"""Shifts: tasks of one simulator one after the other, with standing rules and facts for later.

What the user of the simulator says is the benchmark's. Around it a desk is set up that is the same
for every simulator: rules that hold from the first turns on (`RULES`), facts that are said once and
needed eight tasks later (`FACTS`), and a handbook that fills a prompt by itself. Each rule can be
checked in the calls of a task, each fact is the `code` of a report.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool

from evaluation.world import RefusedError, World

Call = dict[str, Any]
"""A call of a tool: `name` and `arguments`."""
LATER = 8
"""Tasks between the one that tells a fact and the one that needs it."""
FIRST_CODE, SECOND_CODE = "NT-2207", "NT-3310"
SIGN_OFF = "Signed off: OK-31"
HANDBOOK_SECTIONS = 400
"""Sections of the handbook, 15,000 tokens together."""
HANDBOOK_CODE = "HB-5093"
FILED = "R-88213"
RULES = ("forbidden", "argument", "order", "approval", "format")
FACTS = ("said first", "said second", "told by a result", "in the handbook")
Source = Literal["task", "desk", "rule", "fact"]


@dataclass(frozen=True, slots=True)
class Simulator:
    """A simulator, and the calls that rules are about."""

    name: str
    system: str
    guarded: str
    """Needs an approval and a reference."""
    look: str
    """A call without arguments that comes before."""
    forbidden: str


# The file system of the benchmark is left out: its `ls` and `grep` are deepagents' too.
SIMULATORS: Mapping[str, Simulator] = {
    each.name: each
    for each in (
        Simulator(
            "travel", "TravelAPI", "book_flight", "travel_get_login_status", "cancel_booking"
        ),
        Simulator(
            "vehicle", "VehicleControlAPI", "startEngine", "check_tire_pressure", "set_navigation"
        ),
        Simulator("trading", "TradingBot", "place_order", "get_account_info", "cancel_order"),
    )
}


@dataclass(frozen=True, slots=True)
class Step:
    """A call that the ground truth makes, and where it comes from."""

    call: Call
    source: Source = "task"
    changes: bool = True
    """Whether it changes what is simulated."""
    rule: str = ""
    """The rule by which it is made."""
    fact: str = ""
    """The fact that its `code` is."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the user says at once, and the calls that should follow."""

    task: int
    number: int
    text: str
    steps: tuple[Step, ...]

    @property
    def heading(self) -> str:
        """Return what the text begins with."""
        return self.text.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a shift."""

    number: int
    id: str
    """Of the benchmark."""
    parts: tuple[Part, ...]
    in_force: frozenset[str]
    """The rules that hold in it; `approval` may have ended."""
    reference: str
    """The one that holds in it."""
    is_free: bool
    """Whether the approval has ended, so that asking for it is a mistake."""
    fact: str = ""
    """The fact that is needed in it."""

    @property
    def expected(self) -> list[Call]:
        """Return the calls that lead to the right state."""
        steps = (step for part in self.parts for step in part.steps)
        return [step.call for step in steps if step.source == "task"]

    @property
    def calls(self) -> list[Call]:
        """Return all calls that the ground truth makes, those of the desk too."""
        return [step.call for part in self.parts for step in part.steps]


@dataclass(frozen=True, slots=True)
class Shift:
    """Tasks of one simulator in the order in which they are worked on."""

    simulator: Simulator
    tasks: tuple[Task, ...]
    tools: tuple[dict[str, Any], ...] = field(repr=False)
    """Name, description and parameters of the simulators' tools."""

    @property
    def parts(self) -> int:
        """Return how often the user speaks."""
        return sum(len(task.parts) for task in self.tasks)


# --- Building ------------------------------------------------------------------------------------


def build_shift(world: World, simulator: Simulator, number: int) -> Shift:
    """Build a shift of so many tasks.

    Args:
        world: Has the simulator.
        simulator: Which one.
        number: How many tasks; with fewer than twelve a fact is needed sooner.

    Raises:
        ValueError: When the simulator has fewer tasks that can be told right from wrong.
    """
    chosen = choose_tasks(world.tasks(simulator.system, [simulator.forbidden]), simulator, number)
    systems = sorted({system for task in chosen for system in task["systems"]})
    told = tell(simulator, number)
    tasks = [
        _build_task(simulator, at, task, told[at], number)
        for at, task in enumerate(chosen, start=1)
    ]
    return Shift(simulator, tuple(tasks), tuple(world.tools(systems)))


def choose_tasks(
    tasks: Sequence[Mapping[str, Any]], simulator: Simulator, number: int
) -> list[Mapping[str, Any]]:
    """Choose tasks by what playing them came to.

    Only those count in which something changes besides what is forbidden, so that doing nothing is
    wrong, and in which no call of the ground truth fails. Those with the calls that rules are about
    come first, both of them before one.
    """
    usable = []
    for task in tasks:
        calls = [call for turn in task["turns"] for call in turn["calls"]]
        names = {call["name"] for call in calls}
        changes = any(call["changes"] and call["name"] != simulator.forbidden for call in calls)
        fails = any(call["result"].startswith('{"error"') for call in calls)
        ruled = len(names & {simulator.guarded, simulator.forbidden})
        if changes and ruled and not fails:
            usable.append((-ruled, len(usable), task))
    if len(usable) < number:
        has = f"{simulator.name} has {len(usable)} tasks that a shift can use"
        msg = f"{has}, and {number} are wanted"
        raise ValueError(msg)
    best = sorted(usable, key=lambda each: each[:2])[:number]
    return [task for _, _, task in sorted(best, key=lambda each: each[1])]


@dataclass(frozen=True, slots=True)
class Told:
    """What the user adds to a task."""

    first: str = ""
    """Before the task's own words."""
    last: str = ""
    """After the words of its last part."""
    code: str = ""
    """The code of the report that is filed at the end of it."""
    fact: str = ""
    reads_handbook: bool = False


def tell(simulator: Simulator, number: int) -> dict[int, Told]:
    """Return what the user adds to each task: rules, facts, and what is needed again."""
    s = simulator
    later = min(LATER, number - len(FACTS))
    middle = number // 2
    needs = dict(zip((each + later for each in range(1, 5)), FACTS, strict=True))
    again = {fact: at for at, fact in needs.items()}
    first, second, result, handbook = (again[fact] for fact in FACTS)
    told = {at: Told() for at in range(1, number + 1)}
    told[1] = Told(
        first=(
            f"Some rules for today first. Always call ask_approval directly before {s.guarded}. "
            f"Never call {s.forbidden} yourself, always call hand_over with its name in its place. "
            f"And so that you know: the report of task {first} goes under code DX-4417. Now"
        ),
    )
    told[2] = Told(
        first=(
            f"Two more rules. From now on always set reference to {FIRST_CODE} in {s.guarded}. "
            f"Always call {s.look} in the same task before {s.guarded}. "
            f"By the way: the report of task {second} goes under code KV-9026. Now"
        ),
    )
    told[3] = Told(
        first=f'The last rule: always end your last answer of a task with "{SIGN_OFF}". Now',
        last=(
            "When that is done, call file_report for task 3 under code IN-03. Its number is needed "
            "again today."
        ),
        code="IN-03",
    )
    told[4] = Told(
        first="Please call read_handbook once before you begin, we need it later today. Now",
        reads_handbook=True,
    )
    told[middle] = _with_first(
        told[middle],
        f"A rule ends: from now on ask_approval is no longer needed before {s.guarded}, so never "
        "call it again today. Now",
    )
    told[middle + 1] = _with_first(
        told[middle + 1],
        f"A rule changes: from now on always set reference to {SECOND_CODE} in {s.guarded}, not to "
        "the former one. Now",
    )
    asks = {
        first: ("under the code that I told you for it this morning", "DX-4417"),
        second: ("under the code that I told you for it this morning", "KV-9026"),
        result: ("with the number that the report of task 3 was filed as for its code", FILED),
        handbook: ("under the code that the handbook has for late reports", HANDBOOK_CODE),
    }
    for at, (how, code) in asks.items():
        last = f"When that is done, call file_report for task {at}, {how}."
        told[at] = Told(told[at].first, last, code, needs[at], told[at].reads_handbook)
    return told


def _with_first(told: Told, text: str) -> Told:
    before = told.first.removesuffix("Now")
    return Told(f"{before}{text}", told.last, told.code, told.fact, told.reads_handbook)


def _build_task(
    simulator: Simulator, at: int, task: Mapping[str, Any], told: Told, number: int
) -> Task:
    turns = task["turns"]
    middle = number // 2
    in_force = {"forbidden", "approval"} | ({"argument", "order"} if at > 1 else set())
    in_force |= {"format"} if at > 2 else set()  # noqa: PLR2004 the task that has it
    is_free = at >= middle
    reference = SECOND_CODE if at > middle else FIRST_CODE if at > 1 else ""
    parts = []
    for turn_number, turn in enumerate(turns, start=1):
        steps: list[Step] = []
        text = str(turn["text"])
        if turn_number == 1 and told.first:
            text = f"{told.first}: {text}"
        if turn_number == 1 and told.reads_handbook:
            steps.append(Step({"name": "read_handbook", "arguments": {}}, "desk", changes=False))
        for call in turn["calls"]:
            steps += _steps(simulator, call, in_force, reference, is_free=is_free)
        if turn_number == len(turns) and told.code:
            text = f"{text} {told.last}"
            report = {"name": "file_report", "arguments": {"task": at, "code": told.code}}
            steps.append(Step(report, "fact" if told.fact else "desk", fact=told.fact))
        heading = f"Task {at}, part {turn_number} of {len(turns)}"
        parts.append(Part(at, turn_number, f"{heading}: {text}", tuple(steps)))
    rules = frozenset(in_force - ({"approval"} if is_free else set()))
    return Task(at, task["id"], tuple(parts), rules, reference, is_free, told.fact)


def _steps(
    simulator: Simulator,
    call: Mapping[str, Any],
    in_force: set[str],
    reference: str,
    *,
    is_free: bool,
) -> list[Step]:
    """Return a call of the ground truth with the calls that rules ask for around it."""
    plain = {"name": call["name"], "arguments": call["arguments"]}
    if call["name"] == simulator.forbidden:
        handed = {"name": "hand_over", "arguments": {"call": simulator.forbidden}}
        return [Step(handed, "rule", rule="forbidden")]
    if call["name"] != simulator.guarded:
        return [Step(plain, changes=call["changes"])]
    before = []
    if "order" in in_force:
        looked = {"name": simulator.look, "arguments": {}}
        before.append(Step(looked, "rule", changes=False, rule="order"))
    if not is_free:
        asked = {"name": "ask_approval", "arguments": {"call": simulator.guarded}}
        before.append(Step(asked, "rule", rule="approval"))
    return [*before, Step(plain, rule="argument" if reference else "", changes=call["changes"])]


# --- The desk and its tools ----------------------------------------------------------------------


def handbook() -> str:
    """Return a text that fills a prompt, with one line that is needed later."""
    lines = [
        f"Section {at}. Requests of kind {at % 17 + 1} are kept for {at % 9 + 2} weeks by desk "
        f"{at * 7 % 53 + 1}, in folder {at * 31 % 997}, and then given to the archive of floor "
        f"{at % 6 + 1}."
        for at in range(1, HANDBOOK_SECTIONS + 1)
    ]
    lines[HANDBOOK_SECTIONS * 2 // 3] = (
        f"Late reports. The code for late reports is {HANDBOOK_CODE}."
    )
    return "\n".join(lines)


class CallOrder(BaseCallbackHandler):
    """The order in which the calls of an answer are carried out: one after the other, as written.

    An agent runs them at the same time, so a login could come behind the call that needs it. A call
    waits for those before it here, and not by `max_concurrency`: a graph that runs one thing at a
    time can wait for itself.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        """The tools that wait for each other."""
        self._open: list[str] = []
        self._changed = threading.Condition()

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:  # noqa: ARG002 the base class's
        """Take note of the calls of an answer."""
        messages = (
            each.message
            for batch in response.generations
            for each in batch
            if isinstance(each, ChatGeneration) and isinstance(each.message, AIMessage)
        )
        calls = [call for message in messages for call in message.tool_calls]
        if calls:
            with self._changed:
                self._open = [str(call["id"]) for call in calls if call["name"] in self.names]

    @contextmanager
    def turn(self, call: str) -> Iterator[None]:
        """Wait until the calls before one are over."""
        with self._changed:
            self._changed.wait_for(lambda: call not in self._open or self._open[0] == call)
        try:
            yield
        finally:
            with self._changed:
                self._open = [each for each in self._open if each != call]
                self._changed.notify_all()


class OrderedTool(StructuredTool):
    """A tool that waits for its turn."""

    order: Any

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 the base class's
        with self.order.turn(str(input["id"])):
            return super().invoke(input, config, **kwargs)


def build_tools(
    shift: Shift, world: World, note: Callable[[Call, str], None], order: CallOrder
) -> list[Any]:
    """Return the tools of a shift: the simulators', and those of the desk.

    Args:
        shift: The shift.
        world: Carries the simulators' calls out.
        note: Told of each call and of the text of its result.
        order: Told of each answer of the model, as a callback.
    """

    def make(
        name: str, description: str, parameters: dict[str, Any], call: Callable[..., str]
    ) -> Any:
        def run(**arguments: Any) -> str:
            given = {key: value for key, value in arguments.items() if value is not None}
            result = call(**given)
            note({"name": name, "arguments": given}, result)
            return result

        order.names.add(name)
        return OrderedTool(
            func=run, name=name, description=description, args_schema=parameters, order=order
        )

    def simulated(name: str) -> Callable[..., str]:
        def run(**arguments: Any) -> str:
            arguments.pop("reference", None)
            try:
                return world.call(name, arguments)
            except RefusedError as error:
                return json.dumps({"error": str(error)})

        return run

    tools = []
    for told in shift.tools:
        parameters = json.loads(json.dumps(told["parameters"]))
        if told["name"] == shift.simulator.guarded:
            parameters["properties"]["reference"] = {
                "type": "string",
                "description": "The desk's reference, where the user wants one.",
            }
        tools.append(make(told["name"], told["description"], parameters, simulated(told["name"])))
    desk: list[tuple[str, str, dict[str, str], Callable[..., str]]] = [
        (
            "ask_approval",
            "Ask for the approval of one call that is about to be made.",
            {"call": "string"},
            lambda call: f"approved: {call}",
        ),
        (
            "hand_over",
            "Hand a call over to a colleague, who will make it.",
            {"call": "string"},
            lambda call: f"handed over: {call}",
        ),
        (
            "file_report",
            "File the report of a task under a code.",
            {"task": "integer", "code": "string"},
            lambda task, code: f"The report of task {task} was filed as {report_number(code)}.",
        ),
        ("read_handbook", "Read the handbook of the desk.", {}, handbook),
    ]
    for name, description, arguments, call in desk:
        properties = {key: {"type": kind} for key, kind in arguments.items()}
        schema = {"type": "object", "properties": properties, "required": list(arguments)}
        tools.append(make(name, description, schema, call))
    return tools


def report_number(code: str) -> str:
    """Return the number that a report gets."""
    return FILED if code == "IN-03" else f"R-{sum(map(ord, code)) % 90000 + 10000}"


PROMPT = """\
You work at a desk and do one task after the other in the systems that your tools reach. Each task \
begins with the systems as they are for it: nothing of an earlier task's state is there. A task \
comes in parts, one message of the user each; do a part with calls of tools, then answer in a \
sentence. What the user says holds until the user says otherwise, also in later tasks. Use tools \
only where a part needs them, do not repeat a call whose result you have, and where you lack a \
value, look for it before you guess."""


# --- Grading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grade:
    """What a task came to, by its calls and its final state."""

    differs: tuple[str, ...]
    """Attributes of simulators that are not as they should be; none: the task is right."""
    opportunities: Mapping[str, int]
    """By rule, how often it mattered."""
    broken: Mapping[str, int]
    repeated: int
    """Calls that were made again although the ground truth makes them once."""
    missed: str
    """The fact that was needed and not used, if any."""


def grade(
    shift: Shift, task: Task, calls: Sequence[Call], answer: str, differs: Sequence[str]
) -> Grade:
    """Grade a task.

    Args:
        shift: The shift that it belongs to.
        task: The task.
        calls: What was called, in order.
        answer: The last answer.
        differs: What the simulators' state differs in.
    """
    opportunities, broken = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, 0)
    for rule, holds in check_rules(shift.simulator, task, calls, answer):
        opportunities[rule] += 1
        broken[rule] += not holds
    reports = [each["arguments"] for each in calls if each["name"] == "file_report"]
    codes = [step.call["arguments"] for part in task.parts for step in part.steps if step.fact]
    return Grade(
        differs=tuple(differs),
        opportunities=opportunities,
        broken=broken,
        repeated=count_repeated(calls, task.calls),
        missed=task.fact if codes and codes[0] not in reports else "",
    )


def check_rules(
    simulator: Simulator, task: Task, calls: Sequence[Call], answer: str
) -> Iterator[tuple[str, bool]]:
    """Yield each rule as often as it matters in a task, and whether it was kept."""
    approved = looked = False
    for call in calls:
        name = call["name"]
        looked |= name == simulator.look
        if name == "ask_approval":
            approved = True
            if task.is_free:
                yield "approval", False
        elif name in (simulator.forbidden, "hand_over"):
            yield "forbidden", name == "hand_over"
        elif name == simulator.guarded:
            kept = {
                # Once it has ended, the mistake is the question, and was counted there.
                "approval": not approved if task.is_free else approved,
                "order": looked,
                "argument": call["arguments"].get("reference") == task.reference,
            }
            rules = task.in_force | {"approval"}
            counted = {rule: holds for rule, holds in kept.items() if rule in rules}
            if task.is_free and approved:
                del counted["approval"]
            yield from counted.items()
            approved = False
    if "format" in task.in_force:
        yield "format", SIGN_OFF in answer


def count_repeated(calls: Sequence[Call], wanted: Sequence[Call]) -> int:
    """Count the calls that were made more often than the ground truth makes them, and than once."""
    made = [_write(call) for call in calls]
    needed = [_write(call) for call in wanted]
    return sum(
        max(0, made.count(each) - max(1, needed.count(each))) for each in dict.fromkeys(made)
    )


def _write(call: Call) -> str:
    arguments = {key: value for key, value in call["arguments"].items() if key != "reference"}
    return json.dumps([call["name"], arguments], sort_keys=True, default=str)

"""The shift: its rules by tables of calls, its player, and whole runs over a small simulator."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shift
from evaluation import player, shifts, world
from evaluation.player import ASKS, Player, write_summary
from evaluation.shifts import (
    FACTS,
    RULES,
    SIGN_OFF,
    SIMULATORS,
    Call,
    CallOrder,
    Shift,
    build_shift,
    build_tools,
    choose_tasks,
    grade,
    handbook,
)
from evaluation.worker import Simulators, read_call
from evaluation.working import LABEL
from evaluation.world import World, WorldError, prepare_environment
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import EstimatingCounter, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel
from support.evaluation import ROOT, Evaluation

SMALL = ("--tasks", 8, "--prompt-tokens", 4000)
WORKER = ROOT / "tests" / "data" / "shift" / "simulators.py"
TRAVEL = SIMULATORS["travel"]
ARMS = ["full", "trim", "summary", "deepagents", "observational", "observational+recall"]


@pytest.fixture(scope="module")
def day() -> Shift:
    with World([sys.executable, str(WORKER)]) as simulators:
        return build_shift(simulators, TRAVEL, 12)


@pytest.fixture
def shifting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Evaluation:
    monkeypatch.setattr(shifts, "HANDBOOK_SECTIONS", 60)
    given = ("--worker", WORKER, "--simulators", "travel")
    return Evaluation(tmp_path, capsys, shift.main, given)


# --- The shift and its rules ---------------------------------------------------------------------


def test_a_shift_tells_rules_first_and_asks_for_facts_eight_tasks_later(day: Shift) -> None:
    assert len(day.tasks) == 12
    texts = [" ".join(part.text for part in task.parts) for task in day.tasks]
    assert "Always call ask_approval" in texts[0]
    assert "ask_approval is no longer needed" in texts[5]
    assert ("NT-2207" in texts[1], "NT-3310" in texts[6]) == (True, True)
    assert [task.fact for task in day.tasks[8:]] == list(FACTS)
    for at, code in ((0, "DX-4417"), (1, "KV-9026")):
        assert [number for number, text in enumerate(texts) if code in text] == [at]
    assert not any("HB-5093" in text or "R-88213" in text for text in texts)
    assert EstimatingCounter().count_text(handbook()) > 12_000
    assert "HB-5093" in handbook()


def test_what_is_forbidden_is_handed_over_in_the_ground_truth(day: Shift) -> None:
    calls = [call["name"] for task in day.tasks for call in task.calls]
    assert "cancel_booking" not in calls
    assert calls.count("hand_over") == 4
    assert calls.count("ask_approval") == 5, "until it ends in the sixth task"


def test_tasks_that_can_not_be_told_right_from_wrong_are_left_out() -> None:
    def task(*calls: tuple[str, bool, str]) -> dict[str, Any]:
        played = [{"name": n, "arguments": {}, "changes": c, "result": r} for n, c, r in calls]
        return {"id": str(calls), "systems": [], "turns": [{"text": "", "calls": played}]}

    both = task(("book_flight", True, ""), ("cancel_booking", True, ""))
    good = task(("book_flight", True, "booked"))
    reading = task(("book_flight", False, "nothing"))
    handed = task(("cancel_booking", True, ""))
    failing = task(("book_flight", True, '{"error": "no card"}'))
    unruled = task(("list_all_airports", True, ""))
    tasks = [good, reading, handed, failing, unruled, both]
    assert choose_tasks(tasks, TRAVEL, 2) == [good, both]
    assert choose_tasks(tasks, TRAVEL, 1) == [both]
    with pytest.raises(ValueError, match="travel has 2 tasks that a shift can use, and 3 are"):
        choose_tasks(tasks, TRAVEL, 3)


def call(name: str, **arguments: object) -> Call:
    return {"name": name, "arguments": arguments}


APPROVED, LOOKED = call("ask_approval", call="book_flight"), call("travel_get_login_status")


@pytest.mark.parametrize(
    ("at", "calls", "answer", "broken"),
    [
        (5, [LOOKED, APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {}),
        (5, [LOOKED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"approval"}),
        (5, [APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"order"}),
        (5, [LOOKED, APPROVED, call("book_flight")], SIGN_OFF, {"argument"}),
        (5, [call("cancel_booking", booking_id="B1")], SIGN_OFF, {"forbidden"}),
        (5, [call("hand_over", call="cancel_booking")], "Done.", {"format"}),
        (6, [LOOKED, APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"approval"}),
        (7, [LOOKED, call("book_flight", reference="NT-3310")], SIGN_OFF, {}),
        (7, [LOOKED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"argument"}),
        (1, [APPROVED, call("book_flight")], "Done.", {}),
    ],
)
def test_rules_are_checked_in_calls_and_in_the_answer(
    at: int, calls: list[Call], answer: str, broken: set[str], day: Shift
) -> None:
    came = grade(day, day.tasks[at - 1], calls, answer, [])
    assert {rule for rule, times in came.broken.items() if times} == set(broken)
    assert set(came.broken) == set(came.opportunities) == set(RULES)


def test_an_approval_holds_for_one_call(day: Shift) -> None:
    booked = call("book_flight", reference="NT-2207")
    came = grade(day, day.tasks[4], [LOOKED, APPROVED, booked, booked], SIGN_OFF, [])
    assert (came.broken["approval"], came.opportunities["approval"]) == (1, 2)


def test_a_fact_is_missed_without_its_report(day: Shift) -> None:
    task = day.tasks[8]
    right, wrong = (call("file_report", task=9, code=code) for code in ("DX-4417", "unknown"))
    assert grade(day, task, [right], SIGN_OFF, []).missed == ""
    assert grade(day, task, [wrong], SIGN_OFF, []).missed == "said first"
    assert grade(day, day.tasks[7], [], SIGN_OFF, []).missed == ""


def test_calls_count_as_repeated_beyond_what_the_ground_truth_makes(day: Shift) -> None:
    task = day.tasks[4]
    once, other = call("get_flight_cost", start="A", end="B"), call("get_flight_cost", start="B")
    assert grade(day, task, [once, other], "", []).repeated == 0
    assert grade(day, task, [once, other, once, once], "", []).repeated == 2


# --- The player ----------------------------------------------------------------------------------


def ask(day: Shift, at: int, *messages: Any, looks_up: str = "", part: int = 1) -> AIMessage:
    """Return what the player does first in a part, after these messages."""
    plays = Player(day, looks_up)
    task = day.tasks[at - 1]
    for each in task.parts[:part]:
        plays.start(task, each)
    return plays.reply([*messages, HumanMessage(task.parts[part - 1].text)])


def test_the_player_follows_a_rule_that_its_prompt_tells(day: Shift) -> None:
    price = ToolMessage("Price: 731", tool_call_id="1", name="get_flight_cost")
    told = "Always call travel_get_login_status in the same task before book_flight."
    called = AIMessage("", tool_calls=[{"name": "get_flight_cost", "args": {}, "id": "1"}])
    before = [HumanMessage("x"), called, price]
    assert ask(day, 5, *before, part=2).tool_calls[0]["name"] == "book_flight"
    rules = SystemMessage(told)
    assert ask(day, 5, rules, *before, part=2).tool_calls[0]["name"] == LOOKED["name"]


def test_the_newest_statement_of_a_rule_holds(day: Shift) -> None:
    old = "* From now on always set reference to NT-2207 in book_flight."
    new = "* From now on always set reference to NT-3310 in book_flight, not to the former one."
    for notes, reference in ((f"{old}\n{new}", "NT-3310"), (old, "NT-2207"), ("", None)):
        said = ask(day, 8, SystemMessage(notes), part=2)
        assert said.tool_calls[0]["args"].get("reference") == reference


def test_the_player_guesses_or_looks_up_a_fact_that_is_not_told(day: Shift) -> None:
    def report(notes: str, looks_up: str = "") -> dict[str, Any]:
        plays = Player(day, looks_up)
        task = replace(day.tasks[8], parts=day.tasks[8].parts[1:])
        part = replace(task.parts[0], steps=task.parts[0].steps[-1:])
        plays.start(replace(task, parts=(part,)), part)
        said = plays.reply([SystemMessage(notes), HumanMessage(part.text)])
        found: dict[str, Any] = said.tool_calls[0]["args"]
        return found

    assert report("the report of task 9 goes under code DX-4417") == {"task": 9, "code": "DX-4417"}
    assert report("") == {"task": 9, "code": "unknown"}
    assert report("", "recall") == {"mode": "search", "query": "report of task 9"}
    path = "The full history has been saved to /conversation_history/shift.md"
    assert report(path, "grep")["pattern"] == "report of task 9"


def test_a_player_without_its_request_asks_for_it(day: Shift) -> None:
    plays = Player(day)
    plays.start(day.tasks[4], day.tasks[4].parts[0])
    assert plays.reply([HumanMessage("Here is a summary: nothing.")]).text == ASKS


def test_a_prompt_that_a_provider_would_refuse_is_no_prompt(day: Shift) -> None:
    with pytest.raises(player.RefusedPromptError, match="result"):
        ask(day, 5, ToolMessage("a result of nothing", tool_call_id="1"))


def test_the_summariser_notes_what_the_observer_would_and_keeps_orders() -> None:
    said = [
        ("human", "Task 1, part 1 of 1: Never call cancel_booking yourself. What is due?"),
        ("ai", "On 12 May 2026 there are 4 flights to Belfort, 3 of them with seats."),
    ]
    body = "".join(f'<message type="{kind}">{text}</message>' for kind, text in said)

    def summarise(words: int, more: str = "") -> str:
        text = f"Write at most {words} words.\n\n<messages>\n{body}{more}</messages>"
        return write_summary([HumanMessage(text)])

    whole = summarise(200)
    assert '📌 "Task 1, part 1 of 1: Never call cancel_booking yourself."' in whole
    assert "4 flights to Belfort" in whole
    assert whole.splitlines()[-1].startswith("* Current request: Task 1, part 1 of 1")
    short = summarise(20)
    assert "cancel_booking" in short
    assert "4 flights" not in short
    again = summarise(200, f'<message type="human">{whole}</message>')
    assert again.count("Current request") == 1


# --- Whole runs ----------------------------------------------------------------------------------


def test_all_arms_work_through_the_same_shift(shifting: Evaluation) -> None:
    found = shifting.figures(*SMALL)
    (arms,) = found["rooms"].values()
    assert list(arms) == ARMS
    full, recalling = arms["full"], arms["observational+recall"]
    for row in (full, recalling):
        assert (row["right"], row["rules broken"], row["facts missed"]) == (8, 0, [])
        assert (row["repeated"], row["died"], row["asked"]) == (0, [], 0)
    assert recalling["actor"]["tokens"] < full["actor"]["tokens"] * 0.85  # 0.80, as dates are long
    assert recalling["actor"]["largest"] < full["actor"]["largest"] * 0.8
    assert recalling["lookups"] > 0 == arms["observational"]["lookups"]
    assert arms["trim"]["rules broken"] > 0
    assert len(arms["trim"]["facts missed"]) == len(FACTS)
    assert full["memory"]["calls"] == 0 < arms["summary"]["memory"]["calls"]
    code, printed, errors = shifting.run(*SMALL)
    assert code == 0
    assert printed.rstrip().endswith(LABEL)
    assert "tasks right" in printed
    assert "96 of 96 parts" in errors


def test_a_run_goes_on_behind_the_last_task(
    shifting: Evaluation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = (*SMALL, "--arms", "observational+recall")
    whole = shifting.figures(*options)
    (tmp_path / "work").rename(tmp_path / "first")
    played = Player.end
    parts = []

    def stop(self: Player) -> None:
        played(self)
        parts.append(self.part)
        if len(parts) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(Player, "end", stop)
    code, _, errors = shifting.run(*options)
    assert code == 130
    assert "goes on from here" in errors
    again = shifting.figures(*options)
    assert len(parts) == 9 + 8, "four tasks were over, and their parts are not played again"
    for found in (again, whole):
        # A search weighs words by all that was kept, also of the part that was not finished. So an
        # answer of `recall` may be longer or shorter, and the Observer, who reads it too, may be
        # asked a question more or less.
        row = found["rooms"]["4000"]["observational+recall"]
        del row["actor"], row["memory"], row["spent"]["observer"], row["spent"]["actor"]["input"]
    assert again == whole


def test_a_part_that_dies_leaves_the_conversation_as_it_was(
    shifting: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = Player.reply

    def fail(self: Player, prompt: Any) -> AIMessage:
        if self.part and (self.part.task, self.part.number) == (2, 2):
            msg = "no answer"
            raise ValueError(msg)
        return reply(self, prompt)

    monkeypatch.setattr(Player, "reply", fail)
    found = shifting.figures(*SMALL, "--arms", "full")
    (arms,) = found["rooms"].values()
    assert arms["full"]["died"] == ["ValueError: no answer"]
    assert arms["full"]["wrong tasks"] == {"travel": [2]}


def test_a_person_plays_through_files(shifting: Evaluation) -> None:
    folder = shifting.folder / "answers"
    options = ("--answers", folder, "--arms", "full", *SMALL)
    code, printed, errors = shifting.run(*options)
    assert (code, printed) == (3, "")
    (asked,) = folder.glob("*.question.txt")
    assert "shift: waiting for 1 answer" in errors
    text = asked.read_text("utf-8")
    assert "Task 1, part 1 of 2" in text
    assert "ask_approval" in text
    first = 'call get_flight_cost {"start": "Arnau", "end": "Belfort"}'
    asked.with_name(asked.name.replace("question", "answer")).write_text(first, "utf-8")
    assert shifting.run(*options)[0] == 3
    assert len(list(folder.glob("*.question.txt"))) == 2
    newest = max(folder.glob("*.question.txt")).read_text("utf-8")
    assert "Price: AR" in newest


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--simulators", "moon"), "--simulators names 'moon'; write some of travel, vehicle"),
        (("--prompt-tokens", "many"), "--prompt-tokens is 'many'; write one number or more"),
        (("--tasks", "3"), "--tasks is 3; a shift has 8 or more"),
        (("--arms", "best"), "--arms names 'best'"),
        (("--tasks", "13"), "travel has 12 tasks that a shift can use, and 13 are wanted"),
        (("--python", "no-such-python"), "`no-such-python"),
        (("--answers-wait",), "--answers-wait needs --answers FOLDER"),
    ],
)
def test_what_can_not_be_is_refused_in_a_line(
    options: tuple[str, ...], complaint: str, shifting: Evaluation
) -> None:
    shifting.refuse(complaint, *options)


# --- The simulators' side ------------------------------------------------------------------------


def test_where_the_package_index_is_away_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        said = "WARNING: retrying\nERROR: No matching distribution found for bfcl-eval\nmore"
        return subprocess.CompletedProcess([], 1, "", said)

    monkeypatch.setattr(venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(world.subprocess, "run", refuse)
    with pytest.raises(WorldError) as failed:
        prepare_environment(tmp_path / "environment")
    assert "No matching distribution" in str(failed.value)
    assert "--python" in str(failed.value)


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[object] = []

    def create(folder: Path, **_: object) -> None:
        folder.mkdir()
        made.append(folder)

    monkeypatch.setattr(venv, "create", create)
    monkeypatch.setattr(
        world.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, "", "")
    )
    first = prepare_environment(tmp_path / "environment")
    assert prepare_environment(tmp_path / "environment") == first
    assert made == [tmp_path / "environment"]


def test_a_process_that_ends_is_named(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text("", "utf-8")
    with World([sys.executable, str(script)]) as gone, pytest.raises(WorldError, match=r"ends\.py"):
        gone.tasks("TravelAPI", [])


def test_a_call_that_a_simulator_refuses_is_an_answer(day: Shift) -> None:
    with World([sys.executable, str(WORKER)]) as simulators:
        simulators.open("flight-0")
        with pytest.raises(world.RefusedError, match="there is no booking B9"):
            simulators.call("cancel_booking", {"booking_id": "B9"})
        assert simulators.grade([]) == []
        assert simulators.grade(day.tasks[0].expected) == ["TravelAPI.bookings"]


@pytest.mark.parametrize("calls", [2, 9])
def test_calls_of_one_answer_are_made_in_its_order(calls: int, day: Shift) -> None:
    made: list[str] = []
    is_first = threading.Event()

    def note(call: Call, result: str) -> None:
        del result
        if not is_first.is_set():
            is_first.set()
            time.sleep(0.2)
        made.append(call["arguments"]["call"])

    order = CallOrder()
    asked = [
        {"name": "hand_over", "args": {"call": str(at)}, "id": f"c{at}"} for at in range(calls)
    ]
    asked.insert(1, {"name": "unknown", "args": {}, "id": "u"})
    with World([sys.executable, str(WORKER)]) as simulators:
        tools = build_tools(day, simulators, note, order)
        said = iter([AIMessage("", tool_calls=asked), AIMessage("Done.")])
        agent = create_memory_agent(
            ScriptedChatModel(lambda _: next(said)),
            tools,
            memory=ObservationalMemory(enabled=False),
            checkpointer=InMemorySaver(),
        )
        config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [order]}
        agent.invoke({"messages": [("user", "Hand all over.")]}, config)
    assert made == [str(at) for at in range(calls)]


def test_a_shift_has_one_name_in_all_processes() -> None:
    script = (
        "from evaluation.running import digest_of; print(digest_of(frozenset(map(str, range(9)))))"
    )
    names = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "examples")},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(names) == 1


def test_calls_are_read_as_python() -> None:
    def sort(file_name: str, *args: str, order: str) -> None: ...

    assert read_call("sort('a.txt', order='up')", lambda _: sort) == call(
        "sort", file_name="a.txt", order="up"
    )
    with pytest.raises(ValueError, match="is no call"):
        read_call("1 + 1", lambda _: sort)


def test_the_benchmarks_types_become_json_schema(tmp_path: Path) -> None:
    docs = tmp_path / "multi_turn_func_doc"
    docs.mkdir()
    number = {"type": "float", "description": "How much.", "default": 1.0}
    tool = {
        "name": "fund_account",
        "description": "This tool belongs to trading. Tool description: Fund it.",
        "parameters": {"type": "dict", "properties": {"amount": number}, "required": ["amount"]},
    }
    (docs / "trading_bot.json").write_text(f"{json.dumps(tool)}\n", "utf-8")
    simulators = object.__new__(Simulators)
    simulators._data = tmp_path
    (told,) = simulators.tools(["TradingBot"])
    assert told["description"] == "Fund it."
    amount = {"type": "number", "description": "How much."}
    wanted = {"type": "object", "properties": {"amount": amount}, "required": ["amount"]}
    assert told["parameters"] == wanted

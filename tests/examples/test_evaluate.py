"""The evaluation: its formats, its rules by tables of cases, and whole runs with doubles."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from evaluation import doubles, running
from evaluation.formats import (
    CATEGORIES,
    QUESTION_TYPES,
    Dataset,
    FormatError,
    Question,
    choose,
    read_files,
)
from evaluation.reporting import bootstrap, interval, joint, wilson
from evaluation.rules import ask, contains, judge_prompts, locomo_score, read_verdict
from evaluation.spending import Price, add, read_price
from evaluation.stemming import stem
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_om.testing import ScriptedChatModel
from support.evaluation import (
    EXAMPLES,
    KEYS,
    LOCOMO,
    LONGMEMEVAL,
    ROOT,
    SMALL,
    Evaluation,
    Judged,
    Row,
)

# --- Whole runs ----------------------------------------------------------------------------------


def spent_by(found: Row) -> set[tuple[str, str]]:
    return {(row["part"], row["phase"]) for row in found["tokens"]["rows"]}


@pytest.mark.parametrize("memory", ["observational", "full", "trim", "summary", "deepagents"])
@pytest.mark.parametrize("file", [LONGMEMEVAL, LOCOMO])
def test_every_memory_answers_every_question(
    file: Path, memory: str, evaluation: Evaluation
) -> None:
    limits = SMALL if file == LOCOMO else ("--message-tokens", 150, "--observation-tokens", 150)
    found = evaluation.figures(file, "--memory", memory, *limits)
    is_locomo = file == LOCOMO
    asked = 9 if is_locomo else 7
    (table,) = found["scores"].values()
    assert found["questions"] == asked == sum(row["count"] for row in table["categories"].values())
    assert list(table["categories"]) == list(CATEGORIES.values() if is_locomo else QUESTION_TYPES)
    assert set(found["errors"].values()) == {0}
    assert 0 < table["overall"]["all questions"]["score"] < 1
    remembering = {
        "observational": {("observer", "remembering")},
        "full": set(),
        "trim": set(),
        "summary": {("summarizer", "remembering")},
        "deepagents": {("summarizer", "remembering")},
    }
    if is_locomo or memory not in (
        "summary",
        "deepagents",
    ):  # the others are shorter than what a summary keeps
        assert remembering[memory] <= spent_by(found)
    assert ("actor", "asking") in spent_by(found)
    assert (found["recalls"] > 0) == (memory == "observational")
    assert any("test the plumbing" in caveat for caveat in found["caveats"])


def test_a_question_finds_the_memory_of_all_sessions(evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, *SMALL)
    calls = {(row["part"], row["phase"]): row["calls"] for row in found["tokens"]["rows"]}
    assert calls["observer", "remembering"] == 4
    # Each question alone is new, with what is recalled for it.
    assert calls["observer", "asking"] <= found["questions"]


def test_means_are_over_categories_and_over_questions(evaluation: Evaluation) -> None:
    found = evaluation.figures(LONGMEMEVAL, "--memory", "full")
    table = found["scores"]["judge offline"]
    categories = {name: row["score"] for name, row in table["categories"].items()}
    assert categories == {
        "single-session-user": 1.0,
        "single-session-assistant": 1.0,
        "single-session-preference": 0.0,
        "multi-session": 0.0,
        "temporal-reasoning": 0.0,
        "knowledge-update": 1.0,
    }
    overall = {name: row["score"] for name, row in table["overall"].items()}
    assert overall == {
        "mean over categories": pytest.approx(3 / 6),
        "all questions": pytest.approx(4 / 7),
        "abstention": 1.0,
    }
    for row in [*table["categories"].values(), *table["overall"].values()]:
        assert row["low"] <= row["score"] <= row["high"]
        assert row["high"] - row["low"] > 0.1
    assert any("not the benchmark's score" in caveat for caveat in found["caveats"])


def test_a_newcomer_runs_it_from_the_root(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "examples/evaluate.py", LOCOMO, *map(str, SMALL), "--work", tmp_path],
        cwd=ROOT,
        env={**kept, "PYTHONUTF8": "1", "FORCE_COLOR": "1"},
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("LoCoMo: 9 questions about 1 conversations, memory: observation")
    assert re.search(
        r"^all questions +9 +0 +0\.\d{3}  0\.\d{3} to 0\.\d{3}$", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"^observer +remembering +offline +\d+ +\d+ +0 +\d+$", done.stdout, re.MULTILINE
    )
    assert "questions that failed, counted as wrong: none" in done.stdout
    assert "9 of 9 questions" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_workers_make_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for workers in (1, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        options = (LONGMEMEVAL, *SMALL, "--conversations", 3, "--workers", workers)
        found.append(Evaluation(folder, capsys).figures(*options))
    assert found[0] == found[1]


def test_cost_is_shown_when_every_model_has_a_price(evaluation: Evaluation) -> None:
    assert evaluation.figures(LOCOMO)["tokens"]["cost"] is None
    found = evaluation.figures(LOCOMO, "--price", "offline=10,100")
    spent = add({row["phase"]: row} for row in found["tokens"]["rows"])["asking"]
    expected = (spent["input"] * 10 + spent["output"] * 100) / 1_000_000
    assert found["tokens"]["cost"] == pytest.approx(expected)
    _, printed, _ = evaluation.run(LOCOMO, "--price", "offline=10,100")
    assert f"cost: {expected:.4f}" in printed


# --- What the Actor is shown ---------------------------------------------------------------------


class Recorder:
    """Plays the Actor as the double does, and keeps what it was shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prompts: list[list[BaseMessage]] = []
        self._actor = doubles.actor()
        monkeypatch.setattr(doubles, "actor", lambda: ScriptedChatModel(actor=self._answer))

    def _answer(self, prompt: list[BaseMessage]) -> AIMessage:
        self.prompts.append(prompt)
        return self._actor.invoke(prompt)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def test_questions_do_not_see_each_other(recorder: Recorder, evaluation: Evaluation) -> None:
    evaluation.figures(LOCOMO, *SMALL)
    questions = [each.text for each in read_files([LOCOMO]).conversations[0].questions]
    shown = ["\n".join(message.text for message in prompt) for prompt in recorder.prompts]
    assert sum(isinstance(prompt[-1], ToolMessage) for prompt in recorder.prompts) == len(questions)
    for text in shown:
        assert sum(question in text for question in questions) == 1


def test_nothing_gives_an_answer_away(recorder: Recorder, evaluation: Evaluation) -> None:
    evaluation.figures(LONGMEMEVAL, *SMALL)
    assert any(isinstance(prompt[-1], ToolMessage) for prompt in recorder.prompts)
    for prompt in recorder.prompts:
        whole = "".join(repr(message) for message in prompt)
        assert not re.search(r"_abs|answer_\d|filler_|has_answer", whole)


@pytest.mark.parametrize("memory", ["full", "summary"])
def test_sessions_come_in_the_order_of_time_with_their_dates(
    memory: str, recorder: Recorder, evaluation: Evaluation
) -> None:
    only = ("--only-category", "temporal-reasoning")
    evaluation.figures(LONGMEMEVAL, "--memory", memory, *only)
    (prompt,) = recorder.prompts
    dates = re.findall(r"A session begins: (.+?)\]", "\n".join(m.text for m in prompt))
    assert dates == [
        "Monday, 12 August 2024, 11:45",
        "Friday, 16 August 2024, 13:15",
        "Wednesday, 21 August 2024, 17:05",
    ]
    assert prompt[-1].text.startswith("Today is Friday, 30 August 2024, 14:00.\n\nHow many days")


def test_memory_lives_at_the_time_of_the_conversation(
    recorder: Recorder, evaluation: Evaluation
) -> None:
    options = ("--only-category", "knowledge-update", "--message-tokens", 60)
    evaluation.figures(LONGMEMEVAL, *options)
    observed = recorder.prompts[-1][0].text
    assert "Date: Sep 26, 2024 (5 days ago)" in observed


def test_recall_can_be_left_out(recorder: Recorder, evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, *SMALL, "--no-recall", "--limit", 2)
    assert found["recalls"] == 0
    assert not list(evaluation.folder.rglob("archive.db"))
    assert "<observations>" in recorder.prompts[-1][0].text


# --- Going on ------------------------------------------------------------------------------------


def test_a_run_that_was_killed_within_a_row_goes_on(evaluation: Evaluation) -> None:
    whole = evaluation.figures(LOCOMO, *SMALL)
    file = evaluation.folder / "work" / "results.jsonl"
    rows = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([*rows[:6], rows[6][:20]]), encoding="utf-8")
    assert evaluation.figures(LOCOMO, *SMALL) == whole
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    assert Counter(json.loads(line)["kind"] for line in kept) == {"session": 4, "answer": 9}


@pytest.mark.parametrize("memory", ["observational", "summary"])
def test_an_interrupted_run_goes_on_wherever_it_stopped(
    memory: str, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (LOCOMO, *SMALL, "--memory", memory, "--judge", "offline")
    write = running.Journal.write
    for stop in (0, 2, 3, 6):
        left = [stop]

        def counted(journal: Any, *args: Any, left: list[int] = left, **values: Any) -> Row:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return write(journal, *args, **values)

        monkeypatch.setattr(running.Journal, "write", counted)
        code, printed, errors = evaluation.run(*options)
        assert (code, printed) == (130, "")
        assert "goes on from here" in errors
    monkeypatch.setattr(running.Journal, "write", write)
    found = evaluation.figures(*options)
    assert len(evaluation.rows("answer")) == found["questions"] == 9
    sessions = Counter(row["session"] for row in evaluation.rows("session"))
    assert sessions == {1: 1, 2: 1, 3: 1, 4: 1}


def forbid_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChatModel(actor=RuntimeError("the Actor was asked again"))
    monkeypatch.setattr(doubles, "actor", lambda: model)


def test_a_finished_run_asks_no_model_again(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluation.figures(LOCOMO, *SMALL)
    forbid_actors(monkeypatch)
    assert evaluation.figures(LOCOMO, *SMALL) == first
    judged = evaluation.figures(LOCOMO, *SMALL, "--judge", "offline")
    assert set(judged["scores"]) == {"judge offline", "F1"}
    assert judged["scores"]["F1"] == first["scores"]["F1"]
    assert len(evaluation.rows("verdict")) == 7, "the adversarial ones need no judge"


def test_other_settings_are_another_run(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation.figures(LOCOMO, *SMALL)
    forbid_actors(monkeypatch)
    # The other seed offers the choices of the two adversarial questions the other way round.
    changes = {"--message-tokens=299": 9, "--no-recall": 9, "--memory=full": 9, "--seed=2": 2}
    for change, asked_anew in changes.items():
        found = evaluation.figures(LOCOMO, *SMALL, change, code=1)
        assert found["errors"]["answer"] == asked_anew, change


# --- Failures ------------------------------------------------------------------------------------


def test_a_failed_question_counts_as_wrong_and_is_tried_again(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = doubles.actor()

    def fails(prompt: list[BaseMessage]) -> AIMessage:
        if "accordion" in "".join(message.text for message in prompt):
            msg = "the provider is down"
            raise ConnectionError(msg)
        return whole.invoke(prompt)

    with monkeypatch.context() as patch:
        patch.setattr(doubles, "actor", lambda: ScriptedChatModel(actor=fails))
        found = evaluation.figures(LONGMEMEVAL, "--memory", "full", code=1)
        _, printed, _ = evaluation.run(LONGMEMEVAL, "--memory", "full")
    assert found["errors"] == {"memory": 0, "answer": 1, "judge": 0}
    users = found["scores"]["judge offline"]["categories"]["single-session-user"]
    assert (users["count"], users["errors"], users["score"]) == (2, 1, 0.5)
    assert "counted as wrong: 1 in answer" in printed
    assert "1 x answer: ConnectionError: the provider is down" in printed
    again = evaluation.figures(LONGMEMEVAL, "--memory", "full")
    assert set(again["errors"].values()) == {0}
    assert again["scores"]["judge offline"]["categories"]["single-session-user"]["score"] == 1


def test_an_empty_answer_is_a_failure_that_was_paid_for(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubles, "actor", lambda: ScriptedChatModel(actor=" "))
    found = evaluation.figures(LOCOMO, "--memory", "full", code=1)
    assert found["errors"]["answer"] == 9
    (spent,) = found["tokens"]["rows"]
    assert (spent["calls"], spent["phase"]) == (9, "asking")
    assert spent["input"] > 0


def test_a_conversation_that_is_not_remembered_fails_alone(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(prompt: list[BaseMessage]) -> str:
        if "gooseberry" in prompt[-1].text:
            msg = "no summary today"
            raise ValueError(msg)
        return "A summary."

    monkeypatch.setattr(doubles, "memory_model", lambda: ScriptedChatModel(actor=broken))
    # LangChain tries three times, with pauses in between.
    monkeypatch.setattr("time.sleep", lambda _: None)
    options = ("--memory", "summary", "--message-tokens", 20)
    text = LONGMEMEVAL.read_text(encoding="utf-8")
    rows = [row for row in json.loads(text) if row["question_id"] in ("q-multi", "q-update")]
    for row in rows:  # a summary keeps the newest messages as they are
        row["haystack_sessions"][-1] *= 12
    file = evaluation.folder / "two.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    found = evaluation.figures(file, *options, code=1)
    assert found["errors"] == {"memory": 1, "answer": 0, "judge": 0}
    assert found["questions"] == 2


def test_failed_observations_are_counted_and_told(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedChatModel(observer="I can not do that.", reflector="Nor that.")
    monkeypatch.setattr(doubles, "memory_model", lambda: model)
    found = evaluation.figures(LOCOMO, *SMALL, "--limit", 2)
    assert found["memory failures"] > 0
    assert any("went on with raw messages" in caveat for caveat in found["caveats"])


# --- A judge -------------------------------------------------------------------------------------


def test_a_model_judges_longmemeval(evaluation: Evaluation, judged: Judged) -> None:
    asked = judged(lambda text: "Yes." if "ready" in text else "no")
    options = ("--memory", "full", "--judge", "openai/gpt-6-sol", "--price", "openai/gpt-6-sol=1,1")
    found = evaluation.figures(LONGMEMEVAL, *options)
    assert len(asked) == 7
    table = found["scores"]["judge openai/gpt-6-sol"]["categories"]
    assert [name for name, row in table.items() if row["score"]] == ["temporal-reasoning"]
    judge = next(row for row in found["tokens"]["rows"] if row["part"] == "judge")
    assert (judge["calls"], judge["model"]) == (7, "openai/gpt-6-sol")
    assert judge["input"] > judge["output"] > 0
    assert judge["cost"] is not None
    assert found["tokens"]["cost"] is None, "the Actor has no price"
    assert not any("not the benchmark's score" in caveat for caveat in found["caveats"])


def test_a_judge_that_says_neither_is_an_error_and_leaves_f1(
    evaluation: Evaluation, judged: Judged
) -> None:
    judged(lambda text: "Hm." if "almond" in text else "YES")
    options = (LOCOMO, "--memory", "full", "--judge", "openai/gpt-6-sol")
    found = evaluation.figures(*options, code=1)
    assert found["errors"] == {"memory": 0, "answer": 0, "judge": 1}
    by_judge, own = found["scores"].values()
    assert by_judge["categories"]["single-hop"]["errors"] == 1
    assert by_judge["categories"]["single-hop"]["score"] == pytest.approx(2 / 3)
    assert own["categories"]["single-hop"]["errors"] == 0
    assert own["categories"]["single-hop"]["score"] > 0
    calls = next(row["calls"] for row in found["tokens"]["rows"] if row["part"] == "judge")
    assert calls == 7


# --- The rules -----------------------------------------------------------------------------------


def question(category: str = "single-hop", answer: str = "", **others: Any) -> Question:
    moment = datetime(2024, 5, 30, 23, 40, tzinfo=UTC)
    return Question("q", "Which one?", answer, category, moment, **others)


@pytest.mark.parametrize(
    ("category", "reference", "answer", "score"),
    [
        ("single-hop", "almond oil", "almond oil", 1.0),
        ("single-hop", "almond oil", "The almond oil!", 1.0),
        ("single-hop", "almond oil", "It is almond oil", 2 * 2 / (4 + 2)),
        ("single-hop", "almond oil", "olive", 0.0),
        ("single-hop", "almond oil", "", 0.0),
        ("single-hop", "painting and pottery", "He paints pottery.", 2 * 2 / (2 + 3)),
        ("single-hop", "the cat the cat", "cat", 2 * 1 / (2 + 1)),
        ("single-hop", "1,800 euros", "1800 euro", 1.0),
        ("single-hop", "mother-in-law", "mother in law", 0.0),
        ("temporal", "7 May 2023", "7 May, 2023", 1.0),
        ("temporal", "2022", "In 2022", 2 * 1 / (1 + 2)),
        ("open-domain", "Likely yes; she has patience", "likely yes", 1.0),
        ("open-domain", "Likely yes; she has patience", "she has patience", 0.0),
        ("single-hop", "Likely yes; she has patience", "likely yes", 2 * 2 / (2 + 5)),
        ("multi-hop", "bowls, mugs, plates", "plates, bowls", 2 / 3),
        ("multi-hop", "bowls, mugs", "bowls and mugs", 2 * 1 / (1 + 2)),
        ("multi-hop", "bowls", "mugs, bowls", 1.0),
        ("single-hop", "bowls", "mugs, bowls", 2 * 1 / (1 + 2)),
        ("adversarial", "", "Not mentioned in the conversation", 1.0),
        ("adversarial", "", "There is NO INFORMATION AVAILABLE on that.", 1.0),
        ("adversarial", "", "That was never said.", 0.0),
        ("adversarial", "", "her wrist", 0.0),
    ],
)
def test_locomo_score(category: str, reference: str, answer: str, score: float) -> None:
    assert locomo_score(question(category, reference), answer) == pytest.approx(score)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("caresses", "caress"), ("ponies", "poni"), ("dies", "die"), ("flies", "fli")),
        *(("ties", "tie"), ("news", "news"), ("running", "run"), ("hopping", "hop")),
        *(("falling", "fall"), ("filing", "file"), ("agreed", "agre"), ("feed", "feed")),
        *(("tried", "tri"), ("dying", "die"), ("enjoy", "enjoy"), ("happy", "happi")),
        *(("say", "say"), ("by", "by"), ("relational", "relat"), ("conditional", "condit")),
        *(("digitizer", "digit"), ("conformably", "conform"), ("radically", "radic")),
        *(("apology", "apolog"), ("differently", "differ"), ("hopefulness", "hope")),
        *(("formality", "formal"), ("sensibility", "sensibl"), ("triplicate", "triplic")),
        *(("electrical", "electr"), ("goodness", "good"), ("revival", "reviv")),
        *(("adjustable", "adjust"), ("replacement", "replac"), ("adoption", "adopt")),
        *(("probate", "probat"), ("cease", "ceas"), ("controll", "control"), ("roll", "roll")),
        *(("one", "one"), ("on", "on"), ("outings", "outing"), ("skies", "sky")),
        *(("hopeful", "hope"), ("isabelle", "isabel"), ("trying", "tri"), ("as", "as")),
    ],
)
def test_stems_are_those_of_nltk(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_a_long_word_is_stemmed_in_time() -> None:
    assert stem("ab" * 20_000 + "ing") == "ab" * 20_000


@pytest.mark.parametrize(
    ("reference", "has_answer", "answer", "score"),
    [
        ("an accordion", True, "It was an Accordion, with a strap.", 1.0),
        ("an accordion", True, "accordions", 0.0),
        ("11", True, "You made 11 jars.", 1.0),
        ("11", True, "You made 111 jars.", 0.0),
        ("It was never said.", False, "Not mentioned in the conversation", 1.0),
        ("It was never said.", False, "I do not know.", 1.0),
        ("It was never said.", False, "It was never said.", 0.0),
    ],
)
def test_the_offline_judge_looks_for_the_reference(
    reference: str,
    has_answer: bool,  # noqa: FBT001
    answer: str,
    score: float,
) -> None:
    asked = question("multi-session", reference, has_answer=has_answer)
    assert contains(asked, answer) == score


@pytest.mark.parametrize(
    ("category", "has_answer", "said", "unsaid"),
    [
        ("single-session-user", True, "only a part", "off by one"),
        ("single-session-assistant", True, "every step that leads to it", "Rubric"),
        ("multi-session", True, "only a part", "Former states"),
        ("temporal-reasoning", True, "off by one (19 days instead of 18)", "Former states"),
        ("temporal-reasoning", False, "can not be answered", "off by one"),
        ("knowledge-update", True, "Former states may be mentioned", "off by one"),
        ("single-session-preference", True, "Rubric: R.", "Reference: R."),
        ("single-session-preference", False, "Reference: R.", "Rubric"),
    ],
)
def test_longmemeval_is_judged_by_type(
    category: str,
    has_answer: bool,  # noqa: FBT001
    said: str,
    unsaid: str,
) -> None:
    asked = question(category, "R.", has_answer=has_answer)
    (prompt,) = judge_prompts("LongMemEval", asked, "My answer.")
    assert said in prompt
    assert unsaid not in prompt
    assert "Question: Which one?" in prompt
    assert "Response: My answer." in prompt
    assert prompt.endswith("yes or no.")


def test_a_judge_of_locomo_is_generous() -> None:
    (prompt,) = judge_prompts("LoCoMo", question("temporal", "R."), "My answer.")
    assert "touches on the same matter" in prompt
    assert "whatever form" in prompt


@pytest.mark.parametrize(
    ("reply", "score"),
    [("yes", 1.0), ("Yes.", 1.0), ("no", 0.0), ("NO, it is not", 0.0), ("**yes**", 1.0)],
)
def test_verdicts(reply: str, score: float) -> None:
    assert read_verdict(reply) == score


@pytest.mark.parametrize("reply", ["", "Yesterday.", "I know nothing of it", "maybe"])
def test_a_verdict_is_yes_or_no(reply: str) -> None:
    with pytest.raises(ValueError, match="neither yes nor no"):
        read_verdict(reply)


def test_adversarial_questions_offer_the_lure_in_either_place() -> None:
    asked = question("adversarial", lure="her wrist", has_answer=False)
    offered = [ask("LoCoMo", replace(asked, id=str(n))) for n in range(20)]
    places = {each.choices.index("her wrist") for each in offered if each.choices}
    assert places == {0, 1}
    for each in offered:
        assert each.choices is not None
        assert f"(a) {each.choices[0]} (b) {each.choices[1]}" in each.text
        assert [each.read(said) for said in ("a", "(a)", " B. ", "(b)")] == [
            *(each.choices[0], each.choices[0], each.choices[1], each.choices[1])
        ]
        assert each.read(" a bowl ") == "a bowl"
    assert ask("LoCoMo", asked) == ask("LoCoMo", asked)


@pytest.mark.parametrize("lure", ["", "Not mentioned"])
def test_a_question_without_a_lure_offers_no_choice(lure: str) -> None:
    asked = ask("LoCoMo", question("adversarial", lure=lure, has_answer=False))
    assert asked.choices is None
    assert asked.read("a") == "a"


# --- The files -----------------------------------------------------------------------------------


def load(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def as_messages(sample: Row) -> Row:
    """Write a LoCoMo conversation as a list of messages."""
    told = sample["conversation"]
    times = {1: "2024-02-03T19:05", 2: "2024-03-16T12:40", 3: "2024-05-05T09:15"}
    messages = [
        {
            "id": turn["dia_id"],
            "role": "user" if turn["speaker"] == told["speaker_a"] else "assistant",
            "name": turn["speaker"],
            "content": turn["text"]
            + (f" [shares a picture: {turn['blip_caption']}]" if "blip_caption" in turn else ""),
            "created_at": {**times, 4: "2024-07-21T18:30"}[session],
            "session": session,
        }
        for session in range(1, 5)
        for turn in told[f"session_{session}"]
    ]
    questions = [
        {key: value for key, value in row.items() if key != "adversarial_answer"}
        | {"answer": row.get("answer", row.get("adversarial_answer"))}
        for row in sample["qa"]
    ]
    return {"id": sample["sample_id"], "messages": messages, "questions": questions}


def test_both_forms_of_locomo_are_read_alike(tmp_path: Path) -> None:
    (sample,) = load(LOCOMO)
    file = tmp_path / "messages.json"
    file.write_text(json.dumps(as_messages(sample)), encoding="utf-8")
    original = read_files([LOCOMO])
    assert read_files([file]) == original
    (conversation,) = original.conversations
    first = conversation.sessions[0].messages()
    assert first[0].text.startswith("[A session begins: Saturday, 03 February 2024, 19:05]\n\nPet")
    assert first[2].text.endswith(
        "[shares a picture: a photo of a crooked blue bowl on a windowsill]"
    )
    assert [message.id for message in first[:2]] == ["S1:1", "S1:2"]
    assert [message.type for message in first[:2]] == ["human", "ai"]
    assert conversation.questions[3].answer == "2024"
    assert [each.lure for each in conversation.questions if not each.has_answer] == [
        *("her wrist", "blue")
    ]


def test_files_of_one_benchmark_are_read_together(tmp_path: Path) -> None:
    (sample,) = load(LOCOMO)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**sample, "sample_id": "other"}), encoding="utf-8")
    assert [each.id for each in read_files([LOCOMO, other]).conversations] == ["tannery", "other"]
    with pytest.raises(FormatError, match="there twice"):
        read_files([LOCOMO, LOCOMO])
    with pytest.raises(FormatError, match="LoCoMo and LongMemEval"):
        read_files([LOCOMO, LONGMEMEVAL])


def without(key: str) -> Callable[[Row], Row]:
    return lambda row: {name: value for name, value in row.items() if name != key}


def with_value(key: str, value: object) -> Callable[[Row], Row]:
    return lambda row: {**row, key: value}


def in_conversation(change: Callable[[Row], Row]) -> Callable[[Row], Row]:
    return lambda row: {**row, "conversation": change(row["conversation"])}


def in_messages(change: Callable[[Row], Row]) -> Callable[[Row], Row]:
    def changed(row: Row) -> Row:
        talk = as_messages(row)
        return {**talk, "messages": [change(talk["messages"][0]), *talk["messages"][1:]]}

    return changed


@pytest.mark.parametrize(
    ("file", "change", "complaint"),
    [
        (LONGMEMEVAL, without("question_type"), "has no `question_type`; its keys are question_id"),
        (LONGMEMEVAL, with_value("question_type", "hard"), "is 'hard'; write one of single-sess"),
        (LONGMEMEVAL, with_value("haystack_dates", []), "3 `haystack_sessions` and 0 `haystack_d"),
        (LONGMEMEVAL, with_value("haystack_dates", ["soon"] * 3), "session 1: `haystack_dates` is"),
        (LONGMEMEVAL, with_value("question_date", "2024"), "`question_date` is '2024'; write"),
        (LONGMEMEVAL, with_value("question", None), "`question` is None; write a value of type st"),
        (LONGMEMEVAL, with_value("haystack_sessions", [[{"role": "user"}]] * 3), "no `content`"),
        (
            LONGMEMEVAL,
            with_value("haystack_sessions", [[{"role": "tool", "content": "x"}]] * 3),
            "session 1, turn 1: `role` is 'tool'",
        ),
        (LONGMEMEVAL, with_value("haystack_sessions", [[]] * 3), "no session with anything said"),
        (LONGMEMEVAL, with_value("haystack_sessions", "x"), "`haystack_sessions` is 'x'"),
        (LONGMEMEVAL, with_value("haystack_sessions", [["x"]] * 3), "turn 1 is 'x'; write an obj"),
        (LONGMEMEVAL, without("haystack_sessions"), "is none of the formats read here"),
        (LOCOMO, without("qa"), "('tannery') has no `qa`"),
        (LOCOMO, without("conversation"), "has no `conversation`"),
        (LOCOMO, in_conversation(without("speaker_a")), "has no `speaker_a`"),
        (LOCOMO, in_conversation(with_value("speaker_a", "Kim")), "`speaker` is 'Petra'"),
        (LOCOMO, in_conversation(without("session_2_date_time")), "no `session_2_date_time`"),
        (LOCOMO, in_conversation(with_value("session_2_date_time", "May")), "1:56 pm on 8 May, 2"),
        (LOCOMO, with_value("qa", [{"question": "?", "answer": "", "category": 6}]), "is 6; write"),
        (
            LOCOMO,
            with_value("qa", [{"question": "?", "category": 4}]),
            "question 1 has no `answer`",
        ),
        (LOCOMO, with_value("qa", []), "no question is left to ask"),
        (LOCOMO, in_messages(without("name")), "message 1 has no `name`"),
        (LOCOMO, in_messages(with_value("created_at", "noon")), "`created_at` is 'noon'"),
        (LOCOMO, in_messages(with_value("role", "system")), "`role` is 'system'; write 'user'"),
        (LOCOMO, lambda _: {}, "is none of the formats read here: a LongMemEval list"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_place(
    file: Path, change: Callable[[Row], Row], complaint: str, evaluation: Evaluation
) -> None:
    rows = load(file)
    bad = evaluation.folder / "bad.json"
    bad.write_text(json.dumps([change(rows[0])]), encoding="utf-8")
    evaluation.refuse(complaint, bad)


@pytest.mark.parametrize("content", [None, "{", "[]", "3"])
def test_a_file_has_to_be_json_with_something_in_it(
    content: str | None, evaluation: Evaluation
) -> None:
    bad = evaluation.folder / "bad.json"
    if content is not None:
        bad.write_text(content, encoding="utf-8")
    evaluation.refuse("bad.json", bad)


# --- Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--only-category", "hard"), "LoCoMo has multi-hop, temporal"),
        (("--only-category", "9"), "no category '9'"),
        (("--actor", "nonsense"), "pass 'provider/model'"),
        (("--judge", "nowhere/model"), "'nowhere' is no known provider"),
        (("--price", "offline"), "write MODEL=INPUT,OUTPUT"),
        (("--price", "offline=1"), "write MODEL=INPUT,OUTPUT"),
        (("--price", "offline=1,-2"), "write MODEL=INPUT,OUTPUT"),
        (("--price", "openai/gpt-6-luna=1,2"), "the run calls offline"),
        (("--message-tokens", "1", "--observation-tokens", "1"), "_tokens"),
        (("--json", "no/such/folder/figures.json"), "--json"),
        (("--arms", "best"), "--arms names 'best'; write some of full, trim, summary, deepagents"),
        (("--arms", "all", "--no-recall"), "--no-recall is for one memory"),
        (("--prompt-tokens", "900", "--message-tokens", "10"), "in place of --message-tokens"),
        (("--prompt-tokens", "900", "--observation-tokens", "10"), "in place of"),
        (("--prompt-tokens", "9"), "`token_budget` is 9"),
        (("--observer", "file"), "say with --answers FOLDER"),
        (("--judge", "file"), "say with --answers FOLDER"),
        (("--answers", "x", "--actor", "offline"), "and none is"),
        (("--answers-wait",), "--answers-wait needs --answers FOLDER"),
        (("--answers-stay",), "--answers-stay needs --answers FOLDER"),
    ],
)
def test_a_bad_option_is_refused_before_the_run(
    options: tuple[str, ...], complaint: str, evaluation: Evaluation
) -> None:
    evaluation.refuse(complaint, LOCOMO, *options)
    assert not (evaluation.folder / "work").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--limit", "0"), "0 is too small; write 1 or more"),
        (("--arms", "all", "--memory", "full"), "not allowed with"),
    ],
)
def test_a_bad_option_is_refused_with_the_usage(
    options: tuple[str, ...], complaint: str, evaluation: Evaluation
) -> None:
    code, _, errors = evaluation.run(LOCOMO, *options)
    assert code == 2
    assert complaint in errors


def ids(dataset: Dataset) -> list[str]:
    return [question.id for each in dataset.conversations for question in each.questions]


def test_questions_are_drawn_by_the_seed() -> None:
    dataset = read_files([LONGMEMEVAL])
    assert ids(choose(dataset)) == ids(dataset)
    drawn = [ids(choose(dataset, limit=3, seed=seed)) for seed in range(8)]
    assert all(len(each) == 3 and each == [i for i in ids(dataset) if i in each] for each in drawn)
    assert drawn[0] == ids(choose(dataset, limit=3, seed=0))
    assert len({tuple(each) for each in drawn}) > 3
    assert ids(choose(dataset, limit=99)) == ids(dataset)
    assert ids(choose(dataset, conversations=2)) == ids(dataset)[:2]
    assert ids(choose(dataset, categories=["multi-session"])) == ["q-multi"]


def test_a_category_may_be_named_by_its_number(evaluation: Evaluation) -> None:
    found = evaluation.figures(
        *(LOCOMO, "--memory", "full", "--only-category", "2", "--only-category", "adversarial")
    )
    (table,) = found["scores"].values()
    counts = {name: row["count"] for name, row in table["categories"].items()}
    assert counts == {"temporal": 2, "adversarial": 2}


def test_a_summary_says_what_to_install(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "langchain.agents", None)
    code, printed, _ = evaluation.run(LOCOMO, "--memory", "summary")
    assert printed == ""
    assert "pip install 'langgraph-om[deepagents,examples]'" in str(code)


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("memories", "running", "judging", "reporting"):
        monkeypatch.delitem(sys.modules, f"evaluation.{room}")
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    with pytest.raises(SystemExit, match=re.escape("pip install 'langgraph-om[examples]'")):
        runpy.run_path(str(EXAMPLES / "evaluate.py"), run_name="__main__")


# --- Figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [
        # As published for Wilson's method without a correction of continuity.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson(hits: int, count: int, low: float, high: float) -> None:
    assert wilson(hits, count) == pytest.approx((low, high), abs=5e-5)
    scores = [1.0] * hits + [0.0] * (count - hits)
    assert interval(scores) == wilson(hits, count)


def test_bootstrap_is_the_same_each_time_and_narrows_with_more_questions() -> None:
    few = [0.1, 0.9, 0.4, 0.35, 0.8, 0.0, 1.0, 0.5]
    low, high = bootstrap(few)
    assert interval(few) == (low, high) == bootstrap(few)
    assert bootstrap(few, seed=1) != (low, high)
    assert 0.2 < low < 0.50625 < high < 0.8
    assert interval([0.4]) == (0, 1)
    narrow = bootstrap(few * 9)
    assert narrow[1] - narrow[0] == pytest.approx((high - low) / 3, rel=0.15)


def test_the_interval_over_categories_is_made_of_theirs() -> None:
    rows = [{"score": 0.5, "low": 0.2, "high": 0.9}, {"score": 0.7, "low": 0.3, "high": 1.0}]
    assert joint(rows) == pytest.approx((0.6 - 0.25, 0.6 + 0.25))
    assert joint(rows[:1]) == pytest.approx((0.2, 0.9))


@pytest.mark.parametrize(
    ("text", "model", "cost"),
    [
        ("openai/gpt-6-luna=0.25,2", "openai/gpt-6-luna", 0.25 * 3 + 2),
        ("openai/gpt-6-luna=0.25,2,0.05", "openai/gpt-6-luna", 0.25 + 0.05 * 2 + 2),
        ("a=b/c=1,0", "a=b/c", 3.0),
    ],
)
def test_prices(text: str, model: str, cost: float) -> None:
    counts = {"calls": 1, "input": 3_000_000, "cached": 2_000_000, "output": 1_000_000}
    name, price = read_price(text)
    assert name == model
    assert price.of(counts) == pytest.approx(cost)
    assert Price(1, 1, 1).of(counts) == 4

"""The evaluation of several memories side by side, and of all within the same room."""

from __future__ import annotations

import re

import pytest
from evaluation import doubles, memories
from evaluation.comparing import ARMS, read_arms
from evaluation.spending import COUNTED

from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from support.evaluation import LOCOMO, SMALL, Evaluation, Row

NAMES = [
    *("full", "trim", "summary", "deepagents"),
    *("observational", "observational+recall"),
]


def test_all_arms_stand_side_by_side_in_one_report(evaluation: Evaluation) -> None:
    code, printed, errors = evaluation.run(LOCOMO, "--arms", "all", *SMALL)
    assert code == 0, errors
    heads = [line.split() for line in printed.splitlines() if line.split()[-6:] == NAMES]
    assert heads == [["F1", *NAMES], NAMES]
    cells = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    rows = {name: values for name, *values in cells}
    for name in (
        *("remembered at the end", "prompt at the end, mean", "prompt at the end, largest"),
        *("memory: calls", "of the observer", "of the reflector", "of the summarizer"),
        *("memory: input tokens", "memory: output tokens", "memory: cost", "recalls"),
    ):
        assert len(rows[name]) == len(NAMES), name
    for category in ("multi-hop (1)", "temporal (2)", "single-hop (3)", "adversarial (2)"):
        assert any(line.startswith(category) for line in printed.splitlines())
    assert f"{9 * len(NAMES)} of {9 * len(NAMES)} questions" in errors
    assert "full, trim, summary" not in printed, "each caveat says whose it is"


def test_each_arm_is_compared_by_worth_room_and_cost(evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, "--arms", "all", *SMALL, "--price", "offline=1,5")
    assert list(found["compared"]) == list(found["arms"]) == list(ARMS) == NAMES
    compared: Row = found["compared"]
    recalls = [arm for arm, row in compared.items() if row["recalls"]]
    assert recalls == ["observational+recall"]
    for arm in ("full", "trim"):
        assert compared[arm]["memory"]["calls"] == 0
    for arm in ("summary", "deepagents"):
        assert compared[arm]["memory"]["calls by part"]["summarizer"] > 0
    assert compared["observational"]["memory"]["calls by part"]["observer"] > 0
    for arm, row in compared.items():
        memory, prompt = row["memory"], row["prompt at the end"]
        tokens = found["arms"][arm]["tokens"]["rows"]
        for name in COUNTED:
            expected = sum(each[name] for each in tokens if each["part"] in memories_parts())
            assert memory[name] == expected
        assert memory["cost"] == pytest.approx((memory["input"] + 5 * memory["output"]) / 1e6)
        assert row["cost"] > memory["cost"]
        assert prompt["largest"] >= prompt["mean"] > row["remembered at the end"] > 0
    # Without a budget nothing bounds what deepagents' summary says of so short a chat.
    assert compared["full"]["remembered at the end"] > max(
        row["remembered at the end"]
        for arm, row in compared.items()
        if arm not in ("full", "deepagents")
    )


def memories_parts() -> set[str]:
    return {"observer", "reflector", "summarizer"}


@pytest.mark.parametrize("tokens", [200, 300, 400])
def test_every_arm_keeps_to_the_same_room(tokens: int, evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, "--arms", "all", "--prompt-tokens", tokens, "--limit", 1)
    assert found["prompt tokens"] == tokens
    held = {arm: row["remembered at the end"] for arm, row in found["compared"].items()}
    assert held.pop("full") > tokens
    assert max(held.values()) <= tokens
    assert min(held.values()) > tokens / 8, "and makes use of it"


@pytest.mark.parametrize("memory", ["summary", "deepagents"])
def test_a_summary_is_told_how_long_it_may_be(
    memory: str, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(prompt: list[memories.BaseMessage]) -> str:
        asked.append(prompt[-1].text)
        return "A summary."

    monkeypatch.setattr(doubles, "memory_model", lambda: ScriptedChatModel(actor=note))
    options = (LOCOMO, "--memory", memory, "--limit", 1)
    evaluation.figures(*options, "--prompt-tokens", 350)
    assert asked
    for text in asked:
        assert "Write at most 140 words." in text
        assert text.index("Write at most") < text.index("Messages to summarize:")
    asked.clear()
    evaluation.figures(*options, "--message-tokens", 100)
    assert not any("Write at most" in text for text in asked)


def test_an_arm_is_what_the_memory_is_by_itself(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = evaluation.figures(LOCOMO, "--arms", "observational+recall,full", *SMALL)["arms"]
    model = ScriptedChatModel(actor=RuntimeError("asked again"))
    monkeypatch.setattr(doubles, "actor", lambda: model)
    assert evaluation.figures(LOCOMO, *SMALL) == arms["observational+recall"]
    # What recall is set to is no part of what full history depends on.
    alone = evaluation.figures(LOCOMO, *SMALL, "--memory", "full", "--no-recall")
    assert alone == arms["full"]


def test_a_failure_in_one_arm_leaves_the_others(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubles, "memory_model", lambda: ScriptedChatModel(actor=ValueError("no")))
    monkeypatch.setattr("time.sleep", lambda _: None)  # LangChain tries again after a pause
    options = (LOCOMO, "--arms", "summary,full", "--prompt-tokens", 200)
    found = evaluation.figures(*options, code=1)
    errors = {arm: row["errors"] for arm, row in found["compared"].items()}
    assert errors == {"summary": 9, "full": 0}
    assert found["compared"]["summary"]["prompt at the end"] == {"mean": None, "largest": None}


def test_arms_are_chosen_by_name() -> None:
    assert read_arms("all") == NAMES
    assert read_arms("summary,full,summary") == ["summary", "full"]


def test_budget_and_thresholds_of_the_example_are_those_of_the_package() -> None:
    found = ObservationalMemory(ScriptedChatModel()).thresholds
    told = (memories.MESSAGE_TOKENS, memories.OBSERVATION_TOKENS)
    assert (found.message_tokens, found.observation_tokens) == told

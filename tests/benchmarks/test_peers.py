"""The comparison with other ways to shorten a conversation, on a short one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bench_peers
import peers
from conversation import conversation

THRESHOLD = 600
INSTRUCTIONS = 700
"""About what memory and recall tell the Actor in every prompt, in tokens."""
OURS = [name for name in peers.AGENTS if name.startswith(peers.OURS)]
NAMED = (peers.FULL, "trim_messages", "langchain SummarizationMiddleware", *OURS)
PLAIN = {name: peers.AGENTS[name] for name in NAMED}
MESSAGES, FACTS = bench_peers.with_facts(conversation(48, words=25, seed=4))


@pytest.fixture(scope="module")
def found() -> dict[str, bench_peers.Outcome]:
    outcomes = bench_peers.compare(MESSAGES, FACTS, agents=PLAIN, thresholds=[THRESHOLD])
    return {each.agent: each for each in outcomes}


def runs() -> int:
    return len(bench_peers.turns(MESSAGES))


@pytest.mark.parametrize("name", PLAIN)
def test_every_agent_answers_every_turn_and_the_question_at_the_end(
    found: dict[str, bench_peers.Outcome], name: str
) -> None:
    outcome = found[name]
    assert outcome.answers == len(outcome.sizes) == runs() + 1
    assert outcome.prompts.calls >= outcome.answers
    assert min(outcome.sizes) > 0
    assert 0 < outcome.prompts.share < 1
    assert outcome.bytes > 0
    assert outcome.seconds > 0


def test_full_history_shows_everything_and_asks_nobody_else(
    found: dict[str, bench_peers.Outcome],
) -> None:
    full = found[peers.FULL]
    assert full.facts == len(FACTS) > 3
    assert full.shown == full.reached == full.facts
    assert full.sizes == sorted(full.sizes)
    assert (full.waits, full.extra_calls, full.extra_output) == (0, 0, 0)


@pytest.mark.parametrize("name", OURS)
def test_memory_keeps_its_prompts_bounded(found: dict[str, bench_peers.Outcome], name: str) -> None:
    window_and_log = 1.2 * (THRESHOLD + THRESHOLD * 4 // 3)
    assert found[name].prompts.largest < window_and_log + INSTRUCTIONS


def test_only_without_buffering_a_turn_waits(found: dict[str, bench_peers.Outcome]) -> None:
    assert found[peers.OURS].waits == 0 < found[peers.OURS].extra_calls
    assert found["langgraph_om, buffering off"].waits > 0
    summarising = found["langchain SummarizationMiddleware"]
    assert summarising.waits == summarising.extra_calls > 0


def test_a_billed_token_of_the_cache_is_cheaper(found: dict[str, bench_peers.Outcome]) -> None:
    full, ours = found[peers.FULL], found[peers.OURS]
    assert 0.1 * full.prompts.tokens < full.billed < full.prompts.tokens
    assert ours.billed > bench_peers.read_price(ours.prompts) + ours.extra_output


@pytest.mark.parametrize(
    ("package", "name"),
    [("langmem", "langmem SummarizationNode"), ("deepagents", "deepagents summarisation")],
)
@pytest.mark.filterwarnings("default")
def test_an_agent_of_another_package_is_replayed_the_same_way(package: str, name: str) -> None:
    pytest.importorskip(package)
    agents = {name: peers.AGENTS[name]}
    (outcome,) = bench_peers.compare(MESSAGES, FACTS, agents=agents, thresholds=[THRESHOLD])
    assert outcome.answers == runs() + 1
    assert outcome.waits == outcome.extra_calls > 0
    assert outcome.prompts.largest < 3 * THRESHOLD
    # deepagents puts messages aside in a file that its agent can read; langmem drops them.
    assert (outcome.reached == outcome.facts) is (package == "deepagents")


def test_a_room_is_billed_by_price_and_cache() -> None:
    replayed = bench_peers.turns(MESSAGES)
    names = [name for name in peers.BILLED if "deepagents" not in name and "recall" not in name]
    full, summary, within, default = (
        bench_peers.replay(name, 600, replayed, [], peers.BILLED) for name in names
    )
    assert default.sizes[-1] >= full.sizes[-1], "nothing has left the window at 30,000 tokens"
    assert max(summary.sizes[-1], within.sizes[-1]) < full.sizes[-1]
    for each in (summary, within):
        assert each.bill(bench_peers.SMALL_PRICE) < each.bill()
        assert each.bill(is_cache_short=True) > each.bill()

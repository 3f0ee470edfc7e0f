"""Orders of a user after many reflections, in one short conversation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bench_standing as bench

pytestmark = pytest.mark.needs("standing")
SUMMARY = "langchain SummarizationMiddleware"


def test_only_memory_keeps_all_orders_in_a_short_prompt() -> None:
    outcomes = bench.compare([1], [SUMMARY, bench.BEFORE, bench.NOW], most=300)
    found = {each.agent: each for each in outcomes}
    full, now = found[bench.FULL], found[bench.NOW]
    assert full.orders == now.orders == full.kept == bench.ORDERS
    assert now.kept == now.named == bench.ORDERS
    assert now.fewest is not None
    assert now.fewest >= 5
    assert 0 < now.block < now.sizes[0] < full.sizes[0] / 2
    for name in (SUMMARY, bench.BEFORE):
        assert found[name].kept < bench.ORDERS
        assert found[name].block == 0
    assert bench.report_on(outcomes).rows[0][1] == "5/5"

"""Whether somebody is still at a job."""

from __future__ import annotations

import pytest

from langgraph_om.core.cycles.carry_out import FarEnd, judge_lease


@pytest.mark.parametrize(
    ("expires_in", "now", "noted", "expected"),
    [
        (60.0, 0.0, None, (False, None)),
        (60.0, 9.0, FarEnd(4000.0, 0.0), (False, None)),
        (3600.0, 10.0, None, (False, FarEnd(3610.0, 10.0))),
        (3500.0, 110.0, FarEnd(3610.0, 10.0), (False, FarEnd(3610.0, 10.0))),
        (3600.0, 110.0, FarEnd(3610.0, 10.0), (False, FarEnd(3710.0, 110.0))),
        (3480.0, 130.0, FarEnd(3610.0, 10.0), (True, FarEnd(3610.0, 10.0))),
    ],
    ids=["in time", "in time again", "far", "still far", "renewed", "stranded"],
)
def test_a_lease_is_stranded_when_it_ends_too_late_and_nobody_renews_it(
    expires_in: float, now: float, noted: FarEnd | None, expected: tuple[bool, FarEnd | None]
) -> None:
    assert judge_lease(expires_in, 120.0, 30.0, now, noted) == expected

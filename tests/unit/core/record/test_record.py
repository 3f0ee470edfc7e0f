"""The record as a value."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    blank_record,
    complete_record,
    write_log,
)
from langgraph_om.errors import ConfigurationError
from support.groups import group


def test_groups_stand_a_blank_line_apart() -> None:
    groups = [group("a", "* one"), group("b", ""), group("c", "* two\n  * -> more")]
    assert write_log(groups) == "* one\n\n* two\n  * -> more"
    assert write_log([]) == ""


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0, True])
def test_a_record_of_another_form_is_refused(version: object) -> None:
    value = {**blank_record(), "version": version}
    named = rf"`om\.version` is {version!r}.*reads version 1; upgrade"
    for read in (complete_record, lambda found: fold(found, [])):
        with pytest.raises(ConfigurationError, match=named):
            read(value)
    with pytest.raises(ConfigurationError, match=named):
        fold(blank_record(), [{"version": version}])


@pytest.mark.parametrize("value", ["text", [1], 7])
def test_a_channel_that_holds_no_record_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=type(value).__name__):
        complete_record(value)


@pytest.mark.parametrize("value", [None, {}, {"version": 1}, blank_record()])
def test_a_part_of_a_record_is_completed(value: dict[str, Any] | None) -> None:
    assert complete_record(value) == blank_record()


def test_keys_that_are_missing_are_completed() -> None:
    assert complete_record({"cursor": ["m1"]}) == {**blank_record(), "cursor": ["m1"]}

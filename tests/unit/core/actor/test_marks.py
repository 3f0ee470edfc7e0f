from __future__ import annotations

from langgraph_om.core.actor.prompt import hide_low_marks

LOG = """Date: Mar 2, 2026
* 🔴 (09:00) The dog is Rex
* 🟡 (09:01) Asked for a lead
  * 🟢 perhaps a red one
- 🟢️ (09:02) Minor
* ✅ (09:03) Bought; marked 🟡 on the list
* Plain"""


def test_only_the_marks_that_matter_are_shown() -> None:
    assert (
        hide_low_marks(LOG)
        == """Date: Mar 2, 2026
* 🔴 (09:00) The dog is Rex
* (09:01) Asked for a lead
  * perhaps a red one
- (09:02) Minor
* ✅ (09:03) Bought; marked 🟡 on the list
* Plain"""
    )


def test_code_stays_as_it_is() -> None:
    text = "* 🟡 (09:00) Wrote\n```\n* 🟡 item\n```\n* 🟢 Minor"
    assert hide_low_marks(text) == "* (09:00) Wrote\n```\n* 🟡 item\n```\n* Minor"

"""What the code of `docs/memory-family.md` comes to, and where its table leads."""

from __future__ import annotations

import re

from langgraph_om.testing import ScriptedChatModel
from support.pages import DOCS, run_page

PAGE = DOCS / "memory-family.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_blocks_run_in_order() -> None:
    scope = run_page(PAGE, model=ScriptedChatModel(actor="ok"), small_model=ScriptedChatModel())
    # The working memory stands in the last view, before the newest message.
    view = scope["model"].calls[-1]["messages"]
    assert "<working-memory>" in view[-2].text


def test_the_table_leads_to_a_snippet_for_each_row() -> None:
    links = re.findall(r"^\|.*\]\(#([\w-]+)\) \|", TEXT, re.MULTILINE)
    rest = {
        heading.lower().replace(",", "").replace(" ", "-"): text.split("\n#")[0]
        for heading, text in re.findall(
            r"^### (.+?)\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL
        )
    }
    assert len(links) == 8
    assert all("```python" in rest[link] for link in links)

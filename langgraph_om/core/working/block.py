"""The block of working memory in the Actor's prompt."""

from __future__ import annotations

from langchain_core.messages import HumanMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import WORKING_ID
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.working.form import Form, TemplateForm
from langgraph_om.core.working.merge import Value


def render_block(form: Form, value: Value, *, can_write: bool) -> str:
    """Render the block.

    Args:
        form: The form of the memory.
        value: What it holds.
        can_write: Whether the Actor is told to keep it up to date.

    Returns:
        The text; empty where there is nothing to show and nothing can be written.
    """
    if not can_write:
        return (
            fill("working_memory", purpose="", content=escape(form.write(value))) if value else ""
        )
    purpose = load(f"working_memory_{'text' if isinstance(form, TemplateForm) else 'json'}")
    content = form.write(value)
    if not value and not isinstance(form, TemplateForm):
        content = "{}"
    return fill("working_memory", purpose=purpose, content=escape(content))


def write_message(text: str) -> HumanMessage | None:
    """Return the message that shows a block; `None` without one."""
    return HumanMessage(text, id=WORKING_ID) if text else None

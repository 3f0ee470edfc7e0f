"""What a person does to a thread's title: as an update of `om`, a method, a command, and a form."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from langchain_core.runnables import RunnableConfig

from langgraph_om.core.acts import Act, Argument, Clearing
from langgraph_om.core.content.text import LABEL_CHARACTERS
from langgraph_om.core.events import iso
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.titles.record import is_named, read_title
from langgraph_om.runtime.acting import Acting, Update, Updates, check_text, make_act_id
from langgraph_om.runtime.drivers import afulfil, fulfil


class TitleUpdates(Updates):
    """The update with which a person gives a thread a title."""

    def set_title(self, text: str | None) -> list[dict[str, Any]]:
        """Return the update of `om` that gives the thread a title, which memory never changes.

        The archive, and with it `threads`, has the title with the thread's next step.

        Args:
            text: The title, of at most 120 characters; line breaks become blanks. `None`: memory
                may make titles again.

        Raises:
            ConfigurationError: When the text is blank or too long.
        """
        return build_title(self._runner.clock(), text)


class Nameable(Acting):
    """The methods of a memory with which a person gives a thread a title."""

    def set_title(self, graph: Any, config: RunnableConfig, text: str | None) -> str:
        """Give the thread a title that memory never changes; `None` gives it back."""
        updates = TitleUpdates(self._runner)
        return fulfil(self._act(graph, config, lambda _: updates.set_title(text)))

    async def aset_title(self, graph: Any, config: RunnableConfig, text: str | None) -> str:
        """Do the same as `set_title` without blocking the event loop."""
        updates = TitleUpdates(self._runner)
        return await afulfil(self._act(graph, config, lambda _: updates.set_title(text)))


def build_title(now: datetime, text: str | None) -> Update:
    """Return the update that sets the thread's title, or gives it back to memory.

    Raises:
        ConfigurationError: When the text is blank or too long.
    """
    title = None if text is None else " ".join(check_text("text", text).split())
    if title is not None and not 0 < len(title) <= LABEL_CHARACTERS:
        msg = f"`text` is {text!r}; pass a title of 1 to {LABEL_CHARACTERS} characters, or None"
        raise ConfigurationError(msg)
    return [{"type": "titled", "by": "person", "id": make_act_id(), "title": title, "at": iso(now)}]


ACTS: Final = (
    Act(
        name="title",
        help="give a thread a title, which memory never changes",
        arguments=(
            Argument(
                "text",
                "the title, of at most 120 characters",
                "Title of this thread",
                longest=LABEL_CHARACTERS,
            ),
        ),
        build=lambda updates, given, _: updates.set_title(given["text"]),
        label="Name it",
        done="The thread has its title.",
        told="done; `--clear` takes it back",
        tells=("title",),
        value=read_title,
        clearing=Clearing(
            name="untitle",
            help="let memory make titles again",
            label="Let memory name it",
            done="Memory names the thread.",
            told="done; memory makes titles again",
            is_offered=is_named,
        ),
    ),
)

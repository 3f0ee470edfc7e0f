"""What a model writes to call recall: the schema of the tool, and what it is told that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from langgraph_om.core.content.text import write_short_json

SHOWN_CHARACTERS: Final = 80

_MODES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("cursor", "detail", "part_index", "char_offset"), ("messages",)),
    **dict.fromkeys(("query",), ("search",)),
    **dict.fromkeys(("before", "after"), ("search", "threads")),
    "thread_id": ("messages", "search"),
}
"""The modes that use an argument, where not all do; to ignore one would mislead."""


def _field(default: Any, description: str) -> Any:
    # The schema of a default that a factory makes is shorter: it does not say it.
    return Field(default_factory=lambda: default, description=description)


class RecallArguments(BaseModel):
    """What may be asked for; `null` and empty texts count as left out."""

    model_config = ConfigDict(extra="forbid")

    mode: str
    query: str = _field("", "Words to search for")
    cursor: str = _field("", "Id of a message to read from")
    page: int = _field(0, "1, 2 read on from the cursor, -1, -2 back from it or the end")
    limit: int = _field(0, "Items per page")
    detail: Literal["low", "high"] = _field(
        "low", "low: how parts [p0], [p1] begin, high: one message whole"
    )
    part_index: Annotated[int | None, WithJsonSchema({"type": "integer"})] = _field(
        None, "Show this part of the message whole"
    )
    char_offset: int = _field(0, "Where to go on in it")
    before: str = _field("", "Only before this ISO date")
    after: str = _field("", "Only from this ISO date on")

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        # LangChain passes the runtime that a `ToolNode` injects beside what the model wrote.
        left_out = (None, "")
        return {
            name: value
            for name, value in given.items()
            if name != "runtime" and value not in left_out
        }

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        for name in sorted(self.model_fields_set & _MODES_OF.keys()):
            if self.mode not in _MODES_OF[name]:
                known = " or ".join(map(repr, _MODES_OF[name]))
                msg = f"`{name}` is for mode {known}; write that mode, or leave `{name}` out"
                raise ValueError(msg)
        if self.mode == "search" and not self.query:
            msg = "`query` is missing; write a few words to search for"
            raise ValueError(msg)
        if self.page < 0 and self.mode != "messages":
            msg = "`page` is negative; only messages are read backward, write 0 or more"
            raise ValueError(msg)
        if self.part_index is not None and not self.cursor:
            msg = "`part_index` needs a `cursor`; write the id of the message that has the part"
            raise ValueError(msg)
        if self.char_offset and self.part_index is None:
            msg = "`char_offset` needs a `part_index`; write the index of the part"
            raise ValueError(msg)
        return self


class ThreadArguments(RecallArguments):
    """What is offered where only the current thread can be read."""

    mode: Literal["messages", "search"] = _field("messages", "Default: messages")

    @property
    def thread_id(self) -> str:
        """The thread to read: the current one."""
        return ""


class UserArguments(RecallArguments):
    """What is offered where the user's other threads can be read too."""

    mode: Literal["messages", "search", "threads"] = _field("messages", "Default: messages")
    thread_id: str = _field("", "Conversation to read or search")


def describe_error(error: ValidationError) -> str:
    """Say in one sentence what is wrong with a call, and what to write."""
    found = error.errors(include_url=False)[0]
    if found["type"] == "value_error":
        return str(found["ctx"]["error"])
    name = str(found["loc"][0]) if found["loc"] else "arguments"
    if found["type"] == "extra_forbidden":
        shown = write_short_json(name, SHOWN_CHARACTERS)
        return f"There is no argument {shown}; leave it out, or write one that recall has"
    value = write_short_json(found["input"], SHOWN_CHARACTERS)
    return f"`{name}` is {value}: {found['msg'][0].lower()}{found['msg'][1:]}"

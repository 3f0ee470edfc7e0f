"""Acts that features offer to a person: as commands, and as forms on the page of a memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph_om.core.items import LogItem

Given = Mapping[str, Any]
"""The arguments of an act, by name; those that are left out are `None` or missing."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a person says with an act."""

    name: str
    """`item` for the item of the log that it is about, `text` for what a person writes, or that of
    an option of the command, such as `date`, which the page does not ask for."""
    help: str
    """What it is, such as `what is right`; in an empty field of the page, that stands there."""
    placeholder: str | None = None
    """What stands in the empty field instead."""
    metavar: str | None = None
    """How the help of the command names the value of an option."""
    longest: int | None = None
    """How many characters the field of the page takes; `None`: any."""

    @property
    def is_option(self) -> bool:
        """Whether it may be left out."""
        return self.name not in ("item", "text")


@dataclass(frozen=True, kw_only=True, slots=True)
class Clearing:
    """How a text that an act sets is given back: by `--clear`, and by a button of the page."""

    name: str
    """The `action` of the form."""
    help: str
    """What it does, such as `let memory choose again`."""
    label: str
    """Of the button."""
    done: str
    """Told on the page when it is done."""
    told: str
    """Told by the command."""
    is_offered: Callable[[Mapping[str, Any]], bool]
    """Tells by a record whether the page has the button."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """Something that a person may do to the memory of a thread."""

    name: str
    """The name of the command, and the `action` of the form."""
    help: str
    """What it does, such as `let no reflection change an item`."""
    build: Callable[[Any, Given, Any], list[dict[str, Any]]]
    """Returns the update of `om`, given the `updates` of the memory, the arguments and a state."""
    arguments: tuple[Argument, ...] = ()
    label: str
    """Of the button."""
    done: str
    """Told on the page when it is done."""
    told: str = "done"
    """Told by the command; `{id}` stands for the id of the act, `{what}` for what `what` returns,
    and the name of a key of the update for its value."""
    what: Callable[[Mapping[str, Any], str], str] = lambda _record, _id: ""
    """Reads from a record, after the act, the words that it changed, given the act's id."""
    tells: tuple[str, ...] = ()
    """Keys of the update that the command writes, too, where it writes JSON."""
    value: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    """Reads from a record what stands in the field of the page already."""
    clearing: Clearing | None = None
    """How the text that it sets is given back; `build` is given `None` then."""
    undone_by: str | None = None
    """The act that takes it back, given its id as the argument `act`; `None`: none does."""
    is_offered: Callable[[LogItem], bool] = lambda _: True
    """Tells whether the page offers it below an item, where it is about one."""

    def find(self, name: str) -> Argument | None:
        """Return the argument of a name; `None` where it takes none."""
        return next((argument for argument in self.arguments if argument.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Something of the memory of a thread that a command lists."""

    name: str
    """The name of the command."""
    help: str
    """What it does, such as `list what the agent was told to do`."""
    columns: tuple[str, ...]
    """Keys of the rows, as a table shows them; JSON has all of them."""
    read: Callable[[Any], list[dict[str, Any]]]
    """Returns the rows, given a record."""

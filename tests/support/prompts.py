"""Checks that each prompt has to pass, whichever package it lies in."""

from __future__ import annotations

import itertools
import os
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from langgraph_om.core.prompts import fill, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SLOT = re.compile(r"\{\{(\w+)\}\}")


def prompts_of(package: str) -> list[str]:
    """The names of the prompts beside the code of a package."""
    return sorted(
        entry.name.removesuffix(".md")
        for entry in files(package).iterdir()
        if entry.name.endswith(".md")
    )


def slots_of(name: str) -> list[str]:
    """The slots of a prompt, in their order."""
    return list(dict.fromkeys(SLOT.findall(load(name))))


def check_snapshot(name: str, sample: Mapping[str, str], folder: Path) -> None:
    """A filled prompt equals its snapshot; with `OM_UPDATE_PROMPTS` set it is written anew."""
    filled = fill(name, **sample) + "\n"
    path = folder / f"{name}.md"
    if os.environ.get("OM_UPDATE_PROMPTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == filled


def check_comment(name: str, package: str) -> None:
    """The comment of a prompt names exactly its slots, and is not sent."""
    source = files(package).joinpath(f"{name}.md").read_text(encoding="utf-8")
    listed = re.match(r"<!-- slots: ([\w, ]+)\.\n", source)
    assert listed is not None
    documented = [] if listed[1] == "none" else listed[1].split(", ")
    assert sorted(documented) == sorted(slots_of(name))
    comment, _, _ = source.partition("-->")
    for slot in documented:
        assert re.search(rf"\b{slot}:|\bBoth:", comment), f"`{slot}` is not explained"
    assert "<!--" not in load(name)
    assert "-->" not in load(name)
    assert load(name) == load(name).strip()


def check_slots(name: str, sample: Mapping[str, str]) -> None:
    """A filled prompt has no open slot and no trace of an empty one."""
    choices = [[(slot, value), (slot, "")] for slot, value in sample.items()]
    for choice in itertools.product(*choices):
        slots = dict(choice)
        filled = fill(name, **slots)
        assert not SLOT.search(filled)
        assert "\n\n\n" not in filled
        assert filled == filled.strip()
        assert not re.search(r"^#[^\n]*\n\n(#|\Z)", filled, re.MULTILINE), "a heading without text"
        for value in slots.values():
            assert value in filled


def check_size(name: str, tokens: int) -> None:
    """A prompt, its slots open, has fewer tokens."""
    assert len(load(name)) / 4 < tokens

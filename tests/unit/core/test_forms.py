"""The form of a working memory: what it takes, what an error says, and how updates merge."""

from __future__ import annotations

import re
from typing import Any, NotRequired

import pytest
from typing_extensions import TypedDict

from support.inside import InvalidError, SchemaForm


class Settings(TypedDict):
    theme: NotRequired[str]
    size: NotRequired[int]


SETTINGS = {
    "type": "object",
    "properties": {"theme": {"type": "string"}, "size": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [Settings, SETTINGS], ids=["TypedDict", "JSON Schema"])
def test_every_kind_of_schema_names_the_field(schema: Any) -> None:
    form = SchemaForm(schema)
    form.check({"theme": "dark", "size": 3})
    with pytest.raises(InvalidError, match="`size`"):
        form.check({"size": "big"})
    with pytest.raises(InvalidError, match="colour"):
        form.check({"colour": "red"})


def test_what_no_database_keeps_is_left_out_of_texts_or_refused_by_field() -> None:
    form = SchemaForm({"type": "object"})
    given = r'{"na\u0000me": "a\u0000b", "tags": ["\ud800", "1\r\n2"]}'
    assert form.read_patch(given) == {"name": "ab", "tags": ["\ufffd", "1\n2"]}
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    for wrong, named in (
        ({"a": {"b": float("nan")}}, "`a.b`: nan is not a number"),
        ('{"a": [1, -Infinity]}', "`a.1`: -inf is not a number"),
        ({"iban": 10**24}, "`iban`: the number is too large"),
        (deep, "`memory`"),
        ('{"a": ' * 60 + "1" + "}" * 60, "more than 50 levels"),
    ):
        with pytest.raises(InvalidError, match=re.escape(named)):
            form.read_patch(wrong)

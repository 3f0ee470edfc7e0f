"""What the documentation has from the code is as the code has it now."""

from __future__ import annotations

from support.event_schema import SCHEMA, write_schema
from support.option_tables import PAGE, fill_in


def test_the_tables_of_options_say_what_the_options_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fill_in(text) == text, "run `cd tests && python -m support.option_tables`"


def test_the_schema_of_the_stream_is_that_of_its_types() -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    assert write_schema() == text, "run `cd tests && python -m support.event_schema`"

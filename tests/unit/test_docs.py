"""The tables of options in the documentation say what the options say."""

from __future__ import annotations

from support.option_tables import PAGE, fill_in


def test_the_tables_of_options_say_what_the_options_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fill_in(text) == text, "run `cd tests && python -m support.option_tables`"

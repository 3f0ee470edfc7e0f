"""The check of an Observer, offline: all that it asks, and that it says what that is worth."""

from __future__ import annotations

import observer_check
import pytest

from support.inside import load, names


def test_without_a_model_the_figures_are_said_to_prove_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert observer_check.main(["--rest"]) == 0
    printed = capsys.readouterr().out
    assert "| unreadable at second | 0 | 0 to 0 | 8 |" in printed
    assert "| reflection | " in printed
    assert "These figures prove nothing." in printed


def test_names_whose_echo_is_counted_stand_in_prompts() -> None:
    prompts = "\n".join(map(load, names()))
    assert [name for name in observer_check.EXAMPLES if name not in prompts] == []
    assert observer_check.SECOND in load("observer_retry")

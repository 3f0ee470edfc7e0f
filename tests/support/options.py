"""Options of a memory and the thresholds they come down to."""

from __future__ import annotations

from typing import Any

from langgraph_om import ObservationConfig, ReflectionConfig, Thresholds
from langgraph_om.testing import ScriptedChatModel
from support.inside import resolve_thresholds

MODEL = ScriptedChatModel()


def thresholds(
    observation: dict[str, Any] | None = None,
    reflection: dict[str, Any] | None = None,
    **options: Any,
) -> Thresholds:
    return resolve_thresholds(
        ObservationConfig.read(observation),
        ReflectionConfig.read(reflection),
        **options,
    )


# --- What the options come down to ---------------------------------------------------------------


OFF = {"buffer_tokens": False}

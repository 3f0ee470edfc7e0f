"""Test doubles for agents with memory: models that answer offline, and checks.

No model here asks a provider, reads a clock or leaves anything to chance: the same calls give the
same answers. `ScriptedChatModel` says what a test wrote down, `ExtractiveObserver` and
`ExtractiveReflector` write real observations out of what they are given (good enough to watch the
memory work without a key), `RoughObserver` and `RoughReflector` miss sizes and forget the form as
models do, by a seed, and `check_message_sequence` names what a provider would refuse.
"""

from __future__ import annotations

from langgraph_om.testing.checks import Provider, check_message_sequence
from langgraph_om.testing.extractive import ExtractiveObserver, ExtractiveReflector
from langgraph_om.testing.offline import RecordedCall, Reply, Role, ScriptedChatModel
from langgraph_om.testing.rough import RoughObserver, RoughReflector

__all__ = [
    "ExtractiveObserver",
    "ExtractiveReflector",
    "Provider",
    "RecordedCall",
    "Reply",
    "Role",
    "RoughObserver",
    "RoughReflector",
    "ScriptedChatModel",
    "check_message_sequence",
]

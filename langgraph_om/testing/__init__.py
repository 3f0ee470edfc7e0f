"""Test doubles for agents with memory: models that answer offline, and checks.

No model here calls a provider, reads a clock or uses randomness: the same calls give the same
answers. `ScriptedChatModel` returns what a test scripted, `ExtractiveObserver` and
`ExtractiveReflector` write observations by quoting what they are given (good enough to watch the
memory work without a key), and `check_message_sequence` names what a provider would reject.
"""

from __future__ import annotations

from langgraph_om.testing.checks import Provider, check_message_sequence
from langgraph_om.testing.extractive import ExtractiveObserver, ExtractiveReflector
from langgraph_om.testing.offline import RecordedCall, Reply, Role, ScriptedChatModel

__all__ = [
    "ExtractiveObserver",
    "ExtractiveReflector",
    "Provider",
    "RecordedCall",
    "Reply",
    "Role",
    "ScriptedChatModel",
    "check_message_sequence",
]

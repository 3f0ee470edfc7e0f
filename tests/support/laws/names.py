"""How messages in the laws' conversations are named: as is easy to read, or as they really are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from support.real_ids import write_uuid7


@dataclass(frozen=True)
class Names:
    """Names messages by what they are, always the same way."""

    def of_request(self, label: str) -> str:
        return label

    def of_answer(self, label: str) -> str:
        return label

    def of_result(self, call: str) -> dict[str, str]:
        """What the tool is told about the name of its result; nothing where it has to know it."""
        return {}


PLAIN = Names()


@dataclass(frozen=True)
class RealNames(Names):
    """Ids as LangGraph and LangChain give them: only those of answers hold a time."""

    clock: Callable[[], datetime]

    def of_request(self, label: str) -> str:
        return str(UUID(int=_digest(label), version=4))

    def of_answer(self, label: str) -> str:
        return f"lc_run--{write_uuid7(self.clock(), _digest(label) & ((1 << 74) - 1))}-0"

    def of_result(self, call: str) -> dict[str, str]:
        return {"key": str(UUID(int=_digest(call), version=4))}


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())

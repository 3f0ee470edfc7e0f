"""What a conversation costs, with memory and without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_om import EstimatingCounter

CACHED = 0.1  # What a provider charges for the repeated beginning of a prompt: an assumption.
_COUNTER = EstimatingCounter()


def count(messages: Iterable[BaseMessage]) -> int:
    return sum(map(_COUNTER.count_message, messages))


@dataclass
class Prices:
    """Dollars per million tokens; the defaults are examples."""

    agent_reads: float = 3.0
    memory_reads: float = 0.3
    memory_writes: float = 2.5


@dataclass
class Spent:
    """Tokens from the beginning of a run to the end of a turn; `new` ones are in no cache."""

    history: int = 0
    read: int = 0
    read_new: int = 0
    full: int = 0
    full_new: int = 0
    memory: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_USAGE, 0))


_USAGE = ("calls", "input_tokens", "output_tokens")


class Meter(BaseCallbackHandler):
    """Adds up what the agent's model is sent, leaving out memory's own calls."""

    def __init__(self) -> None:
        self.read = self.read_new = 0.0
        self.prompt: list[BaseMessage] = []
        self._text = ""

    def new_day(self) -> None:
        """Forget the last prompt, as the provider's cache has."""
        self._text = ""

    def on_chat_model_start(self, *call: Any, **about: Any) -> None:
        if "om_role" in (about.get("metadata") or {}):
            return
        self.prompt = call[1][0]
        text, size = "\n".join(message.text for message in self.prompt), count(self.prompt)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(text, self._text, strict=False))
        repeated = sum(1 for _ in same) / max(1, len(text))
        self.read += size
        self.read_new += size * (1 - repeated)
        self._text = text


class Bill:
    """Keeps what each turn has cost, and the same turn without memory."""

    def __init__(self, before: dict[str, Any], system: str, prices: Prices) -> None:
        self.meter, self.prices, self.turns = Meter(), prices, list[Spent]()
        self._system = count([SystemMessage(system)])
        self._used_before = _usage(before)
        self._seen = len(before["messages"])
        self._sizes = [count([message]) for message in before["messages"]]
        self._full = self._full_new = 0

    def add_turn(self, state: dict[str, Any], *, is_new_day: bool) -> None:
        """Note what has been spent by the end of a turn."""
        cached = 0 if is_new_day else self._system + sum(self._sizes)
        for message in state["messages"][self._seen :]:
            if message.type == "ai":  # Without memory, this call would have read all before it.
                size = self._system + sum(self._sizes)
                self._full += size
                self._full_new += size - cached
                cached = size
            self._sizes.append(count([message]))
        self._seen = len(self._sizes)
        self.turns.append(self._spent(state))

    def close(self, state: dict[str, Any]) -> None:
        """Note what memory's models did behind the last turn."""
        self.turns[-1] = self._spent(state)

    def _spent(self, state: dict[str, Any]) -> Spent:
        used = {key: spent - self._used_before[key] for key, spent in _usage(state).items()}
        read, read_new = round(self.meter.read), round(self.meter.read_new)
        return Spent(sum(self._sizes), read, read_new, self._full, self._full_new, used)

    def lines(self) -> list[str]:
        """Explain what was spent, and when memory pays."""
        end, prices = self.turns[-1], self.prices
        used = end.memory
        # In cents, so that what is printed adds up.
        read, full = (
            round(tokens * prices.agent_reads / 1e6, 2) for tokens in (end.read, end.full)
        )
        own = round(self._dollars_of_memory(end), 2)
        part = abs(1 - (read + own) / full) if full else 0
        verdict = (
            f"memory saves {part:.0%}" if read + own < full else f"memory costs {part:.0%} more"
        )
        cached, cached_without = self._dollars(end, CACHED)
        lines = f"""\
your agent's model read {end.read:,} tokens with memory (${read:.2f}), {end.full:,} without (${full:.2f})
memory's models read {used["input_tokens"]:,} tokens and wrote {used["output_tokens"]:,}, in {used["calls"]} calls (${own:.2f})
in all: ${read + own:.2f} with memory, ${full:.2f} without; {verdict}
from a provider that caches prompts: ${cached:.2f} with memory, ${cached_without:.2f} without
{self._pays_from()}
assumed (--price): ${prices.agent_reads:g} per million tokens that the agent's model reads; ${prices.memory_reads:g} read and ${prices.memory_writes:g} \
written by a smaller one for memory; what a cache holds costs {CACHED:.0%}, within a day; the agent's own words cost the same both ways"""  # noqa: E501
        return lines.splitlines()

    def _dollars_of_memory(self, spent: Spent) -> float:
        read, written = spent.memory["input_tokens"], spent.memory["output_tokens"]
        return (read * self.prices.memory_reads + written * self.prices.memory_writes) / 1e6

    def _dollars(self, spent: Spent, cached: float = 1.0) -> tuple[float, float]:
        """Return what was spent with memory, and without it."""
        read = spent.read_new + cached * (spent.read - spent.read_new)
        full = spent.full_new + cached * (spent.full - spent.full_new)
        price = self.prices.agent_reads / 1e6
        return read * price + self._dollars_of_memory(spent), full * price

    def _pays_from(self) -> str:
        losing = [
            at for at, spent in enumerate(self.turns) if (d := self._dollars(spent))[0] > d[1]
        ]
        first = losing[-1] + 1 if losing else 0
        if first >= len(self.turns):
            return "it did not pay: for a conversation of this length, leave memory off"
        if not first:
            return (
                "it paid from the first question of this run on, since the thread was long already"
            )
        return (
            f"it paid from question {first + 1} of {len(self.turns)} on, at "
            f"{self.turns[first].history:,} tokens of history: leave memory off for shorter chats"
        )


def _usage(state: dict[str, Any]) -> dict[str, int]:
    spent = state["om"].get("usage", {}).values()
    return {key: sum(each[key] for each in spent) for key in _USAGE}

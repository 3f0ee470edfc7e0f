"""Ids and times of messages as LangChain, LangGraph and providers really give them.

    from support.real_ids import MESSAGE_IDS, real_conversations

A strategy per kind of id, those of people and of answers, and whole conversations in which each
message has or lacks an id and a time of its own, in every mix. For machines that make their
messages themselves, `NAMINGS`: who names and dates these, the same way when asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Literal
from uuid import UUID

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

FIRST_TIME: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

_HEX = "0123456789abcdef"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _texts(alphabet: str, length: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=length, max_size=length)


# --- What has no time in it ----------------------------------------------------------------------

uuid4s: Final = st.uuids(version=4).map(str)
"""What `add_messages` gives a message without an id."""

digests: Final = _texts(_HEX, 16).map("message-{}".format)
"""How the memory names a message that has no id."""

run_ids: Final = uuid4s.map("run-{}-0".format)
"""Answers in LangChain before version 1."""

response_ids: Final = _texts(_HEX, 48).map("resp_{}".format)
"""Answers by OpenAI's Responses API."""

item_ids: Final = st.builds("{}_{}".format, st.sampled_from(["msg", "rs", "fc"]), _texts(_HEX, 50))
"""Items in such answers: texts, reasoning, calls."""

chat_completion_ids: Final = st.one_of(_texts(_LETTERS, 29), uuid4s, _texts(_HEX, 32)).map(
    "chatcmpl-{}".format
)
"""Answers by OpenAI's chat completions, and by servers that speak like it."""

anthropic_ids: Final = _texts(_LETTERS, 22).map("msg_01{}".format)

call_ids: Final = st.one_of(
    _texts(_LETTERS, 24).map("call_{}".format),
    _texts(_LETTERS, 22).map("toolu_01{}".format),
    _texts(_LETTERS, 22).map("tooluse_{}".format),
    uuid4s,
)
"""Ids of tool calls, by OpenAI, Anthropic, Bedrock and Google's client."""


# --- What has a time in it -----------------------------------------------------------------------


def write_uuid7(moment: datetime, random: int) -> str:
    """Return the UUIDv7 (RFC 9562) of a time, with these random bits."""
    head = int(moment.timestamp() * 1000) << 80
    low = random & ((1 << 74) - 1)
    return str(UUID(int=head | 7 << 76 | (low >> 62) << 64 | 2 << 62 | (low & ((1 << 62) - 1))))


def write_ulid(moment: datetime, random: int) -> str:
    """Return the ULID of a time, with these random bits."""
    value = int(moment.timestamp() * 1000) << 80 | random & ((1 << 80) - 1)
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -5, -5))


times: Final = st.integers(0, 400 * 24 * 60).map(
    lambda minutes: FIRST_TIME + timedelta(minutes=minutes)
)
_bits = st.integers(0, (1 << 80) - 1)


def uuid7s(at: st.SearchStrategy[datetime] = times) -> st.SearchStrategy[str]:
    """UUIDs that begin with a time."""
    return st.builds(write_uuid7, at, _bits)


def lc_run_ids(at: st.SearchStrategy[datetime] = times) -> st.SearchStrategy[str]:
    """Answers in LangChain 1: with a UUIDv7, streamed or not."""
    return st.builds("lc_run--{}{}".format, uuid7s(at), st.sampled_from(["-0", "-0", ""]))


def ulids(at: st.SearchStrategy[datetime] = times) -> st.SearchStrategy[str]:
    """What applications with an order of their own give."""
    return st.builds(write_ulid, at, _bits)


# --- Ids of messages and threads -----------------------------------------------------------------

HUMAN_IDS: Final = st.one_of(uuid4s, digests, uuid7s(), ulids())
"""What messages of people are called."""

ANSWER_IDS: Final = st.one_of(
    lc_run_ids(), run_ids, response_ids, item_ids, chat_completion_ids, anthropic_ids, uuid4s
)
"""What answers of models are called."""

MESSAGE_IDS: Final = st.one_of(HUMAN_IDS, ANSWER_IDS)
"""All of them; never None."""

THREAD_IDS: Final = st.one_of(
    uuid4s, uuid7s(), ulids(), st.builds("user-{}/chat-{}".format, uuid4s, uuid4s)
)
"""What hosts call a conversation."""


# --- Messages that a machine makes ---------------------------------------------------------------

Role = Literal["human", "ai", "tool", "call"]
"""Whose id it is: that of a message, or of a tool call."""


@dataclass(frozen=True)
class Naming:
    """Names and dates messages as hosts and providers do, each message in another way.

    What follows from the same seed and the same simple name is the same, so that a conversation can
    be held twice. Seed 0 leaves the simple names, and gives no times.
    """

    seed: int = 0

    def name(self, simple: str, role: Role, at: datetime) -> str:
        """Return the id of the message or call that a test knows by a simple name."""
        if not self.seed:
            return simple
        random = Random(f"{self.seed} {simple}")  # noqa: S311 - not for secrets
        letters, timed = f"{random.getrandbits(200):050x}", random.getrandbits(74)
        uuid4 = str(UUID(int=random.getrandbits(128), version=4))
        made_by_langgraph = uuid4
        if role == "tool":
            return made_by_langgraph
        if role == "call":
            return random.choice([f"call_{letters[:24]}", f"toolu_01{letters[:22]}", uuid4])
        if role == "human":
            by_the_host = [f"message-{letters[:16]}", write_uuid7(at, timed), write_ulid(at, timed)]
            return random.choice([made_by_langgraph, made_by_langgraph, *by_the_host])
        by_langchain = [f"lc_run--{write_uuid7(at, timed)}-0", f"run-{uuid4}-0"]
        by_openai = [f"resp_{letters[:48]}", f"msg_{letters}", f"chatcmpl-{letters[:32]}"]
        return random.choice([*by_langchain, *by_openai, f"msg_01{letters[:22]}"])

    def date(self, simple: str, at: datetime) -> dict[str, str]:
        """Return the metadata in which some messages carry a time."""
        chance = Random(f"{self.seed} {simple} date").random()  # noqa: S311 - not for secrets
        return {"created_at": at.isoformat()} if self.seed and chance < 1 / 3 else {}


NAMINGS: Final = st.one_of(st.just(Naming()), st.builds(Naming, st.integers(1, 2**16)))
"""Simple names without times, or every mix of real ones."""


# --- Conversations -------------------------------------------------------------------------------


@st.composite
def real_conversations(
    draw: st.DrawFn, *, max_exchanges: int = 6, with_tools: bool = True
) -> list[BaseMessage]:
    """Conversations of people and models, with every mix of ids and times.

    Time goes on from message to message. A message's time stands in its metadata (`created_at`), in
    its id, in both, or nowhere; its id may be missing. Ids are unique.
    """
    at = FIRST_TIME
    messages: list[BaseMessage] = []
    taken: set[str] = set()

    def pick(ids: st.SearchStrategy[str]) -> str | None:
        if draw(st.integers(0, 4)) == 0:
            return None
        chosen = draw(ids.filter(lambda key: key not in taken))
        taken.add(chosen)
        return chosen

    def metadata() -> dict[str, str]:
        return {"created_at": at.isoformat()} if draw(st.booleans()) else {}

    for number in range(draw(st.integers(1, max_exchanges))):
        at += timedelta(minutes=draw(st.integers(1, 3 * 24 * 60)))
        now = st.just(at)
        people = st.one_of(uuid4s, digests, uuid7s(now), ulids(now))
        messages.append(
            HumanMessage(f"Question {number}?", id=pick(people), additional_kwargs=metadata())
        )
        answers = st.one_of(
            lc_run_ids(now), run_ids, response_ids, chat_completion_ids, anthropic_ids
        )
        if with_tools and draw(st.booleans()):
            call = draw(call_ids)
            messages.append(
                AIMessage(
                    "",
                    id=pick(answers),
                    tool_calls=[{"name": "look_up", "args": {"number": number}, "id": call}],
                    response_metadata=metadata(),
                )
            )
            messages.append(ToolMessage(f"Result {number}", tool_call_id=call, id=pick(uuid4s)))
        at += timedelta(minutes=draw(st.integers(0, 5)))
        messages.append(
            AIMessage(f"Answer {number}.", id=pick(answers), response_metadata=metadata())
        )
    return messages

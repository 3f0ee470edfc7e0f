"""A chat model that answers as a test wrote it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing.offline import OfflineChatModel, Reply, Role, Tape


class ScriptedChatModel(OfflineChatModel):
    """Answer what a test wrote down, by role: one model for Actor, Observer and Reflector.

    A call made under the run name (or tag) `om_observer`, or with `om_role: "observer"` in its
    metadata, is the Observer's; the Reflector's likewise; any other is the Actor's. Replies
    are used in order and the last one repeats. A reply is a text, an `AIMessage`, an error to
    raise, or a function of the received messages; a single reply needs no list.

        >>> model = ScriptedChatModel(["hello", "bye"], observer="<observations>...")
        >>> [model.invoke("hi").content for _ in range(3)]
        ['hello', 'bye', 'bye']
        >>> model.invoke("look", {"run_name": "om_observer"}).content
        '<observations>...'
        >>> [call["role"] for call in model.calls]
        ['actor', 'actor', 'actor', 'observer']

    Answers stream word by word and tool calls in pieces, as from a provider. A message keeps the
    id it was written with, once: when it repeats it gets a new one, so that it is appended to a
    thread instead of replacing its first appearance. Missing usage is made up from characters.
    """

    def __init__(
        self,
        actor: Reply | Sequence[Reply] = (),
        observer: Reply | Sequence[Reply] = (),
        reflector: Reply | Sequence[Reply] = (),
        *,
        title: Reply | Sequence[Reply] = (),
        delay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Write the scripts.

        Args:
            actor: The Actor's replies; `"ok"` when there are none.
            observer: The Observer's replies; asking for one when there are none is an error.
            reflector: The Reflector's replies; as for the Observer.
            title: The replies to the question for a thread's title; as for the Observer.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has, such as `disable_streaming`.
        """
        super().__init__(delay=delay, **kwargs)
        self._tape = Tape(
            {
                "actor": _check_script("actor", actor) or ("ok",),
                "observer": _check_script("observer", observer),
                "reflector": _check_script("reflector", reflector),
                "title": _check_script("title", title),
            }
        )

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-scripted"

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:
        read = self._tape.record(role, messages)
        script = self._tape.scripts[role]
        if not script:
            msg = f"no reply scripted for role {role!r}; pass `{role}=[...]`."
            raise AssertionError(msg)
        return script[min(read, len(script) - 1)]


def _check_script(role: Role, replies: Reply | Sequence[Reply]) -> tuple[Reply, ...]:
    """Return the replies of a role as a tuple, whatever way they were written."""
    many = isinstance(replies, Sequence) and not isinstance(replies, str)
    script: tuple[object, ...] = tuple(replies) if many else (replies,)  # type: ignore[arg-type]
    for reply in script:
        is_error = isinstance(reply, type) and issubclass(reply, BaseException)
        is_value = isinstance(reply, str | AIMessage | BaseException)
        if not (is_error or is_value or (callable(reply) and not isinstance(reply, type))):
            msg = (
                f"`{role}` holds {reply!r}; pass a str, an AIMessage, an exception or a function "
                "that takes the messages."
            )
            raise ConfigurationError(msg)
    return script  # type: ignore[return-value]

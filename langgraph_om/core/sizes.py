"""How large the questions to the Observer and the Reflector get, in tokens, with given settings."""

from __future__ import annotations

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig, Thresholds
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.reflect.reflector import ReflectorInput, reflect
from langgraph_om.core.tokens.counter import TokenCounter, count_messages


def observer_question_tokens(
    config: ObservationConfig, thresholds: Thresholds, counter: TokenCounter
) -> int:
    """Return the size of the Observer's question when the turn begins to wait for it.

    Args:
        config: The Observer's settings.
        thresholds: The limits in force.
        counter: What counts tokens.
    """
    shown = config.previous_observer_tokens
    previous = thresholds.observation_tokens if shown is False else shown
    empty = ObserverInput(
        transcript="",
        instruction=config.instruction,
        prompt=config.prompt,
        thread_title=config.thread_title,
    )
    prompt = count_messages(counter, next(observe(empty)).messages)
    return prompt + previous + thresholds.block_messages_at(previous)


def reflector_question_tokens(
    config: ReflectionConfig, thresholds: Thresholds, counter: TokenCounter, prompt: str
) -> int:
    """Return the size of the Reflector's question when the turn begins to wait for it.

    Args:
        config: The Reflector's settings.
        thresholds: The limits in force.
        counter: What counts tokens.
        prompt: Which of the Observer's prompts wrote the log.
    """
    empty = ReflectorInput(
        log="", tokens=1, target=1, instruction=config.instruction, prompt=prompt
    )
    question = next(reflect(empty, counter)).messages
    return count_messages(counter, question) + thresholds.block_observations_at(0)

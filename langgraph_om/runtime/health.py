"""Whether a memory can work here: its archive is reached, and its models can be asked."""

from __future__ import annotations

from functools import partial

from langchain_core.messages import HumanMessage

from langgraph_om.core.effects import AskModel, Call, CallReply, EffectFlow, ModelReply
from langgraph_om.runtime.runner import StepRunner


def check(runner: StepRunner, *, ask: bool) -> EffectFlow[list[str]]:
    """Return what is wrong, a sentence each.

    Args:
        ask: Whether the Observer's model is asked a question.
    """
    problems: list[str] = []
    if runner.is_closed:
        problems.append("the memory is closed and starts no background jobs")
    if runner.archive is not None:
        read = partial(runner.archive.thread, "om-check")
        reached: CallReply = yield Call(read, "om_check", runner.deadline)
        if reached.error is not None:
            why = str(reached.error) or reached.failure
            problems.append(f"the archive cannot be reached: {why}")
    models = runner.models.list_models(runner.actor.find())
    missing = {name: " and ".join(needs) for _, name, needs in models if needs}
    problems += [f"memory's model {name!r} can't be asked: {why}" for name, why in missing.items()]
    if ask and not problems:
        question = HumanMessage("Are you there? Answer with one word.")
        answer: ModelReply = yield AskModel("observer", [question])
        if answer.error is not None:
            problems.append(f"the Observer's model didn't answer: {answer.error}")
    return problems

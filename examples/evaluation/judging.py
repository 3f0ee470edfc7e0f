"""Who judges: a model that says yes or no, or, without one, a search for the reference's words."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel

from evaluation import doubles
from evaluation.formats import Benchmark, Question
from evaluation.memories import langchain_name
from evaluation.rules import contains, contains_items, judge_prompts, read_grade, read_verdict
from evaluation.spending import Meter


class Judge(Protocol):
    """Tells whether an answer is right."""

    name: str

    def score(self, benchmark: Benchmark, question: Question, answer: str, meter: Meter) -> float:
        """Return a score from 0 to 1; the meter hears what it costs."""


class WordForWord:
    """Finds the reference in the answer, or not."""

    name = doubles.NAME

    def score(self, benchmark: Benchmark, question: Question, answer: str, meter: Meter) -> float:  # noqa: ARG002 any judge's
        find = contains_items if benchmark == "BEAM" else contains
        return find(question, answer)


def named_judge(name: str, temperature: float | None = 0.0) -> ModelJudge:
    """Return a provider's model as the judge, at temperature 0 as both benchmarks have it."""
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 an extra

    settings: Any = {} if temperature is None else {"temperature": temperature}
    return ModelJudge(name, init_chat_model(langchain_name(name), **settings))


class ModelJudge:
    """Asks a model."""

    def __init__(self, name: str, model: BaseChatModel) -> None:
        self.name, self._model = name, model

    def score(self, benchmark: Benchmark, question: Question, answer: str, meter: Meter) -> float:
        prompts = judge_prompts(benchmark, question, answer)
        replies = [self._model.invoke(prompt, {"callbacks": [meter]}).text for prompt in prompts]
        return fmean(map(read_grade if benchmark == "BEAM" else read_verdict, replies))

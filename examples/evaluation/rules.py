"""How each benchmark asks, and what it counts as right. The rules are theirs, the wording is not.

LongMemEval (`src/evaluation/evaluate_qa.py`, `print_qa_metrics.py` in xiaowu0162/LongMemEval):

- A model is the judge and says yes or no, at temperature 0; the published figures are those of
  GPT-4o.
- An answer is right that holds the reference, is equivalent to it, or has all steps that lead to
  it; one that holds only a part of what is asked for is wrong.
- `temporal-reasoning`: a number of days, weeks or months may be off by one.
- `knowledge-update`: former values beside the updated one do no harm.
- `single-session-preference`: the reference is a rubric, of which not every point is needed; right
  is what recalls and uses what the user said about themselves.
- Abstention (`_abs` in the question's id): right is to say that the question can not be answered.
  These questions count for their type, and are shown once more by themselves.
- The question comes with its date.

LoCoMo (`task_eval/evaluation.py`, `task_eval/evaluate_gpts.py` in snap-research/locomo):

- The score is the F1 of stemmed words, without commas, punctuation, case, and a, an, the, and.
- Multi-hop (1): reference and answer are split at commas; the mean over the parts of the reference
  of the best F1 that a part of the answer has.
- Open-domain (3): what follows a semicolon in the reference is left out.
- Adversarial (5): two choices are offered, in random order: the lure, and "Not mentioned in the
  conversation". Right is an answer with "no information available" or "not mentioned" in it.
- Answers are asked for as short phrases, in the conversation's own words; temporal questions (2)
  ask for a date that follows from the date of the session.

BEAM (`src/evaluation/compute_metrics.py`, `src/prompts.py` in mohammadtavakoli78/BEAM):

- A model judges each item of a question's rubric by itself: 1 where the response does what the
  item says, 0.5 in part, 0 where not; a score is the mean over the items. (Its script cuts a half
  to 0 in some abilities; here it counts.)
- A response that does not deal with the question is 0, also where an item only forbids something.
- `event_ordering`: the judge is asked of each item whether it has its place in the order. BEAM has
  items aligned by a model and scores the order by Kendall's tau, so these scores are not the same.

LoCoMo with a judge: many published figures are the share of answers that a model calls right, as in
`evaluation/metrics/llm_judge.py` of mem0ai/mem0: generous where the answer touches on what the
reference says, in any format of a date, and without the adversarial questions. Here these keep the
rule above, and the mean without them is shown too.
"""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation import probing
from evaluation.formats import Benchmark, Conversation, Question
from evaluation.stemming import stem

NOT_MENTIONED = "Not mentioned in the conversation"
REFUSALS = ("no information available", "not mentioned")

PUNCTUATION = str.maketrans("", "", string.punctuation)
RUBRIC = re.compile(r"^LLM response should \w+: ")
LEFT_OUT = re.compile(r"\b(?:a|an|the|and)\b")


# --- How it is asked -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the Actor gets it."""

    text: str
    choices: tuple[str, str] | None = None
    """What (a) and (b) stand for."""

    def read(self, answer: str) -> str:
        """Return the answer, and for a mere letter what it stands for."""
        letter = answer.strip().strip("().").lower()
        if self.choices and letter in ("a", "b"):
            return self.choices["ab".index(letter)]
        return answer.strip()


def ask(benchmark: Benchmark, question: Question, seed: int = 0) -> Asked:
    """Put a question as the benchmark does."""
    if benchmark == "LongMemEval":
        return Asked(f"Today is {question.asked_at:%A, %d %B %Y, %H:%M}.\n\n{question.text}")
    if benchmark in ("BEAM", "probes"):
        return Asked(question.text)
    if question.category == "temporal":
        hint = "Work out the date, or an approximate one, from the dates of the sessions."
        return Asked(f"{question.text}\n\n{hint}")
    if question.category != "adversarial":
        return Asked(question.text)
    if not question.lure or _refuses(question.lure):
        return Asked(f'{question.text}\n\nIf it was not said, answer "{NOT_MENTIONED}".')
    choices = [NOT_MENTIONED, question.lure]
    random.Random(f"{seed}/{question.id}").shuffle(choices)  # noqa: S311 an order, no secret
    offered = f"Choose the right answer: (a) {choices[0]} (b) {choices[1]}"
    return Asked(f"{question.text}\n\n{offered}", (choices[0], choices[1]))


def system_prompt(benchmark: Benchmark, conversation: Conversation) -> str:
    """Return what the Actor is told; the same with every memory."""
    if benchmark == "probes":
        return (
            "You are a coding agent. Your session was interrupted, and you are asked what you know "
            "of it. Answer from it alone, with names, paths and numbers as they were written."
        )
    if benchmark == "BEAM":
        return (
            "You are an assistant who talks with the same user again and again, and keeps to what "
            "they asked of you. Answer their question with what you know from your earlier "
            "conversations. If it is about these and they do not hold it, say so; if they "
            "contradict each other, say that."
        )
    if benchmark == "LongMemEval" or not conversation.speakers:
        return (
            "You are an assistant who talks with the same user again and again. Answer the user's "
            "question from your earlier conversations with them. If these do not hold what is "
            "asked for, say so."
        )
    one, other = conversation.speakers
    return (
        f"You know a long conversation between {one} and {other}, held over many days; each "
        f"session begins with its date. You are asked questions about it. Answer each with a short "
        f"phrase and nothing else, in the exact words of the conversation where you can."
    )


# --- Scores without a model ----------------------------------------------------------------------


def own_measure(benchmark: Benchmark) -> tuple[str, Callable[[Question, str], float]] | None:
    """Return a score that needs no judge, and its name; `None` where there is none."""
    if benchmark == "LoCoMo":
        return "F1", locomo_score
    return ("keys", probing.score) if benchmark == "probes" else None


def locomo_score(question: Question, answer: str) -> float:
    """Return LoCoMo's own score of an answer, from 0 to 1."""
    if question.category == "adversarial":
        return float(_refuses(answer))
    if question.category == "open-domain":
        return f1(answer, question.answer.split(";")[0])
    if question.category == "multi-hop":
        parts = answer.split(",")
        best = [max(f1(part, each) for part in parts) for each in question.answer.split(",")]
        return sum(best) / len(best)
    return f1(answer, question.answer)


def f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of the shares of words that both have in common."""
    ours, theirs = _stems(answer), _stems(reference)
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def contains(question: Question, answer: str) -> float:
    """Return whether an answer holds the reference word for word: what plays the judge offline."""
    if not question.has_answer:
        return float(_refuses(answer) or "do not know" in answer.lower())
    return float(f" {normalise(question.answer)} " in f" {normalise(answer)} ")


def contains_items(question: Question, answer: str) -> float:
    """Return the share of a rubric's items that an answer holds word for word."""
    if not question.has_answer:
        return contains(question, answer)
    items = [f" {normalise(RUBRIC.sub('', item))} " for item in question.answer.splitlines()]
    return sum(item in f" {normalise(answer)} " for item in items) / len(items)


def normalise(text: str) -> str:
    """Leave out what LoCoMo's score does not look at."""
    bare = text.lower().translate(PUNCTUATION)
    return " ".join(LEFT_OUT.sub(" ", bare).split())


def _stems(text: str) -> list[str]:
    return [stem(word) for word in normalise(text).split()]


def _refuses(answer: str) -> bool:
    return any(refusal in answer.lower() for refusal in REFUSALS)


# --- What a judge is asked -----------------------------------------------------------------------

HOLDS = (
    "The response is right if it holds the reference answer, says the same in other words, or has "
    "every step that leads to it. It is wrong if it holds only a part of what the reference asks "
    "for."
)
CRITERIA = {
    "temporal-reasoning": (
        f"{HOLDS} Where a number of days, weeks, months or the like is asked for, a number that is "
        f"off by one (19 days instead of 18) is right as well."
    ),
    "knowledge-update": (
        "The response is right if it holds the reference answer, which is the newest state of "
        "things. Former states may be mentioned too, as long as the newest one is what it answers."
    ),
    "single-session-preference": (
        "The reference is a rubric of what a personal response looks like. The response is right "
        "if it recalls what the user said about themselves and uses it correctly; it need not "
        "meet every point of the rubric."
    ),
}
ABSTAINS = (
    "The question can not be answered, and the reference explains why. The response is right if it "
    "recognises this: it may say that the information is missing or incomplete, or that something "
    "else is known but not what is asked for."
)
ITEM = (
    "The response is judged by its meaning: other words, and numbers or dates in another form, are "
    "as good, and style does not matter. A criterion that forbids something is met where the "
    "response answers the question without it. A response that does not deal with the question "
    "meets nothing. Where a place in an order is named, the response has to name this event at "
    "that place. Partly is for what is there with small mistakes, or only some of several things "
    "that the criterion lists."
)
GRADES = {"yes": 1.0, "partly": 0.5, "no": 0.0}
LOCOMO = (
    "The reference is short and the response may be much longer. Be generous: it is right if it "
    "touches on the same matter as the reference. For a question of time, it is right if it names "
    "the same date or period, in whatever form, relative ones such as last Tuesday included."
)


def judge_prompts(benchmark: Benchmark, question: Question, answer: str) -> list[str]:
    """Return the questions to a judge about an answer; its score is the mean of the verdicts."""
    if benchmark == "BEAM":
        return _rubric_prompts(question, answer)
    if benchmark == "LoCoMo":
        criteria = LOCOMO
    elif not question.has_answer:
        criteria = ABSTAINS
    else:
        criteria = CRITERIA.get(question.category, HOLDS)
    is_rubric = criteria == CRITERIA["single-session-preference"]
    return [
        (
            f"Judge a response to a question about earlier conversations.\n\n{criteria}\n\n"
            f"Question: {question.text}\n\n"
            f"{'Rubric' if is_rubric else 'Reference'}: {question.answer}\n\n"
            f"Response: {answer}\n\n"
            f"Is the response right? Answer with the one word yes or no."
        )
    ]


def _rubric_prompts(question: Question, answer: str) -> list[str]:
    items = question.answer.splitlines()
    ordered = question.category == "event_ordering"
    places = [
        f" (as number {n} of {len(items)})" if ordered else "" for n in range(1, 1 + len(items))
    ]
    return [
        (
            f"Judge a response by one criterion.\n\n{ITEM}\n\nQuestion: {question.text}\n\n"
            f"Criterion{place}: {item}\n\nResponse: {answer}\n\n"
            f"Does the response meet the criterion? Answer with the one word yes, partly or no."
        )
        for item, place in zip(items, places, strict=True)
    ]


def read_verdict(reply: str) -> float:
    """Read a judge's yes or no.

    Raises:
        ValueError: When it says neither.
    """
    words: Sequence[str] = re.findall(r"\b(?:yes|no)\b", reply.lower())
    if not words:
        msg = f"the judge said neither yes nor no: {reply[:80]!r}"
        raise ValueError(msg)
    return float("yes" in words)


def read_grade(reply: str) -> float:
    """Read a judge's yes, partly or no: the first of these words.

    Raises:
        ValueError: When it says none of them.
    """
    word = re.search(r"\b(?:yes|partly|no)\b", reply.lower())
    if not word:
        msg = f"the judge said none of yes, partly and no: {reply[:80]!r}"
        raise ValueError(msg)
    return GRADES[word[0]]

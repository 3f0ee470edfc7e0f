"""The part of a text that is worth quoting, found by counting, without a model.

A sentence weighs what can be asked about later: numbers, names and long words. Short plain words,
as greetings and thanks are made of, weigh nothing.
"""

from __future__ import annotations

import re

from langchain_core.messages import BaseMessage

from langgraph_om.testing.offline import join_text

MAX_CHARACTERS_READ = 4_000
"""Characters of one message that are looked at."""

QUESTION_MARKS = ("?", "？")

_CHARACTERS_PER_WORD = 10
_LONG_WORD = 7
_ASKS_SOMETHING = 4  # A question of so many words is worth a quote, even of plain ones.
_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Dr", "Mr", "Ms", "St", "Mrs", "vs", "etc"))
_SENTENCE_END = re.compile(rf"(?<=[.!?]){_TITLES}\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")
_FIRST_PERSON = re.compile(r"(?:I|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur)(?:['’]\w+)?[,.!?]?")
_SELF = re.compile(r"I(?:['’]\w+)?\W*")
_DIGIT = re.compile(r"\d")
# Words that a note does without, long ones among them that tell nothing.
_PLAIN_WORDS = frozenset(
    {"a", "an", "the", "that", "so", "just", "really", "very", "quite", "also", "too", "some"}
    | {"super", "definitely", "absolutely", "totally", "actually", "honestly", "basically"}
    | {"especially", "something", "everything", "anything"}
)


def choose_sentence(text: str, words: int) -> str:
    """Return the sentence of a text that tells most; empty when none tells anything.

    Args:
        text: What somebody said.
        words: How many words of the sentence will be quoted; further ones do not weigh.
    """
    best, most = "", 0
    for sentence in split_sentences(text[:MAX_CHARACTERS_READ]):
        found = weigh(sentence, words)
        if found > most:
            best, most = sentence, found
    return best


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, without the bullets of lists."""
    return [_BULLET.sub("", part.strip(), count=1) for part in _SENTENCE_END.split(text)]


def weigh(text: str, words: int) -> int:
    """Return how much a sentence tells, 0 when it says nothing.

    Args:
        text: The sentence.
        words: How many of its words weigh.
    """
    found = text.split()
    weighed = found[:words]
    names = sum(map(_is_name, weighed[1:]))
    numbers = sum(_DIGIT.search(word) is not None for word in weighed)
    if text.startswith("["):
        return 1  # The placeholder of a picture or a file: better than nothing.
    own = any(_FIRST_PERSON.fullmatch(word) for word in weighed)
    total = 3 * numbers + 2 * names + sum(map(_is_long, weighed)) + own
    if text.endswith(QUESTION_MARKS) and (total or len(found) >= _ASKS_SOMETHING):
        return max(2, total - 2)  # A fact before a question.
    return total


def _is_long(word: str) -> bool:
    bare = word.strip(".,!?;:")
    return len(bare) >= _LONG_WORD and bare.lower() not in _PLAIN_WORDS


def _is_name(word: str) -> bool:
    first = word.lstrip("\"'“‘(")[:1]
    return first.isupper() and not _SELF.fullmatch(word)


def shorten(text: str, words: int) -> str:
    """Return a text in so many words: first without the plain ones, then cut.

    Args:
        text: One observation.
        words: The most words to keep.
    """
    found = text.split()
    if len(found) > words:
        found = [word for word in found if word.lower() not in _PLAIN_WORDS] or found
    return cut(" ".join(found), words)


def cut(text: str, words: int) -> str:
    """Return the first words on one line, with an ellipsis when some are missing.

    Args:
        text: The text, which may be long.
        words: The most words to keep.
    """
    found = text[:MAX_CHARACTERS_READ].rstrip("… ").split()
    kept = " ".join(found[:words])
    if len(kept) > words * _CHARACTERS_PER_WORD:
        # Some scripts and all encoded data have no spaces to cut at.
        kept = kept[: words * _CHARACTERS_PER_WORD].rstrip() + "…"
    elif len(found) > words or text.rstrip().endswith("…"):
        kept += "…"
    # A quoted tag must not open or close one of the answer's own.
    return re.sub(r"<(?=[/A-Za-z])", "‹", kept)


# What the offline Observer and Reflector share: finding their block, and sections by thread.


NO_OBSERVATIONS = "<observations>(none)</observations>"
"""The answer when there is nothing to observe."""

_SECTION = re.compile(r'<thread id="[^"<>]*">')


def find_last_block(messages: list[BaseMessage], tag: str) -> tuple[str, str]:
    """Return the text outside and inside the last `<tag>` block of the messages."""
    text = "\n".join(join_text(message) for message in messages)
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, max(end, 0))
    if start < 0:
        return text, ""
    return text[:start] + text[end:], text[start + len(tag) + 2 : end]


def read_sections(text: str) -> list[tuple[str, str]]:
    """Return the sections of several threads in a text: the tag that opens each, and its text."""
    sections: list[tuple[str, list[str]]] = []
    is_open = False
    for line in text.split("\n"):
        if _SECTION.fullmatch(line):
            sections.append((line, []))
            is_open = True
        elif line == "</thread>":
            is_open = False
        elif is_open:
            sections[-1][1].append(line)
    return [(tag, "\n".join(lines)) for tag, lines in sections]


def write_sections(answers: list[tuple[str, str]]) -> str:
    """Return the answers, each in the section that its tag opens."""
    return "\n".join(f"{tag}\n{answer}\n</thread>" for tag, answer in answers)

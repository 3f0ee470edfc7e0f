"""The part of a text that is worth quoting, found by counting, without a model.

A sentence weighs what can be asked about later: numbers, names and long words. Greetings, thanks
and applause weigh nothing, so what they introduce is quoted without them.
"""

from __future__ import annotations

import re

MAX_CHARACTERS_READ = 4_000
"""Characters of one message that are looked at."""

QUESTION_MARKS = ("?", "？")

_CHARACTERS_PER_WORD = 10
_LONG_WORD = 7
_ASKS_SOMETHING = 4  # A question of so many words is worth a quote, even of plain ones.
_SMALL_TALK_WORDS = 7
_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Dr", "Mr", "Ms", "St", "Mrs", "vs", "etc"))
_SENTENCE_END = re.compile(rf"(?<=[.!?]){_TITLES}\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")
_GREETING = (
    r"(?:hi|hello|hey|hiya|bye|goodbye|good (?:morning|afternoon|evening|night|luck)|wow|whoa|woah"
    r"|thanks(?: a (?:lot|bunch|million))?(?: so much)?|thank you(?: so much| very much)?|cheers"
    r"|congrats|congratulations|yay|woo ?hoo|haha|lol|of course|no (?:worries|problem))"
)
_FILLER = (
    rf"(?:{_GREETING}|yeah|yes|yep|yup|no|nope|ok|okay|sure|aw+|oh|ah|hmm|well|right|sorry|please"
    r"|cool|nice|great|awesome|amazing|lovely|perfect|wonderful|absolutely|definitely|totally"
    r"|exactly|good (?:point|idea|one|job))"
)
# "Hey Ann, ", "Wow!", "Oh yeah, right, ": fillers and the name they are said to.
_OPENING = re.compile(
    rf"(?i:{_FILLER})\b"
    rf"(?:,?\ (?:(?i:{_FILLER}|there|again|everyone|all|guys)\b|[A-Z][\w'’]*+)){{0,4}}"
    r"(?:\ ?[,.!…—-]+\s*|\s*$)"
)
_CALLED = re.compile(r",\ [A-Z][\w'’]*[.!?]*$")
# "It's so good to", "That really sounds", "You're very welcome".
_PRAISE = (
    r"(?:(?:it|that|this|so|i|you)(?:['’](?:s|m|re)| is| am| are| was)? )?"
    r"(?:so |really |very |just |always )?"
    r"(?:good|great|nice|glad|happy|lovely|awesome|amazing|cool|wonderful|fantastic|beautiful"
    r"|sounds?|looks?|welcome|impressive|inspiring|interesting)\b"
)
_SMALL_TALK = re.compile(
    "(?:"
    + "|".join(
        (
            rf"{_GREETING}\b",
            _PRAISE,
            r"how(?:['’]s| is| are| have| about)\b",
            r"what(?:['’]s| is) (?:up|new)\b",
            r"any(?:thing)? (?:new|else|exciting|fun|tips|plans)\b",
            r"i (?:totally |really |completely )?agree\b",
            r"(?:me|you) too\b|same here\b|got it\b|i see\W*$|long time\b|take care\b",
            r"see (?:you|ya)\b|talk (?:to you )?(?:soon|later)\b|let me know\b|tell me more\b",
            r"keep (?:it )?(?:up|going|me)\b|my pleasure\b|can['’]t wait\b",
        )
    )
    + ")",
    re.IGNORECASE,
)
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
    """Return the sentence of a text that tells most, without greeting; empty when none does.

    Args:
        text: What somebody said.
        words: How many words of the sentence will be quoted; further ones do not weigh.
    """
    best, most = "", 0
    for part in _SENTENCE_END.split(text[:MAX_CHARACTERS_READ]):
        sentence = _drop_opening(part.strip())
        found = weigh(sentence, words)
        if found > most:
            best, most = sentence, found
    return best


def _drop_opening(sentence: str) -> str:
    sentence = _BULLET.sub("", sentence, count=1)
    opening = _OPENING.match(sentence)
    if not opening:
        return sentence
    rest = sentence[opening.end() :]
    return rest[:1].upper() + rest[1:]


def weigh(text: str, words: int) -> int:
    """Return how much a sentence tells, 0 when it says nothing.

    Args:
        text: The sentence, without its opening.
        words: How many of its words weigh.
    """
    found = text.split()
    weighed = found[:words]
    said = _CALLED.sub("", text)
    names = sum(map(_is_name, said.split()[1:words]))
    numbers = sum(_DIGIT.search(word) is not None for word in weighed)
    if len(found) <= _SMALL_TALK_WORDS and not (names or numbers) and _SMALL_TALK.match(said):
        return 0
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

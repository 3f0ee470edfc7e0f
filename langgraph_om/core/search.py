"""What a search asks for beside its words, and the ranking of texts that are at hand."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import ROLES, Part, call_names, part_text, parts_of, role_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.items import find_start
from langgraph_om.core.wire import Group

# The words by which a text is found; the same for what is kept and for what is asked.


JOINERS: Final = "_-./:@#+&',"
"""What joins the parts of a word that is put together. A backslash is read as a slash."""

MAX_WORD_CHARACTERS: Final = 64
"""A longer word is cut, where it is kept and where it is asked for."""
MAX_GROWTH: Final = 2
"""One character may stand for eighteen; of stretches that become longer, the end is not read."""
BEGINNING: Final = 5
MAX_QUERY_WORDS: Final = 32
"""Of a longer query the longest words are looked for, which are seldom the frequent ones."""
PIECE_CHARACTERS: Final = 16_000
MAX_PIECES: Final = 64
"""Of a text longer than so many pieces, a million characters, the end is not searchable."""

_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without blanks between words, and Hangul, whose words carry their particles with them."""
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
"""Marks on letters that are left out, and the stroke that only lengthens an Arabic word."""
_VOWELS: Final = "\u0900-\u0963\u0971-\u0df3\u0e31-\u0e4e\u0eb1-\u0ece\u1000-\u109f\u17b4-\u17d3"
"""Parts of words which are no letters to Python: the vowel signs of Indic scripts."""
_SIGN: Final = rf"[{_MARKS}{_VOWELS}\u3099\u309a\uff9e\uff9f]"
_LETTER: Final = rf"(?:[^\W_]|{_SIGN})"

_CHUNK: Final = re.compile(
    rf"(?:[^\W_]+|{_SIGN})(?:[_\-./\\:@#+&'’,]+(?={_LETTER})|[^\W_]+|{_SIGN}+)*"
)
"""A stretch of letters, digits and what joins them."""
_RUN: Final = re.compile(
    rf"([{_UNSPACED}]+)|(?:(?![{_UNSPACED}]){_LETTER}|[{re.escape(JOINERS)}])+"
)
_PARTS: Final = re.compile(rf"[{re.escape(JOINERS)}]+")
_HUMPS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MARK: Final = re.compile(f"[{_MARKS}]+")


def split_words(text: str) -> list[str]:
    """Return the words of a text in their order, those that come again too."""
    return [*chain.from_iterable(map(_read_chunk, _CHUNK.findall(text)))]


def distinct_words(text: str) -> frozenset[str]:
    """Return the words of a text, each once."""
    return frozenset(chain.from_iterable(map(_read_chunk, _CHUNK.findall(text))))


def find_words(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield where a stretch of words begins and ends in a text, and its words."""
    for match in _CHUNK.finditer(text):
        if words := _read_chunk(match[0]):
            yield match.start(), match.end(), words


def query_words(query: str) -> list[str]:
    """Return the words to look for, each once.

    Of a stretch without blanks these are the pairs of characters; of what is put together, the
    whole and its parts.
    """
    found: dict[str, None] = {}
    for _, _, words in find_words(query[: PIECE_CHARACTERS * 2]):
        pairs = {word for word in words if len(word) > 1}
        covered = {character for pair in pairs if _is_unspaced(pair) for character in pair}
        found |= dict.fromkeys(word for word in words if word not in covered)
    if len(found) <= MAX_QUERY_WORDS:
        return [*found]
    longest = sorted(found, key=len, reverse=True)[:MAX_QUERY_WORDS]
    return [word for word in found if word in set(longest)]


def split_pieces(text: str) -> list[str]:
    """Part a text into pieces that are indexed one by one, at a blank where there is one near."""
    pieces: list[str] = []
    start = 0
    while start < len(text) and len(pieces) < MAX_PIECES:
        end = min(len(text), start + PIECE_CHARACTERS)
        if end < len(text):
            blank = max(text.rfind(each, end - 400, end) for each in " \n")
            end = blank + 1 if blank > start else end
        pieces.append(text[start:end])
        start = end
    return pieces


def fold(text: str) -> str:
    """Return a text in the form in which words are compared."""
    return text.lower() if text.isascii() else _strip_marks(text).casefold()


def _strip_marks(text: str) -> str:
    if text.isascii():
        return text
    plain = _MARK.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", plain)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and all(match[1] for match in _RUN.finditer(word))


def _read_chunk(chunk: str) -> tuple[str, ...]:
    return _read_known(chunk) if len(chunk) <= _MOST_KNOWN else _take_apart(chunk)


def _take_apart(chunk: str) -> tuple[str, ...]:
    if chunk.isascii() and chunk.isalpha() and (chunk.islower() or chunk.istitle()):
        # As all below would: a third of what observing a long thread takes.
        word = chunk.lower()[:MAX_WORD_CHARACTERS]
        return (word,) if len(word) <= BEGINNING else (word, find_beginning(word))
    plain = _strip_marks(chunk).replace("\\", "/").replace("’", "'")
    plain = plain[: MAX_GROWTH * len(chunk) + MAX_WORD_CHARACTERS]
    words: list[str] = []
    for run in _RUN.finditer(plain):
        if run[1] is None:
            words += _read_joined(run[0].strip(JOINERS))
        else:
            words += run[1]
            words += (run[1][at : at + 2] for at in range(len(run[1]) - 1))
    return tuple(words)


_MOST_KNOWN: Final = 32
"""Characters; a stretch without blanks may be as long as a text, and none of these is kept."""
# The same words come again: without it, the words of 1,000 messages take 80 ms more.
_read_known = lru_cache(maxsize=8192)(_take_apart)


def _read_joined(whole: str) -> tuple[str, ...]:
    """Return a word as it is written, and what it is put together of."""
    if not whole:
        return ()
    words = dict.fromkeys([whole])
    parts = [part for part in _PARTS.split(whole) if part]
    words |= dict.fromkeys(parts)
    for part in parts:
        if part.isascii() and not (part.islower() or part.isupper() or part.isdigit()):
            words |= dict.fromkeys(_HUMPS.findall(part))
    folded = dict.fromkeys(word.casefold()[:MAX_WORD_CHARACTERS] for word in words)
    return tuple(dict.fromkeys([*folded, *map(find_beginning, folded)]))


def find_beginning(word: str) -> str:
    """Return the marked beginning of a longer word, which every text with the word has too."""
    is_long = len(word) > BEGINNING and word.isalpha()
    return f"{word[:BEGINNING]}+" if is_long and not _is_unspaced(word) else word


RECALL: Final = "recall"
"""The name of the tool that looks things up."""
EXCERPT_CHARACTERS: Final = 240
_LEAD: Final = 60
"""Characters of an excerpt before the first word that was found."""
_LONG: Final = 40
"""A stretch of this many characters is not searched as a whole: the word is found in it."""


def read_text(message: BaseMessage) -> str:
    """Return what of a message can be searched: texts, calls, results, and names of attachments.

    Reasoning is left out, which is not what was said, and so is what `recall` was asked and
    answered, which would be found in the place of what it repeats.
    """
    return read_parts(parts_of(message))


def read_parts(parts: Iterable[Part]) -> str:
    """Do the same as `read_text` for a message whose parts are at hand."""
    return "\n".join(text for part in parts if (text := _read_part(part)))


def _read_part(part: Part) -> str:
    is_recall = part.kind.startswith("tool-") and part.name == RECALL
    if is_recall or part.kind == "reasoning":
        return ""
    text = part_text(part)
    return f"{part.name} {text}" if part.name else text


def cut_excerpt(text: str, words: Sequence[str], characters: int = EXCERPT_CHARACTERS) -> str:
    """Return the stretch of a text that holds the most different words; `…` marks what is cut."""
    text = sanitize(text).strip()
    if len(text) <= characters:
        return text
    places = _find_places(text, set(words))
    lead = min(_LEAD, characters // 4)
    start = max(0, _find_densest(places, characters - lead) - lead)
    start = max(0, min(start, len(text) - characters))
    end = min(len(text), start + characters)
    start, end = _to_blanks(text, start, end)
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _find_places(text: str, wanted: set[str]) -> list[tuple[int, str]]:
    places: list[tuple[int, str]] = []
    for start, end, words in find_words(text):
        for word in wanted.intersection(words):
            at = fold(text[start:end]).find(word) if end - start > _LONG else 0
            places.append((start + max(0, at), word))
    return sorted(places)


def _find_densest(places: Sequence[tuple[int, str]], width: int) -> int:
    """Return where the stretch begins that holds the most different words.

    Of several it is the tightest, and of those the first: it leaves most room for what follows,
    which is often what was asked for.
    """
    best, at = (0, 0), places[0][0] if places else 0
    window: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    for place in places:
        window.append(place)
        counts[place[1]] += 1
        while place[0] - window[0][0] > width or counts[window[0][1]] > 1:
            counts[window.popleft()[1]] -= 1
        found = (sum(map(bool, counts.values())), window[0][0] - place[0])
        if found > best or not best[0]:
            best, at = found, window[0][0]
    return at


def _to_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    if start and (blank := text.find(" ", start, start + _LEAD // 2)) >= 0:
        start = blank + 1
    if end < len(text) and (blank := text.rfind(" ", end - _LEAD // 2, end)) > start:
        end = blank
    return start, end


# How well texts match a query: BM25 by words, and what two rankings come to together.
#
# BM25 is forty lines here rather than a dependency: what there is (`rank-bm25`, `bm25s`) needs
# numpy, and keeps an index of its own, where the databases' and the state's texts are to be
# ranked alike.


SATURATION: Final = 1.2
"""BM25's k1: how soon a word that comes again says nothing more."""
LENGTH_SHARE: Final = 0.4
"""BM25's b: how much a long text has to hold more than a short one."""
FUSION: Final = 5
"""The constant of reciprocal rank fusion (Cormack and others, 2009, who take 60).

Measured: of 495 questions about three long conversations, words alone found an answer to 61 % among
the first 8 hits, and together with a small embedding model 59 % with 60 and equal weights, 63 %
with 5 and half a weight for meaning.
"""


@dataclass(frozen=True, slots=True)
class WordWeights:
    """How much each word of a query tells: a rare one much, one in every text next to nothing."""

    weights: Mapping[str, float]
    total: float
    """What all of them come to."""

    @classmethod
    def of(cls, words: Sequence[str], frequencies: Mapping[str, int], texts: int) -> WordWeights:
        """Weigh the words of a query.

        Args:
            frequencies: In how many texts each of them is; one that is left out is in none.
            texts: How many texts there are.
        """
        weights = {
            word: weigh_rarity(min(frequencies.get(word, 0), texts), texts) for word in words
        }
        return cls(weights, sum(weights.values()))

    def score_counts(self, counts: Mapping[str, int], length: int, average_length: float) -> float:
        """Return how well a text matches: 0 not at all, near 1 when it holds every word often."""
        if not self.total or not length:
            return 0.0
        damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / max(1.0, average_length))
        found = sum(
            self.weights[word] * count / (count + damping) for word, count in counts.items()
        )
        return found / self.total

    def weigh(self, words: Iterable[str]) -> float:
        """Return how much of the query some words of it are: 0 nothing, 1 all of it."""
        return (
            sum(self.weights.get(word, 0.0) for word in words) / self.total if self.total else 0.0
        )


def weigh_rarity(frequency: int, texts: int) -> float:
    """Return how much a word tells that is in so many of so many texts."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


def rank_texts(query: Sequence[str], texts: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Return how well each text matches a query, 0 without a word of it, and how much it holds."""
    wanted = set(query)
    frequencies = Counter(word for words in texts for word in wanted.intersection(words))
    weights = WordWeights.of(query, frequencies, len(texts))
    average = sum(map(len, texts)) / max(1, len(texts))
    counts = [Counter(filter(wanted.__contains__, words)) for words in texts]
    return [
        (weights.score_counts(held, len(words), average), weights.weigh(held))
        for words, held in zip(texts, counts, strict=True)
    ]


def fuse(rankings: Sequence[Sequence[str]], weights: Sequence[float]) -> list[str]:
    """Join rankings by reciprocal rank fusion: what several of them put in front comes first."""
    scores: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for place, name in enumerate(dict.fromkeys(ranking), start=1):
            scores[name] = scores.get(name, 0.0) + weight / (FUSION + place)
    return sorted(scores, key=lambda name: -scores[name])


Kind: TypeAlias = Literal["message", "observations"]
"""What a search finds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What has to be true of a hit, beside its words."""

    before: datetime | None = None
    """It was said before this time."""
    after: datetime | None = None
    """It was said at this time or later."""
    role: str | None = None
    """Who said it: `user`, `assistant`, `tool`, or another role."""
    tool_name: str | None = None
    """It calls this tool, or is a result of it."""

    @property
    def is_of_messages(self) -> bool:
        """Whether observations, which have no role and no tool, pass never."""
        return self.role is not None or self.tool_name is not None

    def passes(self, at: datetime | None, role: str | None, tools: Iterable[str]) -> bool:
        """Return whether a hit passes; one of unknown time passes no limit of time."""
        if self.before is not None and not (at and at < self.before):
            return False
        if self.after is not None and not (at and at >= self.after):
            return False
        if self.role is not None and not (role and read_role(role) == read_role(self.role)):
            return False
        return self.tool_name is None or self.tool_name in tools


def read_role(role: str) -> str:
    """Return a role as it is compared: LangChain's names are those of the conversation."""
    folded = role.strip().casefold()
    return ROLES.get(folded, folded)


def name_calls(messages: Iterable[BaseMessage]) -> dict[str, str]:
    """Return the tools of all calls in some messages, by the ids of the calls."""
    return {call: name for message in messages for call, name in call_names(message)}


def tools_in(parts: Iterable[Part], calls: Mapping[str, str]) -> set[str]:
    """Return the tools that a message calls or is a result of; a result may have the id alone."""
    found: set[str] = set()
    for part in parts:
        if part.kind.startswith("tool-"):
            named = {"" if part.name == "tool" else part.name, calls.get(part.call_id, "")}
            found |= named - {""} or {part.name} - {""}
    return found


@dataclass(frozen=True, slots=True)
class FoundText:
    """What a search found."""

    kind: Kind
    key: str
    """The key of the message, or the id of the group."""
    cursor: str
    """The key of the message, or of the first one that the group was written from."""
    text: str
    """Its text, or the piece of a long one that was found."""
    score: float
    """How much of the query it holds: 0 nothing, near 1 all of it."""
    at: datetime | None
    """When it was said, or observed."""
    role: str | None
    """Who said it; `None` for observations."""
    held: float = 1.0
    """How much of the query its words are, however often they come and however long it is."""


_Text = tuple[FoundText, list[str]]
"""A text that may be found, and its words."""


def search_texts(
    query: str,
    messages: Sequence[tuple[str, BaseMessage, datetime | None]],
    groups: Sequence[Group],
    wanted: Filter,
) -> list[FoundText]:
    """Search messages (key, message, time) and observations; return the best hits first."""
    words = query_words(query)
    if not words:
        return []
    texts = [*_list_messages(messages, wanted)]
    texts += [] if wanted.is_of_messages else _list_groups(groups, wanted)
    scores = rank_texts(words, [own for _, own in texts])
    return best_first(
        replace(text, score=score, held=held)
        for (text, _), (score, held) in zip(texts, scores, strict=True)
        if score > 0
    )


def best_first(found: Iterable[FoundText]) -> list[FoundText]:
    """Return the best piece of each text, the best text first; of equals, the last one."""
    best: dict[tuple[Kind, str], FoundText] = {}
    for each in found:
        name = (each.kind, each.key)
        if name not in best or each.score > best[name].score:
            best[name] = each
    newest = [*best.values()][::-1]
    return sorted(newest, key=lambda each: -each.score)


def _list_messages(
    messages: Sequence[tuple[str, BaseMessage, datetime | None]], wanted: Filter
) -> Iterable[_Text]:
    calls = name_calls(message for _, message, _ in messages) if wanted.tool_name else {}
    for key, message, at in messages:
        role = role_of(message)
        tools = tools_in(parts_of(message), calls) if wanted.tool_name else ()
        if role is None or not wanted.passes(at, role, tools):
            continue
        for piece in split_pieces(read_text(message)):
            yield FoundText("message", key, key, piece, 0.0, at, role), split_words(piece)


def _list_groups(groups: Sequence[Group], wanted: Filter) -> Iterable[_Text]:
    for group in groups:
        at = datetime.fromisoformat(group["observed_at"])
        if group["text"] and wanted.passes(at, None, ()):
            cursor = find_start(group)
            found = FoundText("observations", group["id"], cursor, group["text"], 0.0, at, None)
            yield found, split_words(group["text"])

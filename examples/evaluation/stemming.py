"""Porter's stemmer, with the departures that NLTK makes by default.

LoCoMo's scores are made with `nltk.stem.PorterStemmer()`. The algorithm is M. F. Porter's, "An
algorithm for suffix stripping" (1980); NLTK adds a list of irregular words, spares short words,
keeps "ie" in words of four letters (dies, die), turns a final y into i only behind a consonant
(enjoy stays), and knows the suffixes "fulli", "logi" and "bli". Other stemmers of that name take
"on" and "one" for the same word, or "tried" and "try" for two.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

IRREGULAR = {
    form: stem
    for stem, forms in {
        "sky": "sky skies",
        "die": "dying",
        "lie": "lying",
        "tie": "tying",
        "news": "news",
        "inning": "innings inning",
        "outing": "outings outing",
        "canning": "cannings canning",
        "howe": "howe",
        "proceed": "proceed",
        "exceed": "exceed",
        "succeed": "succeed",
    }.items()
    for form in forms.split()
}
SHORT = 2
FOUR = 4

# Suffix and replacement; the first suffix that a word has decides, longer ones stand before theirs.
STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ("fulli", "ful"),
)
STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
    *(("ful", ""), ("ness", "")),
)
STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@cache
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= SHORT:
        return word
    for step in (_plural, _past, _final_y, _derived, _adjective, _suffix, _final_e):
        word = step(word)
    return word


def _consonants(word: str) -> list[bool]:
    """Tell of each letter whether it is a consonant; a y behind one is a vowel."""
    marks: list[bool] = []
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and bool(marks) and marks[-1])
        marks.append(not is_vowel)
    return marks


def _measure(word: str) -> int:
    """Count the changes from vowel to consonant."""
    marks = _consonants(word)
    return sum(here and not before for before, here in pairwise(marks))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _is_doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _is_short(word: str) -> bool:
    """Return whether a word ends like "hop": consonant, vowel, consonant other than w, x, y."""
    marks = _consonants(word)
    if marks == [False, True]:
        return True
    return marks[-3:] == [True, False, True] and word[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == FOUR:
        return word[:-1]
    for suffix, ending in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word.removesuffix(suffix) + ending
    return word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word.removesuffix("ied") + ("ie" if len(word) == FOUR else "i")
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    suffix = next((each for each in ("ed", "ing") if word.endswith(each)), "")
    root = word.removesuffix(suffix)
    if not suffix or not _has_vowel(root):
        return word
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _is_doubled(root):
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _is_short(root) else root


def _final_y(word: str) -> str:
    root = word[:-1]
    turns = word.endswith("y") and len(root) > 1 and _consonants(root)[-1]
    return root + "i" if turns else word


def _derived(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _derived(word[:-2])
    if word.endswith("logi") and _measure(word[:-3]) > 0:  # the l belongs to the root
        return word[:-1]
    return _replaced(word, STEP_2)


def _adjective(word: str) -> str:
    return _replaced(word, STEP_3)


def _replaced(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, ending in rules:
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            return root + ending if _measure(root) > 0 else word
    return word


def _suffix(word: str) -> str:
    for suffix in STEP_4:
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            goes = _measure(root) > 1 and (suffix != "ion" or root.endswith(("s", "t")))
            return root if goes else word
    return word


def _final_e(word: str) -> str:
    root = word[:-1]
    if word.endswith("e") and (_measure(root) > 1 or (_measure(root) == 1 and not _is_short(root))):
        word = root
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word

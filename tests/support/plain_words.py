"""Length of the documentation's pages, sentences and sections.

    cd tests && python -m support.plain_words

prints a table of all pages. `PLAIN` names those that have to stay within the limits. The list only
grows: a page that meets the limits is added to it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from support.pages import DOCS, ROOT

MEAN_WORDS = 18
"""Most words of a page's sentences, on average."""

SENTENCE_WORDS = 30
"""Most words of one sentence."""

SECTION_WORDS = 250
"""Most words of prose between two headings."""

PLAIN = frozenset(
    {
        *("README.md", "docs/adopt-and-leave.md", "docs/api.md", "docs/archive.md"),
        *("docs/benchmarks.md", "docs/chat-bot.md", "docs/evaluation.md", "docs/events.md"),
        *("docs/extended-thinking.md", "docs/fastapi.md", "docs/first-agent.md"),
        *("docs/from-langmem.md", "docs/from-mastra.md", "docs/from-summarization.md"),
        *("docs/how-it-works.md", "docs/index.md", "docs/limits.md"),
        *("docs/maintainers/architecture.md", "docs/maintainers/benchmarks.md"),
        *("docs/maintainers/evaluation.md", "docs/maintainers/limits.md"),
        *("docs/maintainers/work.md", "docs/mcp.md", "docs/models.md", "docs/multi-agent.md"),
        *("docs/operate.md", "docs/options.md", "docs/redaction.md", "docs/search.md"),
        *("docs/security.md", "docs/see-and-steer.md", "docs/streaming.md", "docs/testing.md"),
        *("docs/ways-in.md", "docs/windows.md", "docs/workers.md", "docs/working-memory.md"),
    }
)
"""Pages that have to stay within all three limits."""

CODE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"^:::.*(?:\n(?: .*)?)*|^---\n.*?^---$", re.MULTILINE)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
LITERAL = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
TAG = re.compile(r"<!--.*?-->|</?[a-z][^<>\n]*>", re.DOTALL)
BLOCK = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )")
CELL = re.compile(r"[|\n]| · ")
END = re.compile(r"(?<=[.!?])[*_)\"']*\s+(?=[*_(\"'\[]*[A-Z0-9])")
WORD = re.compile(r"[\w€$%]")


@dataclass(frozen=True)
class Measured:
    """How long the parts of a page are, in words.

    A piece of code in a sentence counts as one word. A cell of a table is a sentence of its own; it
    is left out of the mean and of the sections.
    """

    words: int
    sentences: int
    mean: float
    long: tuple[str, ...]
    """Sentences above `SENTENCE_WORDS`, the longest first."""
    section: int
    """Words of the longest stretch of prose without a heading."""

    @property
    def is_plain(self) -> bool:
        """Whether the page is within all limits."""
        return self.mean <= MEAN_WORDS and not self.long and self.section <= SECTION_WORDS


def count(text: str) -> int:
    """Count the words of a text; a dash or a bullet alone is none."""
    return sum(bool(WORD.search(each)) for each in text.split())


def measure(text: str) -> Measured:
    """Measure a page in Markdown."""
    for pattern in (CODE, GENERATED, IMAGE, TAG):
        text = pattern.sub("\n\n", text)
    text = LITERAL.sub("Code", LINK.sub(r"\1", text))
    sections, prose, cells, words = [0], [], [], 0
    for block in BLOCK.split(re.sub(r"^(#+ .*)$", r"\n\n\1\n\n", text, flags=re.MULTILINE)):
        words += count(block)
        if block.lstrip().startswith("#"):
            sections.append(0)
        elif block.lstrip().startswith("|"):
            cells += [part for cell in CELL.split(block) for part in END.split(cell)]
        else:
            sections[-1] += count(block)
            prose += END.split(re.sub(r"^\s*(?:[-*]|\d+\.|!!!.*) ", "", block))
    prose = [" ".join(each.split()) for each in prose if count(each)]
    long = [" ".join(each.split()) for each in (*prose, *cells) if count(each) > SENTENCE_WORDS]
    return Measured(
        words,
        len(prose),
        sum(map(count, prose)) / max(len(prose), 1),
        tuple(sorted(long, key=count, reverse=True)),
        max(sections),
    )


def pages() -> dict[str, Measured]:
    """Measure the README and every page of the documentation, by its path."""
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {str(page.relative_to(ROOT)): measure(page.read_text("utf-8")) for page in found}


def table() -> str:
    """Return the table of all pages, the plain ones marked."""
    rows = [
        "| page | words | words a sentence | above 30 | longest section | plain |",
        "|---" * 6 + "|",
    ]
    measured = pages()
    for page, it in measured.items():
        mark = "kept" if page in PLAIN else "yes" if it.is_plain else ""
        numbers = f"{it.words} | {it.mean:.1f} | {len(it.long)} | {it.section}"
        rows.append(f"| {page} | {numbers} | {mark} |")
    words = sum(it.words for it in measured.values())
    long = sum(len(it.long) for it in measured.values())
    return "\n".join([*rows, f"| all | {words} | | {long} | | |", ""])


if __name__ == "__main__":
    sys.stdout.write(table())

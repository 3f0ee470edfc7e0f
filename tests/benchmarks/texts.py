"""The texts on which the estimate of tokens is judged, by kind, and their true counts.

They were written after the estimate was fixed and were never used to fit it: an estimate changed
for their sake needs new texts. `tests/data/texts` has the passages of each kind; a sample joins a
few of one kind, and no passage is in more than two samples. Run by itself, this file writes the
passages that a generator can make and chooses the samples; `true_counts.mjs` counts them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from textwrap import fill
from typing import Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

DATA: Final = Path(__file__).parents[1] / "data"
TABLE: Final = DATA / "true_counts.json"
FEWEST: Final = 20
"""How many samples a kind has at least."""
SHORT: Final = 12
"""How many of them are as short as can be."""
LENGTHS: Final = (200, 3_400)
"""The fewest and about the most characters of a sample; its last passage may go beyond."""
GENERATED_LENGTH: Final = 14_000
BREAK: Final = "\n%%\n"
"""Between passages that have more than one line; other files have one passage a line."""
WORD_LIST: Final = """
artist backup balance battery branch broker camera channel chapter cluster comment consumer cookie
currency device discount district driver episode exporter firmware gateway grade humidity insurance
invite keyboard ledger limit mailbox match nickname offset patient player playlist quota recipe
refund region remark scanner seat sensor severity shard speaker station supplier thumbnail ticket
token trailer upload vehicle version voucher webhook workflow
"""
WORDS: Final = WORD_LIST.split()
NAMES: Final = (
    "Amara Diallo", "Björn Sandström", "Chloé Mercier", "Dmitri Volkov", "Esra Yıldız",
    "Farah Khan", "Gustavo Peña", "Hannah O'Neill", "Ivo Novák", "Jun Takahashi", "Lucy Abbott",
)  # fmt: skip
PHRASES: Final = (
    "Rate limit exceeded, please retry later", "left at the back door", "Waiting for approval",
    "The upstream closed the connection", "Two bedrooms with a view of the canal",
    "Fixed a typo in the onboarding email", "great value, but the strap broke after a week",
    "Does not apply to sale items", "seasonal, ask the kitchen", "Quarterly review with finance",
)  # fmt: skip


class Sample(NamedTuple):
    """A text and the tokens it has in the vocabulary `o200k_base`."""

    kind: str
    text: str
    tokens: int


def passages(kind: str) -> list[str]:
    """The passages of one kind, without the line breaks around them."""
    text = (DATA / "texts" / f"{kind}.txt").read_text("utf-8").rstrip("\n")
    return text.split(BREAK if BREAK in text else "\n")


def joined(kind: str, numbers: list[int]) -> str:
    """The text of a sample: the passages with these numbers, one below the other."""
    found = passages(kind)
    return "\n".join(found[number] for number in numbers)


def samples() -> Iterator[Sample]:
    """All samples of the table."""
    for kind, rows in json.loads(TABLE.read_text("utf-8")).items():
        for tokens, numbers in rows:
            yield Sample(kind, joined(kind, numbers), tokens)


# --- Passages that are generated ---------------------------------------------------------------


def _hex(random: Random, digits: int) -> str:
    return f"{random.getrandbits(4 * digits):0{digits}x}"


def _uuid(random: Random) -> str:
    version = random.choice([1, 4, 4, 5])
    return str(UUID(int=random.getrandbits(128), version=version))


def _uuid_line(random: Random) -> str:
    found, other, word = _uuid(random), _uuid(random), random.choice(WORDS)
    return random.choice(
        [
            f"urn:uuid:{found}",
            f"{{{found.upper()}}}",
            f"{word}_id={found}",
            f'"{found}": "{other}",',
            f"/v2/{word}s/{found}",
            f"{found.replace('-', '')} {other.replace('-', '')}",
            f"{found},{other}",
        ]
    )


def _clock(random: Random) -> str:
    hour, minute, second = (random.randint(0, most) for most in (23, 59, 59))
    return f"{hour:02}:{minute:02}:{second:02}"


def _day(random: Random) -> str:
    return f"20{random.randint(10, 29)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _address(random: Random) -> str:
    return ".".join(str(random.randint(1, 254)) for _ in range(4))


def _reply(random: Random) -> dict[str, object]:
    word = random.choice(WORDS)
    rows = [
        {f"{word}Name": random.choice(NAMES), "qty": random.randint(1, 40), "note": None}
        for _ in range(random.randint(1, 3))
    ]
    return {
        "ok": True,
        "total": random.randint(3, 5_000),
        "cursor": _hex(random, 16),
        "items": rows,
    }


def _feature(random: Random) -> dict[str, object]:
    place = [round(random.uniform(-170, 170), 5), round(random.uniform(-80, 80), 5)]
    words = random.sample(WORDS, 3)
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": place},
        "properties": {words[0]: random.choice(PHRASES), words[1]: words[2], "elev": place[0] // 1},
    }


def _call(random: Random) -> dict[str, object]:
    words = random.sample(WORDS, 4)
    arguments = {words[2]: random.choice(PHRASES), f"max_{words[3]}s": random.randint(1, 50)}
    return {
        "id": f"call_{_hex(random, 12)}",
        "type": "function",
        "function": {"name": f"{words[0]}_{words[1]}", "arguments": json.dumps(arguments)},
    }


def _setting(random: Random) -> dict[str, object]:
    words = random.sample(WORDS, 6)
    return {
        f"{words[0]}-{words[1]}": f"^{random.randint(0, 20)}.{random.randint(0, 30)}.0",
        "enabled": random.random() < 1 / 2,
        words[2]: {words[3]: [words[4], words[5]], "timeoutMs": random.randint(1, 90) * 100},
    }


def _schema(random: Random) -> dict[str, object]:
    words = random.sample(WORDS, 3)
    types = ["string", "integer", "boolean", "number"]
    properties = {
        word: {"type": random.choice(types), "description": random.choice(PHRASES)}
        for word in words
    }
    return {
        "$ref": f"#/definitions/{words[0].title()}",
        "properties": properties,
        "required": words[:2],
    }


def _json(random: Random, indent: int | None = None) -> str:
    make = random.choice([_reply, _feature, _call, _setting, _schema])
    separators = None if indent or random.random() < 1 / 2 else (",", ":")
    ascii_only = random.random() < 1 / 2
    return json.dumps(make(random), indent=indent, separators=separators, ensure_ascii=ascii_only)


def _url(random: Random) -> str:
    words = random.sample(WORDS, 6)
    query = urlencode({words[0]: random.choice(PHRASES), "utm_source": words[1]})
    number = random.randint(1, 10**6)
    return random.choice(
        [
            f"http://{words[0]}{words[1]}.test/index.php?id={number}&lang=en#{words[2]}",
            f"https://git.example.dev/{words[0]}/{words[1]}-{words[2]}/pull/{number}/files",
            f"https://www.{words[0]}-{words[1]}.example/search?{query}",
            f"s3://{words[0]}-{words[1]}/{_day(random).replace('-', '/')}/part-{number:06}.parquet",
            f"postgres://{words[0]}:{_hex(random, 8)}@{_address(random)}:5432/{words[1]}",
            f"https://cdn.example.io/{_hex(random, 20)}/{words[0]}_{words[1]}@2x.png?w=640&q=75",
            f"https://{words[0]}.example.net/{words[1]}/How_to_{words[2]}_a_{words[3]}_(part_2)",
            f"mailto:{words[0]}.{words[1]}@{words[2]}.example?subject={words[3].title()}%20{number}",
            f"http://localhost:{random.randint(3000, 9999)}/api/{words[0]}s/{number}/{words[1]}",
        ]
    )


def _log(random: Random) -> str:
    one, two, three, four = random.sample(WORDS, 4)
    phrase = random.choice(PHRASES)
    day, clock = _day(random), _clock(random)
    number, size = random.randint(1, 65_000), random.randint(100, 10**6)
    formats = (
        (
            f'{_address(random)} - - [{day[8:]}/Mar/{day[:4]}:{clock} +0000] "GET /{one}/{number} '
            f'HTTP/1.1" 304 {size} "-" "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Firefox/115.0"'
        ),
        (
            f"Oct {day[8:]} {clock} {one}-{number % 20} sshd[{number}]: Failed password for "
            f"invalid user {two} from {_address(random)} port {number} ssh2"
        ),
        f'level=warn ts={day}T{clock}Z caller={one}.go:{number % 900} msg="{phrase}" {two}={size}',
        (
            f"E{day[5:7]}{day[8:]} {clock}.{size:06}   {number} {one}_{two}.cc:{number % 700}] "
            f"{phrase} (code -{number % 90})"
        ),
        f"{day} {clock},{number % 1000:03} - {one}.{two} - CRITICAL - {phrase}: {three} {four!r}",
        (
            f"[{clock}] [{one}-thread-{number % 16}/INFO]: Saved {size} {two}s for "
            f"{random.choice(NAMES)} in {number % 5000}ms"
        ),
        json.dumps({"t": number, "lvl": 30, "pid": size, "msg": phrase}),
        f"    at com.example.{one}.{two.title()}{three.title()}.run({two.title()}.java:{number})",
    )
    return random.choice(formats)


def _numbers(random: Random) -> str:
    def amount(most: int) -> float:
        return random.uniform(-(10**most), 10**most)

    def digits(count: int) -> int:
        return random.randint(10 ** (count - 1), 10**count - 1)

    formats = (
        "\t".join(f"{amount(3):.2f}" for _ in range(6)),
        "  ".join(f"{random.randint(0, 255):3d}" for _ in range(9)),
        f"{_day(random)} {_clock(random)}  ${abs(amount(6)):,.2f}  {amount(1):+.1f}%",
        str([round(random.random(), 4) for _ in range(5)]),
        f"+{digits(2)} ({digits(3)}) {digits(3)}-{digits(4)}",
        f"{amount(2):.8f}, {amount(2):.8f}",
        f"{digits(1)}/{digits(2)} {digits(random.randint(9, 14))} {amount(1):.3e}",
    )
    return random.choice(formats)


def _base64(random: Random) -> str:
    data = random.randbytes(random.randint(30, 160))
    text = json.dumps({"sub": str(random.randint(1, 9_999)), "name": random.choice(NAMES)}).encode()
    plain = base64.b64encode(data).decode()
    token = base64.urlsafe_b64encode(text + data[:40]).decode().rstrip("=")
    return random.choice(
        [
            f"data:image/png;base64,{plain}",
            f"Authorization: Bearer {token}.{base64.urlsafe_b64encode(data[:32]).decode()}",
            fill(plain, 64),
            f'"{random.choice(WORDS)}": "{plain}"',
            base64.b64encode(random.choice(PHRASES).encode()).decode(),
        ]
    )


GENERATED: Final[dict[str, Callable[[Random], str]]] = {
    "json": _json,
    "json-pretty": lambda random: _json(random, random.choice([2, 2, 4])),
    "uuid": _uuid_line,
    "numbers": _numbers,
    "base64": _base64,
    "urls": _url,
    "logs": _log,
}


def _write_generated(random: Random) -> None:
    for kind, make in GENERATED.items():
        found: list[str] = []
        while sum(map(len, found)) < GENERATED_LENGTH:
            found.append(make(random))
        glue = BREAK if any("\n" in passage for passage in found) else "\n"
        (DATA / "texts" / f"{kind}.txt").write_text(glue.join(found) + "\n", "utf-8")


# --- Samples -----------------------------------------------------------------------------------


def _cut(kind: str, random: Random, most: int) -> list[list[int]]:
    """Samples of up to about `most` characters that have no passage in common."""
    found, cut, chosen = passages(kind), [], []
    length = 0.0
    for number in random.sample(range(len(found)), len(found)):
        length = length or math.exp(random.uniform(math.log(LENGTHS[0]), math.log(most)))
        chosen.append(number)
        if len(joined(kind, chosen)) >= length:
            cut.append(chosen)
            chosen, length = [], 0.0
    return cut


def _choose(kind: str, random: Random) -> list[list[int]]:
    """Some short samples, and such others that they are enough and as long as can be."""
    short = _cut(kind, random, LENGTHS[0])[:SHORT]
    for most in range(LENGTHS[1], LENGTHS[0] - 1, -50):
        others = _cut(kind, random, most)
        if len(short) + len(others) >= FEWEST:
            return short + others
    msg = f"`{kind}` has too few passages for {FEWEST} samples"
    raise ValueError(msg)


def _main() -> None:
    random = Random(31)  # noqa: S311  (the same samples each time)
    _write_generated(random)
    kinds = sorted(path.stem for path in (DATA / "texts").glob("*.txt"))
    table = {
        kind: [[0, numbers] for numbers in _choose(kind, Random(kind))]  # noqa: S311
        for kind in kinds
    }
    TABLE.write_text(json.dumps(table), "utf-8")


if __name__ == "__main__":
    _main()

"""The examples, run as a newcomer runs them: in a process of their own, without a key."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = {"GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        env={**kept, "PYTHONUTF8": "1", "FORCE_COLOR": "1"},
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )


def run(example: str, *options: object) -> subprocess.CompletedProcess[str]:
    return run_python(str(EXAMPLES / example), *map(str, options))


def succeed(example: str, *options: object) -> str:
    done = run(example, *options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "\x1b" not in done.stdout + done.stderr, "control sequences outside of a terminal"
    return done.stdout


class Example:
    """Runs an example in this process, which spares a start per case."""

    def __init__(
        self, name: str, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.name, self.patch, self.capsys = name, patch, capsys
        patch.syspath_prepend(EXAMPLES)

    def without(self, package: str) -> Example:
        """Return it where a package is not installed."""
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
            self.patch.delitem(sys.modules, name)
        self.patch.setitem(sys.modules, package, None)
        return self

    def run(self, *options: object) -> tuple[object, str, str]:
        self.patch.setattr(sys, "argv", [self.name, *map(str, options)])
        code: object = 0
        try:
            runpy.run_path(str(EXAMPLES / self.name), run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        printed, errors = self.capsys.readouterr()
        if isinstance(code, str):
            return 1, printed, f"{errors}{code}\n"
        return code, printed, errors

    def succeed(self, *options: object) -> str:
        code, printed, errors = self.run(*options)
        assert code == 0, printed[-2000:] + errors[-2000:]
        return printed


Make = Callable[[str], Example]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Make:
    return lambda name: Example(name, monkeypatch, capsys)


def figure(name: str, printed: str) -> int:
    found = re.search(rf"^{name}: +(\d+)", printed, re.MULTILINE)
    assert found, f"no line {name!r} in:\n{printed[-2000:]}"
    return int(found[1])


@pytest.mark.parametrize(
    ("example", "package", "extras"),
    [
        ("quickstart.py", "rich", "examples"),
        ("quickstart.py", "langgraph.checkpoint.sqlite", "examples"),
        ("agent.py", "langchain", "agents,examples"),
        ("stream_events.py", "rich", "examples"),
        ("swap_checkpointer.py", "langgraph.checkpoint.sqlite", "examples"),
    ],
)
def test_example_says_what_to_install(example: str, package: str, extras: str, make: Make) -> None:
    code, _, errors = make(example).without(package).run()
    assert (code, errors.count("\n")) == (1, 1)
    assert f"pip install 'langgraph-om[{extras}]'" in errors


# --- quickstart ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The quickstart's database after one run, and what the run printed."""
    db = tmp_path_factory.mktemp("quickstart") / "trip.sqlite"
    return db, succeed("quickstart.py", "--db", db)


def number(pattern: str, printed: str) -> list[int]:
    """Return the numbers of the line that a pattern of one group each matches."""
    found = re.search(pattern.replace("#", r"([\d,]+)"), printed, re.MULTILINE)
    assert found, f"no {pattern!r} in:\n{printed[-2000:]}"
    return [int(group.replace(",", "")) for group in found.groups()]


def sizes(printed: str) -> tuple[int, int, int, int]:
    """Return messages and tokens of the history, and of what the agent sees."""
    full = number(r"^full history: +# messages, # tokens$", printed)
    seen = number(r"^the agent sees: # messages, # tokens", printed)
    return full[0], full[1], seen[0], seen[1]


def dollars(line: str) -> list[float]:
    return [float(price) for price in re.findall(r"\$(\d+\.\d\d)\b", line)]


@pytest.fixture(scope="module")
def in_full() -> str:
    """What the quickstart prints when asked for everything."""
    return succeed("quickstart.py", "--verbose")


def test_quickstart_observes_reflects_and_shortens_the_prompt(trip: tuple[Path, str]) -> None:
    messages, full, shown, seen = sizes(trip[1])
    assert shown < messages / 5
    assert seen < full / 4
    assert min(number(r"after # observations and # reflections$", trip[1])) >= 2
    found = re.findall(r"^   \w+ \d+, 2026  🔴 \(\d\d:\d\d\) .+$", trip[1], re.MULTILINE)
    assert len(found) == 8
    assert number(r"^The observation log, # of its # lines:$", trip[1])[0] == 8


FROM_MEMORY = re.compile(
    r"^You: (?P<asked>.+)\nAgent: You told me on (?P<day>\w+ \d+): (?P<fact>.+)\n"
    r"   <- answered from an observation of (?P=day); "
    r"the message itself, (?P<back>\d+) messages back, is no longer in the prompt$",
    re.MULTILINE,
)


def test_quickstart_marks_what_is_answered_from_memory(
    trip: tuple[Path, str], in_full: str
) -> None:
    found = [match.groupdict() for match in FROM_MEMORY.finditer(trip[1])]
    assert [fact["day"] for fact in found] == [
        *("May 4", "May 7", "May 16", "May 24", "May 4", "May 4")
    ]
    for fact, word in zip(
        found, ("hazelnuts", "19 to 26 June", "KX-4471", "7305", "1,800", "window"), strict=True
    ):
        assert word in fact["fact"]
        # Counted in the whole talk, with the question; a call is two messages, with its result.
        before = in_full[: in_full.index(f"\nYou: {fact['asked']}")]
        source = [at.start() for at in re.finditer(rf"^You: .*{word}", before, re.MULTILINE)][-1]
        between = re.findall(r"^(?:You:|Agent:|   calls) ", before[source:], re.MULTILINE)
        assert int(fact["back"]) == len(between) + between.count("   calls ") + 1
    assert in_full.count("\n   <- answered from an observation of ") == len(found)


BILL = (
    r"^   your agent's model read # tokens with memory .+, # without .+\n"
    r"   memory's models read # tokens and wrote #, in # calls .+\n"
)


def test_quickstart_gives_a_bill_that_adds_up(trip: tuple[Path, str]) -> None:
    read, full, memory_read, memory_wrote, calls = number(BILL, trip[1])
    bill = trip[1].partition("\nWhat it cost:\n")[2].splitlines()
    agent, memory, in_all, cached = map(dollars, bill[:4])
    assert agent == pytest.approx([read * 3 / 1e6, full * 3 / 1e6], abs=0.006)
    assert memory == pytest.approx([(memory_read * 0.3 + memory_wrote * 2.5) / 1e6], abs=0.006)
    assert in_all == pytest.approx([agent[0] + memory[0], agent[1]], abs=0.001)
    assert in_all[0] < in_all[1] / 2
    assert f"memory saves {1 - in_all[0] / in_all[1]:.0%}" in bill[2]
    assert cached[0] < in_all[0]
    assert cached[1] < in_all[1]
    assert calls >= sum(number(r"after # observations and # reflections$", trip[1]))
    first, questions, history = number(r"^   it paid from question # of # on, at # tokens", trip[1])
    assert 1 < first < questions == 64
    assert 0 < history < sizes(trip[1])[1]
    assert "leave memory off for shorter chats" in bill[4]
    assert bill[5].startswith("   assumed (--price): $3 per million")
    assert bill[6].startswith("Offline, the observations are extracts")


def test_quickstart_continues_the_thread(trip: tuple[Path, str], tmp_path: Path) -> None:
    db = tmp_path / "trip.sqlite"
    shutil.copy(trip[0], db)
    printed = succeed("quickstart.py", "--db", db, "--verbose")
    before = sizes(trip[1])[0]
    assert f"The thread goes on after {before} messages." in printed
    assert sizes(printed)[0] == before + 4
    assert sizes(printed)[3] < sizes(printed)[1]
    assert re.search(
        r"^Agent: You told me on May 16: Dinner: Gostilna Rupa, ", printed, re.MULTILINE
    )
    assert re.search(r"^Agent: You told me on May 7: .* 7 July", printed, re.MULTILINE)
    assert printed.count("\n   <- answered from an observation of ") == 2
    assert "it paid from the first question of this run on" in printed


def test_quickstart_loses_no_job_between_two_runs(tmp_path: Path) -> None:
    def play(turns: int) -> str:
        done = run_python(
            "-c",
            "import sys, threading; over = threading.Event(); "
            f"sys.path.insert(0, {str(EXAMPLES)!r}); import quickstart; "
            f"story = quickstart.read_turns('story')[:{turns}]; "
            "quickstart.read_turns = lambda section: story; "
            "Slow = quickstart.ExtractiveObserver; observe = Slow.reply; "
            "Slow.reply = lambda *call: (over.wait(200), observe(*call))[1]; "
            "finish = quickstart.finish; "
            "quickstart.finish = lambda *given: (over.set(), finish(*given))[1]; "
            f"sys.argv = ['', '--verbose', '--db', {str(tmp_path / 'trip.sqlite')!r}]; "
            "quickstart.main()",
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    first = play(7)
    assert first.rindex("\nAgent: ") < first.rindex("   memory: buffered "), "nothing was at work"
    second = play(8)
    assert "The thread goes on after " in second
    assert "; 1 chunk ready, 0 at work)" in second
    assert "memory: buffer" not in second


# --- state_graph ---------------------------------------------------------------------------------


def test_state_graph_draws_the_graph_and_prints_the_log() -> None:
    printed = succeed("state_graph.py")
    assert printed.startswith("Models: offline")
    assert "om_status -. &nbsp;observe&nbsp; .-> om_observe;" in printed
    assert "tools --> om_status;" in printed
    assert "12 messages, 6 calls of the model." in printed
    log = printed.partition("Memory's log")[2]
    assert re.search(r"^\[observation of messages 1 to \d+, \d+ tokens\]$", log, re.MULTILINE)
    assert "number 20-117" in log


# --- agent ---------------------------------------------------------------------------------------


def test_agent_answers_from_memory_and_shows_it(tmp_path: Path) -> None:
    db = tmp_path / "workshop.sqlite"
    printed = succeed("agent.py", db)
    assert printed.startswith("Models: offline")
    assert printed.count("\nJonas: ") == 9
    asked, view = printed.rpartition("\nJonas: ")[2].split("\nmemory of jonas, ")
    assert "back on Thursday, my train to Kassel leaves at 17:40" in asked
    assert "My budget is 120 euros" in asked
    assert re.search(r"^observations +\[#+\.*\] \d+ of 450 tokens$", view, re.MULTILINE)
    assert 'called price {"part": "chain"}' in view
    assert set(re.findall(r"^Date: (.+)$", view, re.MULTILINE)) == {"May 4, 2026"}
    again = succeed("agent.py", db)
    assert re.search(r"^The thread goes on after \d+ messages\.$", again, re.MULTILINE)
    assert again.count("\nJonas: ") == 1
    assert "My budget is 120 euros" in again


# --- deep_agent ----------------------------------------------------------------------------------


def test_deep_agent_remembers_and_sends_questions_to_its_subagent() -> None:
    pytest.importorskip("deepagents")
    printed = succeed("deep_agent.py")
    assert "SummarizationMiddleware.before_model" not in printed  # memory takes its place
    told = printed.partition("\nmemory of yearbook, ")[0]
    assert told.count("Agent (with its subagent): The archivist says: ") == 3
    assert "The archivist says: 2007: no regatta" in told
    assert told.rstrip().endswith("please no photographs of the old boathouse.")
    assert re.search(r"^observations .* [1-9]\d* of 40000 tokens$", printed, re.MULTILINE)


# --- stream_events -------------------------------------------------------------------------------


def test_stream_events_prints_words_and_parts() -> None:
    printed = succeed("stream_events.py")
    turns = printed.split("\nYou: ")[1:]
    assert len(turns) == 7
    assert all(turn.count("\nAgent: ") == 1 for turn in turns)
    assert "The trailer has to be free by then, and the press wants clean crates." in turns[3]
    assert re.search(r"memory: reads \d+ tokens ahead\n +memory: noted them in \d+\n", printed)
    assert re.search(r"memory: \d+ tokens leave the view\n", printed)
    assert "tokens: messages " in turns[0]
    assert ", observations 0 of 400" in turns[0]
    assert re.search(r", observations [1-9]\d* of 400", turns[6])
    assert "Agent: The cellar is at 6 degrees" in turns[6]
    assert "Mr. Aydin repairs it on Wednesday at 7" in turns[6]
    assert succeed("stream_events.py", "--protocol") == printed


# --- swap_checkpointer ---------------------------------------------------------------------------


def test_swap_checkpointer_takes_the_record_along(postgres_database: str) -> None:
    printed = succeed("swap_checkpointer.py", "--postgres", postgres_database)
    memory, sqlite, postgres = printed.split("\n=== ")[1:]
    assert (memory[:13], sqlite[:11], postgres[:13]) == (
        "InMemorySaver",
        "SqliteSaver",
        "PostgresSaver",
    )
    for moved, count in ((sqlite, 10), (postgres, 18)):
        assert re.search(r"^ +record identical: +True \(\d{4} characters\)$", moved, re.MULTILINE)
        assert f"messages identical: True ({count} messages)" in moved
        assert "prompt identical:   True" in moved
    assert "You told me: I am Ruth, and I lead a choir of 34 singers in Bremen." in sqlite
    assert "You told me: The hall costs 450 euros" in postgres


# --- recall --------------------------------------------------------------------------------------


def test_recall_reads_own_threads_and_no_one_elses() -> None:
    bike, dinner, other = succeed("recall.py").strip().split("\n\n")
    assert "recall({'cursor': " in bike
    assert bike.endswith("Agent: You need QX-7741-B.")
    assert "recall({'thread_id': 'bike'" in dinner
    assert dinner.endswith("Agent: You need QX-7741-B.")
    assert other.endswith("Agent: I find no code.")


# --- resource_scope ------------------------------------------------------------------------------


def test_threads_of_a_user_share_what_they_know() -> None:
    printed = succeed("resource_scope.py")
    noor, _, bob = printed.partition("\nbob, ")
    assert "Agent: No walnuts. Adaeze is your lead." in noor
    assert noor.count('<thread id="thread-') >= 2
    assert "Agent: I know of nothing. I do not know Adaeze." in bob


# --- postgres ------------------------------------------------------------------------------------


def test_two_workers_on_one_postgres_lose_nothing(postgres_database: str) -> None:
    printed = succeed("postgres.py", postgres_database)
    turns = re.findall(r"^(north|south): ", printed, re.MULTILINE)
    assert turns == ["north", "south"] * 6
    assert "You told me: The crane of berth 14 lifts 40 tonnes" in printed
    assert figure("in the archive", printed) == 24
    assert 0 < figure("in the state", printed) < 24
    assert " messages, 0 observations" not in printed
    assert "lost:           0 of 12\nin order:       True" in printed


# --- working_memory ------------------------------------------------------------------------------


def test_working_memory_is_kept_across_threads_and_checked() -> None:
    profile, _, tasks = succeed("working_memory.py").partition("\nTasks after a schema")
    assert profile.index("City: Tromsø\n    | - Time zone:\n") < profile.index("Time zone: CET")
    assert (
        "Noor, thread 'friday': Do you know where I live?\n    Agent: You live in Tromsø."
        in profile
    )
    assert "Nothing was written: `tasks.0.hours`" in tasks
    before, after = tasks.split("Forget the project")
    assert '"project": "Boat"' in before
    assert '"project": "Boat"' not in after
    assert '"hours": 6' in after
    assert after.rstrip().endswith('"project": "Spring"}')


def test_scale_says_when_workers_and_database_are_busy() -> None:
    """The page about operation quotes these, rounded down."""
    printed = succeed("scale.py")
    assert "database: busy all the time from 367" in printed
    assert "workers: busy all the time from 93" in printed


# --- memory_pictures -----------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser is installed")
def test_pictures_of_the_inspector_are_small_and_of_two_schemes(tmp_path: Path) -> None:
    succeed("memory_pictures.py", tmp_path)
    light, dark = ((tmp_path / f"inspector-{name}.png").read_bytes() for name in ("light", "dark"))
    assert light != dark
    for picture in (light, dark):
        assert picture.startswith(b"\x89PNG")
        assert 20_000 < len(picture) < 250_000

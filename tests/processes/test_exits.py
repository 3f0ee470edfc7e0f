"""The end of a process: what it waits for, and for how long."""

from __future__ import annotations

import textwrap
import time

import pytest

from support.programs import run_program

# --- A model that hangs --------------------------------------------------------------------------


_HANGS = """
import time
from support.agents import make_agent, on_thread, scripted, talk, turns
def hang(messages):
    time.sleep(3600)
agent = make_agent(model=scripted(observer=hang), deadline=0.2)
print(agent.graph.invoke({"messages": turns(9)}, on_thread())["messages"][-1].id)
"""


def test_hanging_observer_does_not_hold_the_process() -> None:
    assert run_program("-c", _HANGS).stdout.strip() == "h8-answer"


@pytest.mark.parametrize(
    ("job", "exit_timeout", "least"), [("time.sleep(3600)", 0.5, 0.5), ("0", 3600, 0.0)]
)
def test_interpreter_exit_waits_at_most_the_stated_time(
    job: str, exit_timeout: float, least: float
) -> None:
    # To wait for the hour, for the job or for the executor, would outlast this test.
    code = f"""
        import sys, time
        from langgraph_om import BackgroundBuffering
        executor = BackgroundBuffering(exit_timeout={exit_timeout})
        executor.submit("c1", "a", lambda: {job} or {{}})
        time.sleep(0.1)
        print(time.time())
    """
    done = run_program("-c", textwrap.dedent(code))
    took = time.time() - float(done.stdout)
    assert least <= took


def test_interpreter_exit_waits_for_many_executors_as_long_as_for_one() -> None:
    code = """
        import time
        from langgraph_om import BackgroundBuffering
        executors = [BackgroundBuffering(exit_timeout=2) for _ in range(30)]
        for executor in executors:
            executor.submit("c1", "a", lambda: time.sleep(3600))
        print(time.time())
    """
    done = run_program("-c", textwrap.dedent(code))
    assert 2 <= time.time() - float(done.stdout) < 40  # one after the other takes a minute

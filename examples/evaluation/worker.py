"""The simulators of a shift, in a process and a Python of their own: requests in, replies out.

This file is run by the Python that has `bfcl-eval`, so it imports nothing of this package. Each
request is a line of JSON such as `{"do": "call", "name": "ls", "arguments": {}}`, and so is each
reply: `{"ok": ...}`, or `{"error": "..."}` where the request could not be carried out. `serve`
speaks for any world that has the methods of `Simulators`.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Call = Mapping[str, Any]
"""A call of a tool: `name` and `arguments`."""

PACKAGE = "bfcl_eval"
SOURCES = f"{PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
QUESTIONS = "BFCL_v4_multi_turn_long_context.json"
MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class Simulators:
    """The multi-turn tasks of `bfcl-eval` with long contexts."""

    def __init__(self) -> None:
        package = importlib.import_module(PACKAGE).__file__
        self._data = Path(str(package)).parent / "data"
        self._open: dict[str, Any] = {}
        self._task = ""

    def tasks(self, system: str, without: Sequence[str]) -> list[dict[str, Any]]:
        """Return the tasks of a simulator, and what playing their ground truth comes to.

        Args:
            system: The simulator, such as `TradingBot`.
            without: Calls that are left out when the ground truth is played.
        """
        found = []
        for key, question in self._questions().items():
            if system not in question["involved_classes"]:
                continue
            instances = self._make(key)
            turns = [
                {
                    "text": " ".join(said["content"] for said in turn).strip(),
                    "calls": [self._play(instances, each, without) for each in calls],
                }
                for turn, calls in zip(
                    question["question"], self._answers()[key]["ground_truth"], strict=True
                )
            ]
            systems = question["involved_classes"]
            found.append({"id": key, "systems": systems, "turns": turns})
        return found

    def tools(self, systems: Sequence[str]) -> list[dict[str, Any]]:
        """Return name, description and parameters, a JSON Schema, of each tool."""
        found = []
        for system in systems:
            file = self._data / "multi_turn_func_doc" / f"{MODULES[system]}.json"
            for tool in _read_lines(file):
                _, _, said = tool["description"].rpartition("Tool description: ")
                parameters = _to_schema(tool["parameters"])
                found.append({"name": tool["name"], "description": said, "parameters": parameters})
        return found

    def open(self, task: str) -> str:
        """Begin a task anew."""
        self._task, self._open = task, self._make(task)
        return task

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool of the task that is open, and return the text of its result."""
        return _write(_find(self._open, name)(**arguments))

    def grade(self, calls: Iterable[Call]) -> list[str]:
        """Return the attributes in which the open task differs from what these calls lead to."""
        wanted = self._make(self._task)
        for call in calls:
            _find(wanted, call["name"])(**call["arguments"])
        return [
            f"{system}.{name}"
            for system, instance in wanted.items()
            for name, value in _state(instance).items()
            if value != _state(self._open[system]).get(name)
        ]

    def _make(self, task: str) -> dict[str, Any]:
        question = self._questions()[task]
        instances = {}
        for system in question["involved_classes"]:
            module = importlib.import_module(f"{SOURCES}.{MODULES[system]}")
            instances[system] = getattr(module, system)()
            if hasattr(instances[system], "_load_scenario"):
                start = copy.deepcopy(question["initial_config"].get(system, {}))
                instances[system]._load_scenario(start, long_context=True)  # noqa: SLF001
        return instances

    def _play(
        self, instances: Mapping[str, Any], written: str, without: Sequence[str]
    ) -> dict[str, Any]:
        call = read_call(written, lambda name: _find(instances, name))
        if call["name"] in without:
            return {**call, "changes": True, "result": ""}
        before = copy.deepcopy([_state(each) for each in instances.values()])
        result = _find(instances, call["name"])(**call["arguments"])
        after = [_state(each) for each in instances.values()]
        return {**call, "changes": before != after, "result": _write(result)}

    @cache  # noqa: B019 there is one of them, as long as the process lives
    def _questions(self) -> dict[str, Any]:
        return {each["id"]: each for each in _read_lines(self._data / QUESTIONS)}

    @cache  # noqa: B019
    def _answers(self) -> dict[str, Any]:
        file = self._data / "possible_answer" / QUESTIONS
        return {each["id"]: each for each in _read_lines(file)}


def _read_lines(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _find(instances: Mapping[str, Any], name: str) -> Callable[..., Any]:
    owners = [
        each for each in instances.values() if not name.startswith("_") and hasattr(each, name)
    ]
    if not owners:
        msg = f"there is no tool {name!r} here"
        raise LookupError(msg)
    found: Callable[..., Any] = getattr(owners[0], name)
    return found


def _state(instance: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def _write(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, default=str)


def _to_schema(told: Any) -> Any:
    """Write a schema of the benchmark, which has types of its own, as a JSON Schema."""
    if isinstance(told, list):
        return [_to_schema(each) for each in told]
    if not isinstance(told, dict):
        return told
    schema = {name: _to_schema(value) for name, value in told.items() if name != "default"}
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = TYPES.get(kind, kind)
        if kind == "any":
            del schema["type"]
    return schema


def read_call(written: str, find: Callable[[str], Callable[..., Any]]) -> dict[str, Any]:
    """Read a call that is written as Python, its arguments by their names."""
    node = ast.parse(written, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        msg = f"{written!r} is no call"
        raise ValueError(msg)  # noqa: TRY004 it is about what is written
    names = list(inspect.signature(find(node.func.id)).parameters)
    given = dict(zip(names, map(ast.literal_eval, node.args), strict=False))
    given |= {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg}
    return {"name": node.func.id, "arguments": given}


def serve(world: Any) -> None:
    """Answer requests until there are no more. What a simulator prints goes to the error output."""
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        method = getattr(world, request.pop("do"))
        try:
            reply = {"ok": method(**request)}
        except Exception as error:  # noqa: BLE001 what a model calls may fail in any way
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(f"{json.dumps(reply, default=str)}\n")
        replies.flush()


if __name__ == "__main__":
    serve(Simulators())

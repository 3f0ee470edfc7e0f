"""A small travel desk that speaks as the benchmark's simulators do: twelve tasks of two parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "evaluation"))

from worker import serve

PLACES = ("Arnau", "Belfort", "Cadenz", "Dorp", "Elsing", "Farnhof")
STRING = {"type": "string"}
TOOLS = {
    "get_flight_cost": ("The price of a flight.", {"start": STRING, "end": STRING}),
    "travel_get_login_status": ("Whether somebody is logged in.", {}),
    "book_flight": ("Book a flight.", {"start": STRING, "end": STRING, "price": STRING}),
    "cancel_booking": ("Cancel a booking.", {"booking_id": STRING}),
}


class Desk:
    """Flights that were booked, of one task at a time."""

    def __init__(self) -> None:
        self.number, self.bookings = 0, dict[str, list[str]]()

    def tasks(self, system: str, without: Sequence[str]) -> list[dict[str, Any]]:
        assert system == "TravelAPI"
        return [self._task(number, without) for number in range(12)]

    def tools(self, systems: Sequence[str]) -> list[dict[str, Any]]:
        assert systems == ["TravelAPI"]
        return [
            {"name": name, "description": said, "parameters": _schema(properties)}
            for name, (said, properties) in TOOLS.items()
        ]

    def open(self, task: str) -> None:
        self.number, self.bookings = int(task.removeprefix("flight-")), {}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return getattr(self, f"_{name}")(**arguments)

    def grade(self, calls: Sequence[Mapping[str, Any]]) -> list[str]:
        made = self.bookings
        self.bookings = {}
        for call in calls:
            self.call(call["name"], call["arguments"])
        wanted, self.bookings = self.bookings, made
        return [] if wanted == made else ["TravelAPI.bookings"]

    def _task(self, number: int, without: Sequence[str]) -> dict[str, Any]:
        self.open(f"flight-{number}")
        start, end = PLACES[number % 6], PLACES[(number * 5 + 1 + number // 6) % 6]
        flight = {"start": start, "end": end}
        price = self._get_flight_cost(**flight).rpartition(" ")[2]
        second = [("book_flight", {**flight, "price": price})]
        asked = f"Book the flight from {start} to {end} at the price that you found."
        if number % 3 == 0:
            asked += " I have changed my mind: cancel that booking."
            second.append(("cancel_booking", {"booking_id": f"B{number:03}-1"}))
        parts = [
            (f"What does a flight from {start} to {end} cost?", [("get_flight_cost", flight)]),
            (asked, second),
        ]
        turns = []
        for text, calls in parts:
            played = []
            for name, arguments in calls:
                before = dict(self.bookings)
                result = "" if name in without else self.call(name, arguments)
                changes = name in without or before != self.bookings
                played.append(
                    {"name": name, "arguments": arguments, "changes": changes, "result": result}
                )
            turns.append({"text": text, "calls": played})
        return {"id": f"flight-{number}", "systems": ["TravelAPI"], "turns": turns}

    def _get_flight_cost(self, start: str, end: str) -> str:
        fares = "; ".join(f"seat row {row} of {start} to {end} is free" for row in range(30))
        return f"{fares}. Price: {start[:2].upper()}{sum(map(ord, start + end)) + self.number}"

    def _travel_get_login_status(self) -> str:
        return "logged in"

    def _book_flight(self, start: str, end: str, price: str) -> str:
        key = f"B{self.number:03}-{len(self.bookings) + 1}"
        self.bookings = {**self.bookings, key: [start, end, price]}
        return f"booked under booking_id {key}"

    def _cancel_booking(self, booking_id: str) -> str:
        if booking_id not in self.bookings:
            msg = f"there is no booking {booking_id}"
            raise LookupError(msg)
        self.bookings = {key: each for key, each in self.bookings.items() if key != booking_id}
        return f"cancelled {booking_id}"


def _schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


if __name__ == "__main__":
    serve(Desk())

"""The agent's tools. Their answers are long, as those of real tools are."""

from __future__ import annotations

from datetime import date, timedelta
from math import cos, pi

from trip.story import SECTIONS


def calendar(month: str) -> str:
    """Look up the appointments of a month, such as "June"."""
    return _look_up("calendar", month)


def mail(about: str) -> str:
    """Read the newest mail from somebody, or about something."""
    return _look_up("mail", about)


def guide(about: str) -> str:
    """Read a chapter of the travel guide: lakes, boats, walks, bikes, restaurants, rain, ..."""
    return _look_up("guide", about)


def guesthouses(place: str, arrival: str, nights: int) -> str:
    """List guesthouses with a free room for two, from a day (ISO date) on."""
    dear = 1.08 if _read_day(arrival) > date(2026, 6, 19) else 1.0
    rows = [
        f"Rooms for two in {place}, {arrival}, {nights} nights: name | euros a night | all | ..."
    ]
    for line in SECTIONS["guesthouses Bohinj"].splitlines():
        name, price, *rest = line.split(" | ")
        night = round(int(price) * dear)
        rows.append(" | ".join([name, str(night), str(night * nights), *rest]))
    return "\n".join(rows)


def trains(origin: str, destination: str, day: str) -> str:
    """Look up train connections of a day (ISO date), for two people, one way."""
    rows = [f"{origin} to {destination} on {day}, two people, one way"]
    for hour in range(4, 24):
        takes, minute = 14 + hour % 3, 7 * hour % 60
        changes = ("Hanover, Munich", "Berlin, Vienna, Graz", "Frankfurt, Villach")[hour % 3]
        rows.append(
            f"{hour:02}:{minute:02} to {(hour + takes) % 24:02}:{(minute * 3) % 60:02}"
            f"{' (+1 day)' if (hour + takes) // 24 else ''}, {takes} h, change in {changes}, "
            f"ICE {500 + 7 * hour} and EC {100 + hour}, second class {119 + hour} euros, "
            f"first {198 + 2 * hour}, seats {'few' if hour % 4 else 'many'}, "
            f"bicycles {'no' if hour % 2 else 'with reservation'}, "
            f"restaurant car {'yes' if hour % 3 else 'no'}"
        )
    if "Hamburg" in origin:
        sleeper = 248 if _read_day(day) > date(2026, 6, 18) else 238
        rows.append(f"20:02 to 11:46 (+1 day), night train, no change, sleeper {sleeper} euros")
    elif "Hamburg" in destination:
        rows.append("16:32 to 08:20 (+1 day), night train, no change, sleeper 238 euros")
    else:
        rows.append("10:24 to 11:15, railcar over the bridge of Solkan, 5.80 euros each")
    return "\n".join(rows)


def weather(place: str, day: str) -> str:
    """Look up the forecast, or the usual weather, of a day (ISO date) and the one after it."""
    rows = [f"{place}, valley, 526 m: temperature, rain, wind, sky"]
    for hours in range(0, 48, 2):
        at = _read_day(day) + timedelta(days=hours // 24)
        hour = hours % 24
        heat = 16 - 8 * cos((hour - 3) * pi / 12)
        storm = hour in {16, 18} and at.day in range(22, 30)
        sky = "thunderstorm" if storm else "mist" if hour in range(6) else "some clouds, long sun"
        rows.append(
            f"{at:%a} {at.day} {at:%B} {hour:02}:00 {heat:.1f} degrees, "
            f"{4.2 if storm else 0.0} mm, {28 if storm else 6 + hour % 7} km/h, {sky}"
        )
    return "\n".join(rows)


def costs(items: dict[str, float]) -> str:
    """Add up costs in euros against the budget of 1,800."""
    total = sum(items.values())
    return f"total {total:,.0f} euros, {1800 - total:,.0f} left of 1,800"


def _read_day(text: str) -> date:
    """Read an ISO date; a model may write anything, and a tool that raises ends the run."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return date(2026, 6, 19)


def _look_up(kind: str, about: str) -> str:
    topics = [title.removeprefix(f"{kind} ") for title in SECTIONS if title.startswith(f"{kind} ")]
    for topic in topics:
        if any(word in about.lower() for word in topic.lower().split()):
            return SECTIONS[f"{kind} {topic}"]
    return f"nothing about {about!r}; there is: {', '.join(topics)}"


TOOLS = [calendar, mail, guide, guesthouses, trains, weather, costs]

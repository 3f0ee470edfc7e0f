"""What values out of a conversation may look like."""

from __future__ import annotations

from pydantic import BaseModel


class Profile(BaseModel):
    name: str | None = None
    city: str | None = None
    likes: list[str] | None = None
    age: int | None = None


class Trip(BaseModel):
    goal: str | None = None

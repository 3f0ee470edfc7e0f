"""Write `docs/events.schema.json`, the JSON Schema of the stream's parts, from their types.

cd tests && python -m support.event_schema     # after a part has changed
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from langgraph_om.parts import Part

SCHEMA = Path(__file__).parents[2] / "docs" / "events.schema.json"
_PART: Any = Annotated[Part, Field(discriminator="type")]
EXACT: TypeAdapter[Part] = TypeAdapter(_PART, config=ConfigDict(extra="forbid", strict=True))
"""Refuses a part with a field that its type does not have."""


class _Schema(GenerateJsonSchema):
    """Without a title for each field: generators of TypeScript make a type of each title."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def write_schema() -> str:
    """Return the schema; clients may meet fields of later versions, so it forbids none."""
    parts: TypeAdapter[Part] = TypeAdapter(_PART, config=ConfigDict(use_attribute_docstrings=True))
    return (
        json.dumps({"title": "Part", **parts.json_schema(schema_generator=_Schema)}, indent=1)
        + "\n"
    )


if __name__ == "__main__":
    SCHEMA.write_text(write_schema(), encoding="utf-8")

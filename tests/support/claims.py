"""Claims that end before their time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update

from langgraph_om.archive.tables import job_rows


def end_claims(archive: Any, *job_ids: str) -> None:
    """Have the claims of jobs end now, or of all."""
    ending = update(job_rows).where(job_rows.c.result.is_(None)).values(ends=0)
    with archive._writing("end claims") as connection:
        connection.execute(ending.where(job_rows.c.id.in_(job_ids)) if job_ids else ending)

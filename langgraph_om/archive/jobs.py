"""Jobs of background observation: one worker at a time has a claim, and that one can finish it.

All times are the database's, in the statements themselves, so that workers whose clocks differ
agree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Engine, and_, or_, select, update

from langgraph_om.archive.database import (
    Database,
    database_clock,
    delete_free,
    hold_name,
    insert_into,
)
from langgraph_om.archive.tables import encode_json, job_rows, job_thread_rows
from langgraph_om.archive.threads import count_deletions, is_left_of_deleted
from langgraph_om.archive.types import Claim, JobView, check_name, sum_deletions
from langgraph_om.core.config.options import check_seconds
from langgraph_om.core.content.message_keys import add_parents

_PRUNE_SECONDS = 3600.0
"""How often jobs that ended long ago are forgotten."""
_KEPT_SECONDS = 86_400.0
"""How long results stay that no step has taken in; a fork may still ask for them."""


class Jobs(Database):
    """The jobs of an archive."""

    def __init__(self, url_or_engine: str | Engine) -> None:
        super().__init__(url_or_engine)
        self._prune_at = time.monotonic()

    def claim(
        self,
        job_id: str,
        owner: str,
        *,
        seconds: float,
        thread_id: str,
        resource_id: str | None,
        about: Sequence[str] = (),
        deletion: int | None = None,
    ) -> Claim:
        """Ask for a job.

        Args:
            job_id: The job; it is made if it is new.
            seconds: How long the claim lasts. One that would end after more than twice that time is
                from before the clock was set back, and has ended.
            thread_id: The thread that the job works for; deleting it ends the job, and so does
                deleting `t` if the id is `t|>...`, archived or not.
            resource_id: The resource that the job works for.
            about: Other threads that the result tells of; deleting one ends the job too.
            deletion: How many deletions of thread and resource the asker knows of; `None`: any.

        Returns:
            "mine" when it is new, its claim has ended, or it is this owner's already (whose claim
            then begins anew); "taken" while another owner has it; "done" when it has a result.
            "taken" too if one of these threads was deleted, by itself, with its resource or with
            the thread around it, and has had no message since, or if the asker does not know of a
            deletion: what is known of it must not be kept.
        """
        check_name("owner", owner)
        check_seconds("seconds", seconds, allows_zero=True)
        now, ends_at = database_clock(), job_rows.c.ends
        ends = now + seconds
        is_over = or_(ends_at <= now, ends_at > now + 2 * seconds)
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + _PRUNE_SECONDS
            self.prune_jobs(older_than=_KEPT_SECONDS)
        with self._writing("claim a job") as connection:
            if resource_id is not None:
                hold_name(connection, "resource", resource_id)
            if is_left_of_deleted(connection, [thread_id, *about], resource_id):
                return "taken"
            number = sum_deletions(count_deletions(connection, resource_id, [thread_id]))
            if deletion not in (None, number):
                return "taken"
            new = insert_into(connection, job_rows).values(
                id=job_id, thread_id=thread_id, resource_id=resource_id, owner=owner, ends=ends
            )
            taking = new.on_conflict_do_update(
                index_elements=["id"],
                set_={"owner": owner, "ends": ends},
                where=and_(job_rows.c.result.is_(None), or_(job_rows.c.owner == owner, is_over)),
            )
            connection.execute(taking)
            for key in sorted(add_parents([thread_id, *about]) - {thread_id}):
                told = insert_into(connection, job_thread_rows).values(job_id=job_id, thread_id=key)
                connection.execute(told.on_conflict_do_nothing())
            held = select(job_rows.c.owner, job_rows.c.result).where(job_rows.c.id == job_id)
            row = connection.execute(held).one_or_none()
        if row is None:  # deleted by another, between the two
            return "taken"
        if row.result is not None:
            return "done"
        return "mine" if row.owner == owner else "taken"

    def take_over(self, job_id: str, sender: str, owner: str, *, seconds: float) -> bool:
        """Claim a job that `sender` has claimed for somebody to do, and return whether that worked.

        Repeating this is harmless. A job that was released or deleted is nobody's to take over.
        """
        check_name("owner", owner)
        check_seconds("seconds", seconds, allows_zero=True)
        held = update(job_rows).where(_is_held(job_id, sender, owner))
        taking = held.values(owner=owner, ends=database_clock() + seconds)
        with self._writing("take over a job") as connection:
            return connection.execute(taking).rowcount == 1

    def finish(self, job_id: str, owner: str, result: Mapping[str, Any]) -> bool:
        """Keep the result if the owner holds the job, and return whether it is the job's result.

        A claim that has ended still counts as long as nobody else claims the job.
        """
        body = encode_json(result)
        held = update(job_rows).where(_is_held(job_id, owner))
        with self._writing("finish a job") as connection:
            done = connection.execute(held.values(result=body, ends=database_clock()))
            if done.rowcount == 1:
                return True
            is_it = (job_rows.c.id == job_id, job_rows.c.owner == owner)
            return connection.execute(select(job_rows.c.id).where(*is_it)).first() is not None

    def release(self, job_id: str, owner: str) -> bool:
        """Have a claim end now, if it is this owner's, and return whether it was.

        Whoever claims the job next gets it.
        """
        with self._writing("release a job") as connection:
            held = update(job_rows).where(_is_held(job_id, owner))
            ended = held.values(owner="", ends=database_clock())
            return connection.execute(ended).rowcount == 1

    def job(self, job_id: str) -> JobView | None:
        """Return what is known of a job."""
        left = (job_rows.c.ends - database_clock()).label("left")
        query = select(job_rows, left).where(job_rows.c.id == job_id)
        with self._reading("read a job") as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.result is not None:
            return JobView("done", row.owner, json.loads(row.result), 0.0)
        return JobView("running" if row.left > 0 else "expired", row.owner, None, row.left)

    def prune_jobs(self, *, older_than: float) -> int:
        """Forget jobs done or abandoned more than this many seconds ago; return how many."""
        check_seconds("older_than", older_than, allows_zero=True)
        is_old = job_rows.c.ends < database_clock() - older_than
        with self._writing("prune jobs") as connection:
            pruned = delete_free(connection, job_rows, is_old)
            is_gone = job_thread_rows.c.job_id.not_in(select(job_rows.c.id))
            delete_free(connection, job_thread_rows, is_gone)
            return pruned


def _is_held(job_id: str, *owners: str) -> ColumnElement[bool]:
    """Build the condition that one of these has the job, whether or not the claim has ended."""
    has_it = job_rows.c.owner.in_(owners)
    return and_(job_rows.c.id == job_id, has_it, job_rows.c.result.is_(None))

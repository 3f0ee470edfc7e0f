"""What the log of the process says of cycles and failures, beside the stream."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from langgraph_om.core.content.text import for_terminal
from langgraph_om.core.wire import Event

logger = logging.getLogger("langgraph_om")


def _clean(record: logging.LogRecord) -> bool:
    """Take out of a line what would steer a terminal: errors quote what models and tools said."""
    said = record.getMessage()
    if (clean := for_terminal(said)) != said:
        record.msg, record.args = clean, ()
    if record.exc_info and not record.exc_text:
        record.exc_text = for_terminal(logging.Formatter().formatException(record.exc_info))
    return True


logger.addFilter(_clean)


def log_failures(events: Sequence[Event]) -> None:
    """Log what the stream shows too, for those who do not watch it."""
    for event in events:
        if event["type"] == "tripwire":
            logger.warning(
                "thread %r: the turn ends without an answer: %s",
                event["thread_id"],
                event["reason"],
            )
        elif (
            event["type"] in ("observation-failed", "buffering-failed")
            and event.get("failures")
            and not event.get("discarded")
        ):
            logger.warning(
                "thread %r: %s failed (%d in a row), its %s stay as they are: %s",
                event["thread_id"],
                event["operation"],
                event["failures"],
                "observations" if event["operation"] == "reflection" else "messages",
                event["error"],
            )


def log_cycles(events: Sequence[Event]) -> None:
    """Log each cycle that ended well, on one line, for those who run the agent."""
    for event in events:
        if event["type"] == "activation":
            logger.info(
                "thread %r: %s made ahead of need is in force: %d tokens read, the log has %d",
                event["thread_id"],
                event["operation"],
                event["tokens"],
                event["observation_tokens"],
            )
        elif event["type"] in ("observation-end", "buffering-end"):
            usage = event["usage"]
            logger.info(
                "thread %r: %s of %d tokens%s took %.1f s and wrote %d tokens; "
                "model calls: %d, %d tokens in, %d out",
                event["thread_id"],
                event["operation"],
                event["tokens"],
                " ahead of need" if event["type"] == "buffering-end" else "",
                event["duration_ms"] / 1000,
                event["observation_tokens"],
                usage.get("calls", 0),
                usage.get("inputTokens", 0),
                usage.get("outputTokens", 0),
            )
            if left_out := event.get("left_out_tokens"):
                logger.warning(
                    "thread %r: about %d tokens inside an enormous message were not read; its "
                    "beginning and its end were, and `recall` reads the rest",
                    event["thread_id"],
                    left_out,
                )

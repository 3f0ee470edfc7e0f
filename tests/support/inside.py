"""What tests look at inside the package: where a name moves, it is changed here alone."""
# ruff: noqa: F401

from __future__ import annotations

from langgraph_om.core.actor.prompt import count_instructions
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.dates import annotate, read_phrase
from langgraph_om.core.content.message_keys import (
    CONTINUATION_ID,
    GAP_ID,
    OTHERS_ID,
    OWN_IDS,
    RECALLED_ID,
    content_digest,
    derive_id,
    hidden_id,
    key_of,
    keyed_messages,
)
from langgraph_om.core.content.text import as_label, escape, sanitize
from langgraph_om.core.effects import JobState
from langgraph_om.core.observe.hints import tell_hints
from langgraph_om.core.observe.observer import ObserverInput, build_question, observe
from langgraph_om.core.observe.parse_answer import (
    MAX_LINE_CHARS,
    AnswerStatus,
    ParsedAnswer,
    parse_output,
)
from langgraph_om.core.observe.transcript import (
    MUCH_SAID,
    TimedMessage,
    TranscriptLimits,
    transcribe,
)
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    blank_record,
    complete_record,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.window import MIN_REMAINING, Entry, Window, open_window
from langgraph_om.core.reflect.edits import (
    CheckedEdits,
    Item,
    check_edits,
    find_spans,
    number_items,
    parse_edits,
    read_head,
)
from langgraph_om.core.reflect.reflector import EditedLog, ReflectorInput, reflect
from langgraph_om.core.tokens.counter import FunctionCounter, TokenCounter, count_messages
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import BufferedReflection, Event, Group, JobRequest, MemoryRecord
from langgraph_om.memory import runner_of

"""What tests look at inside the package: where a name moves, it is changed here alone."""
# ruff: noqa: F401

from __future__ import annotations

from langgraph_om.core.actor.prompt import count_instructions
from langgraph_om.core.config.options import ACTORS_OWN, ObservationConfig, ReflectionConfig
from langgraph_om.core.config.settings import NO_PARTS, Identity, Parts, Settings
from langgraph_om.core.config.thresholds import LOG_PART, Thresholds, resolve_thresholds
from langgraph_om.core.content.blocks import holds_bound_reasoning, without_bound_reasoning
from langgraph_om.core.content.dates import (
    annotate,
    describe_day,
    message_time,
    observation_date,
    read_phrase,
    times_of,
    write_gap,
)
from langgraph_om.core.content.message_keys import (
    CONTINUATION_ID,
    GAP_ID,
    OTHERS_ID,
    OWN_IDS,
    RECALLED_ID,
    ShowId,
    add_parents,
    content_digest,
    derive_id,
    hidden_id,
    is_reminder,
    key_of,
    keyed_messages,
    nest_thread_id,
)
from langgraph_om.core.content.parts import (
    EMPTY_RESULT,
    MAX_ATTACHMENTS,
    Attachment,
    is_profiled,
    is_visible,
    part_text,
    parts_of,
    role_of,
    with_attachments,
)
from langgraph_om.core.content.text import (
    as_label,
    escape,
    escape_attribute,
    sanitize,
    show_key,
    write_short_json,
)
from langgraph_om.core.cycles.observation import split_days
from langgraph_om.core.cycles.reflection import EditedLog, ReflectorInput, reflect, reflect_cycle
from langgraph_om.core.edits import (
    CheckedEdits,
    Division,
    Edit,
    Item,
    check_edits,
    find_invented,
    find_spans,
    number_items,
    parse_edits,
    read_head,
)
from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    JobState,
    LateError,
    ModelReply,
    ReadTally,
    Storage,
    Tally,
    Warn,
)
from langgraph_om.core.forms import InvalidError, SchemaForm
from langgraph_om.core.items import keep_protected, list_items
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.observer import ObserverInput, build_question, observe
from langgraph_om.core.observe.parse_answer import (
    LOG,
    MAX_LINE_CHARS,
    AnswerStatus,
    ParsedAnswer,
    is_degenerate,
    parse_output,
    strip_reasoning,
    tag_of,
    tell_hints,
)
from langgraph_om.core.observe.standing import choose_words, number_messages, read_marks
from langgraph_om.core.observe.threads import (
    ThreadInput,
    ThreadsInput,
    frame_sections,
    observe_threads,
    parse_sections,
    wrap_section,
    write_opening,
)
from langgraph_om.core.observe.transcript import (
    CONVERSATION_TAG,
    MUCH_SAID,
    SHORTEST,
    TimedMessage,
    Transcript,
    TranscriptLimits,
    find_gaps,
    transcribe,
    write_line,
)
from langgraph_om.core.plan import plan
from langgraph_om.core.prompts import fill, load, names
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    blank_record,
    complete_record,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.standing import is_standing, read_group
from langgraph_om.core.record.steering import find_item
from langgraph_om.core.record.users_log import complete_log
from langgraph_om.core.record.window import (
    MIN_REMAINING,
    Entry,
    Window,
    find_chunk_end,
    find_safe_cuts,
    open_window,
)
from langgraph_om.core.search import (
    JOINERS,
    MAX_WORD_CHARACTERS,
    FoundText,
    cut_excerpt,
    query_words,
    split_words,
)
from langgraph_om.core.step import Step
from langgraph_om.core.tokens import (
    FILE_FALLBACK_TOKENS,
    REDACTED_REASONING,
    EstimatingCounter,
    FunctionCounter,
    TokenCounter,
    count_messages,
)
from langgraph_om.core.wire import (
    BufferedReflection,
    Event,
    Group,
    JobRequest,
    Keep,
    MemoryRecord,
    UserLog,
)
from langgraph_om.features.archive import Archiving
from langgraph_om.features.evict import Evicting
from langgraph_om.features.leftovers import LEAST_BEHIND, MOST_NEAR, RECENT_PART
from langgraph_om.features.meaning import Meaning
from langgraph_om.features.recall import Recall, RetrievalConfig
from langgraph_om.features.recall_answer import Asker, InSight, UserArguments, recall
from langgraph_om.features.sharing import KNOWN_PART, Sharing
from langgraph_om.integrations.channels import REMOVE_ALL, messages_reducer
from langgraph_om.memory import ObservationalMemory, runner_of
from langgraph_om.models.ask import read_reply
from langgraph_om.models.model_value import EXAMPLE
from langgraph_om.models.pool import select_models
from langgraph_om.models.retries import is_transient, retry_after
from langgraph_om.options import MemoryOptions
from langgraph_om.reading import ArchiveSource, SearchRequest, Source, StateSource
from langgraph_om.runtime.executors import BackgroundBuffering, Executor
from langgraph_om.runtime.flows import RunContext, adrive, drive
from langgraph_om.runtime.run import RUNTIME, find_writer
from langgraph_om.runtime.runner import RunScope, StepRunner
from langgraph_om.runtime.turn import Outcome, turn

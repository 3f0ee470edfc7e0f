"""Choose the parts of memory that the options switch on, and join their options."""

from __future__ import annotations

from dataclasses import dataclass

from langgraph_om.core.config import options as core
from langgraph_om.core.config.settings import Parts, Setup
from langgraph_om.features.archive import ArchiveOptions, Archiving
from langgraph_om.features.evict import Evicting, EvictOptions
from langgraph_om.features.extract import (
    Extract,
    ExtractConfig,
    ExtractOptions,
)
from langgraph_om.features.gaps import GapOptions, Gaps
from langgraph_om.features.hints import ContinuationHints, HintOptions
from langgraph_om.features.inject.inject import Injecting
from langgraph_om.features.meaning.meaning import Meaning
from langgraph_om.features.pinned import Pinning
from langgraph_om.features.previews import Previews
from langgraph_om.features.recall import Recall, RecallOptions
from langgraph_om.features.shared_log import SharedLogs, SharingOptions
from langgraph_om.features.standing import Standing
from langgraph_om.features.steering import Steering
from langgraph_om.features.titles import (
    AskedTitles,
    NamedThreads,
    SuggestConfig,
    SuggestedTitles,
    SuggestOptions,
    TitleOptions,
)
from langgraph_om.features.working import KnownOfUser, WorkingOptions


class FeatureOptions(
    ArchiveOptions,
    EvictOptions,
    RecallOptions,
    GapOptions,
    HintOptions,
    WorkingOptions,
    TitleOptions,
    SharingOptions,
    total=False,
):
    """The options of all features, by name."""


class ObservationOptions(
    core.ObservationOptions,
    ExtractOptions,
    SuggestOptions,
    total=False,
):
    """The option `observation` as a mapping; `ObservationConfig` is the same as a class."""


@dataclass(frozen=True, kw_only=True)
class ObservationConfig(
    SuggestConfig,
    ExtractConfig,
    core.ObservationConfig,
):
    """When the Observer runs and what it is asked; a mapping with the same keys does as well.

    `ObservationOptions` says what each of them means.
    """

    keys = ObservationOptions


ReflectionOptions = core.ReflectionOptions
ReflectionConfig = core.ReflectionConfig


def list_configs() -> dict[str, type]:
    """Return the dataclasses of the options that are mappings, by the options' names."""
    return {**AskedTitles.configs, **Recall.configs}


def choose_parts(setup: Setup) -> Parts:
    """Return the parts that the options switch on.

    Raises:
        ConfigurationError: When an option cannot be meant.
    """
    meaning = Meaning.build(setup)
    recall = Recall.build(setup, meaning)
    return Parts(
        hints=ContinuationHints.build(setup),
        asked_titles=AskedTitles.build(setup),
        archive=Archiving.build(setup),
        evict=Evicting.build(setup),
        sharing=SharedLogs.build(setup),
        meaning=meaning,
        recall=recall,
        working=KnownOfUser.build(setup),
        extract=Extract.build(setup),
        standing=Standing(),
        pinned=Pinning(),
        previews=Previews.build(setup, reads_on=recall is not None),
        gaps=Gaps.build(setup),
        inject=Injecting.build(setup),
        steering=Steering(),
        named_threads=NamedThreads(),
        suggested_titles=SuggestedTitles.build(setup),
    )

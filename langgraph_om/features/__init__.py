"""The table of features: optional behaviours of memory, one folder or file and one row each.

Core, runtime and integrations know the protocol alone (`core/step/step.py:Feature`). A feature that
is off is never entered. To remove one, delete its folder and the lines here that name it.
"""

from __future__ import annotations

from dataclasses import dataclass

from langgraph_om.core import additions, prompts
from langgraph_om.core.config import options as core
from langgraph_om.core.config.settings import Features, Setup
from langgraph_om.core.step.step import Feature
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
from langgraph_om.features.show_state import ShowState
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

FEATURES: tuple[type[Feature], ...] = (
    ContinuationHints,
    AskedTitles,
    Archiving,
    Evicting,
    SharedLogs,
    Meaning,
    Recall,
    KnownOfUser,
    Extract,
    Standing,
    Pinning,
    Previews,
    Gaps,
    ShowState,
    Injecting,
    Steering,
    NamedThreads,
    SuggestedTitles,
)
"""In the order in which they take part in a step."""


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


for feature in FEATURES:
    if feature.additions is not None:
        additions.add(feature.name, feature.additions)
    if feature.prompts:
        prompts.add(feature.prompts)


def list_configs() -> dict[str, type]:
    """Return the dataclasses of the features' options that are mappings, by the options' names."""
    return {option: kind for feature in FEATURES for option, kind in feature.configs.items()}


def choose_features(setup: Setup) -> Features:
    """Return the features that the options switch on, in the order of the table.

    Raises:
        ConfigurationError: When an option of a feature cannot be meant.
    """
    for kind in FEATURES:
        feature = kind.build(setup)
        if feature is not None:
            setup.built.append(feature)
    return Features(tuple(setup.built))


def list_keepers(features: Features) -> list[Feature]:
    """Return the features that may have put something into the graph's store, on or off."""
    kinds = [kind for kind in FEATURES if kind.store_use]
    return [features.find(kind.name) or kind() for kind in kinds]

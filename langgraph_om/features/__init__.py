"""The table of features: optional behaviours of memory, one folder or file and one row each.

Core, runtime and integrations know the protocol alone (`core/step/step.py:Feature`). A feature that
is off is never entered. To remove one, delete its folder and the lines here that name it.
"""

from __future__ import annotations

from langgraph_om.core import additions, prompts
from langgraph_om.core.config.settings import Features, Setup
from langgraph_om.core.step.step import Feature
from langgraph_om.features.archive import Archiving
from langgraph_om.features.gaps import GapOptions, Gaps
from langgraph_om.features.inject import Injecting
from langgraph_om.features.pauses import PauseWork
from langgraph_om.features.previews import PreviewOptions, Previews
from langgraph_om.features.shared_log import SharedLogs, SharingOptions
from langgraph_om.features.steering import SteeringNotices
from langgraph_om.features.titles import TitleOptions, Titles
from langgraph_om.features.working_memory import KnownOfUser, WorkingOptions
from langgraph_om.features.working_text import WorkingText

FEATURES: tuple[type[Feature], ...] = (
    PauseWork,
    Titles,
    Archiving,
    SharedLogs,
    KnownOfUser,
    WorkingText,
    Previews,
    Gaps,
    Injecting,
    SteeringNotices,
)
"""In the order in which they take part in a step."""


class FeatureOptions(
    PreviewOptions,
    GapOptions,
    WorkingOptions,
    TitleOptions,
    SharingOptions,
    total=False,
):
    """The options of all features, by name."""


for feature in FEATURES:
    if feature.additions is not None:
        additions.add(feature.name, feature.additions)
    if feature.prompts:
        prompts.add(feature.prompts)


def choose_features(setup: Setup) -> Features:
    """Return the features that the options switch on, in the order of the table.

    Raises:
        ConfigurationError: When an option of a feature cannot be meant.
    """
    built = (feature.build(setup) for feature in FEATURES)
    return Features(tuple(feature for feature in built if feature is not None))

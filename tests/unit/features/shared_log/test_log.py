"""The log of a resource as a value."""

from __future__ import annotations

import pytest

from langgraph_om.errors import ConfigurationError
from langgraph_om.features.shared_log.log import complete_log, make_blank_log


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0, True])
def test_a_log_of_another_form_is_refused(version: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"shared log is {version!r}.*version 1; upgrade"):
        complete_log({**make_blank_log(), "version": version})

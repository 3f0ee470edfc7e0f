"""What hatch asks while it builds a distribution: the README as PyPI shows it, and links.

PyPI knows no files beside the README, so its links have to be whole addresses. They follow from the
one place that knows the repository: `[tool.hatch.metadata.hooks.custom]` in `pyproject.toml`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FROM_CHECKOUT = " @ file:///path/to/checkout"
"""How pages say that a package is installed, as long as no repository is known."""
_RELATIVE_LINK = re.compile(r"(!?)\[([^]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def complete_links(text: str, repository: str, tag: str) -> str:
    """Return a Markdown text with links and commands for those who have no checkout.

    Links into the repository are whole addresses then, and `pip` installs from a package index.

    Args:
        text: The text.
        repository: The repository's address; empty to leave the text as it is.
        tag: What names the version there.
    """
    if not repository:
        return text

    def complete(found: re.Match[str]) -> str:
        mark, words, path = found.groups()
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{tag}/{path})"

    return _RELATIVE_LINK.sub(complete, text.replace(FROM_CHECKOUT, ""))


def list_urls(repository: str, documentation: str) -> dict[str, str]:
    """Return the links that PyPI shows beside the project; none that is not known."""
    urls = {"Documentation": documentation} if documentation else {}
    if repository:
        urls |= {
            "Repository": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
    return urls


class CustomMetadataHook(MetadataHookInterface):
    """Gives the distribution its README and links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        repository = self.config.get("repository", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = complete_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = list_urls(repository, self.config.get("documentation", ""))

"""A hook of mkdocs: the site as a language model reads it, https://llmstxt.org.

Commands install from a package index as soon as `pyproject.toml` names the repository.

Beside each page stands its Markdown (`index.html.md`), and `llms.txt` lists the pages by the
sections of the navigation, each with its description in `mkdocs.yml`, which search engines are
given too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

GENERATED = ":::"
"""What stands, on a page of the reference, where mkdocstrings puts the text in."""

FROM_CHECKOUT = " @ file:///path/to/checkout"

Entry = tuple[str, str, str]
"""Section, title, and file of a page."""


def read_repository() -> str:
    """Return the repository's address: the one of `pyproject.toml`, empty while there is none."""
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    hooks = tomllib.loads(text)["tool"]["hatch"]["metadata"]["hooks"]
    return str(hooks["custom"]["repository"])


def list_pages(nav: Sequence[Mapping[str, Any]], section: str = "") -> Iterator[Entry]:
    """List the pages of a navigation, in its order."""
    for item in nav:
        for title, target in item.items():
            if isinstance(target, str):
                yield section, title, target
            else:
                yield from list_pages(target, title)


def place_of(file: str, text: str) -> str:
    """Return where a model finds a page: its Markdown, or what is generated into its HTML."""
    folder = "" if file == "index.md" else f"{file.removesuffix('.md')}/"
    return f"{folder}index.html" if GENERATED in text else f"{folder}index.html.md"


def write_index(config: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return the text of `llms.txt`.

    Args:
        config: That of mkdocs, with `site_name`, `site_description`, `nav`, `extra.descriptions`,
            and `site_url` where it is known; else links are relative.
        texts: The pages' Markdown by their files.
    """
    base = config.get("site_url") or ""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    last = ""
    for section, title, file in list_pages(config["nav"]):
        heading = section or "Start"
        if heading != last:
            lines += ["", f"## {heading}", ""]
            last = heading
        said = config["extra"]["descriptions"][file]
        lines.append(f"- [{title}]({base}{place_of(file, texts[file])}): {said}")
    return "\n".join([*lines, ""])


def name_source(text: str, repository: str) -> str:
    """Return a text whose commands install from a checkout only while no repository is known."""
    return text.replace(FROM_CHECKOUT, "") if repository else text


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Give a page its description and its commands; called by mkdocs."""
    del files
    said = config["extra"]["descriptions"].get(page.file.src_uri)
    if said:
        page.meta.setdefault("description", said)
    return name_source(markdown, read_repository())


def on_post_build(config: Any) -> None:
    """Write `llms.txt` and the Markdown of the pages; called by mkdocs."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    files = [file for _, _, file in list_pages(config["nav"])]
    repository = read_repository()
    texts = {file: name_source((docs / file).read_text("utf-8"), repository) for file in files}
    for file, text in texts.items():
        if GENERATED not in text:
            (site / place_of(file, text)).write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text(write_index(config, texts), encoding="utf-8")

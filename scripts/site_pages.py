"""A hook of mkdocs: files of the repository's root as pages, and links that hold in the repository made to hold there.

CONTRIBUTING.md and CHANGELOG.md become contributing.md and changelog.md. A link to a file that is no page goes to the
file's name as text: the pages are of a release, which has no address of its own for sources.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages made of files at the root."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links: to pages where there is one, else the text alone."""

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        name = target.removeprefix("../").removeprefix("docs/")
        name = PAGES.get(name, name)
        file = files.get_file_from_path(name)
        there = file is not None and file.inclusion.is_included()
        return f"[{text}]({name}{anchor or ''})" if there else text

    return LINK.sub(replaced, markdown)

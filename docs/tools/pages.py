"""Build the site from the pages of the repository. The README is the first page, and files outside `docs/` that pages link
to are included, so the repository and the site share one text."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "speed.md",
    "datasets/README.md": "samples.md",
}
"""Pages outside `docs/`, and their paths in the site."""

CONFIGS = sorted(
    path.relative_to(ROOT).as_posix()
    for kind in ("", "paper/", "studies/")
    for path in ROOT.glob(f"configs/{kind}*.yaml")
)
"""The pipelines that the site lists."""

LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
GENERATED = {site: stands for stands, site in PAGES.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs/`, the pipelines, and all other files that pages link to."""
    for stands, site in PAGES.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / stands)))
    for place in sorted({*linked_files(), *CONFIGS}):
        files.append(File.generated(config, place, abs_src_path=str(ROOT / place)))
    listed = "\n".join(f"- [{place.removeprefix('configs/')}]({place})" for place in CONFIGS)
    text = f"# Included pipelines\n\n{listed}\n"
    files.append(File.generated(config, "configs.md", content=text))
    return files


def linked_files() -> set[str]:
    """Files outside `docs/` that pages link to and that are not pages."""
    found: set[str] = set()
    for page in (*(ROOT / "docs").rglob("*.md"), *(ROOT / stands for stands in PAGES)):
        for link in LINK.finditer(page.read_text(encoding="utf-8")):
            path = Path(posixpath.normpath(page.parent / link[2]))
            if path.is_file() and path.is_relative_to(ROOT):
                found.add(path.relative_to(ROOT).as_posix())
    return {place for place in found if not place.startswith("docs/") and place not in PAGES}


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Rewrite repository links to site links."""
    site = page.file.src_uri
    stands = GENERATED.get(site, f"docs/{site}")
    here = posixpath.dirname(stands)

    def linked(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found[2]))
        if not (ROOT / target).exists():
            return found[0]
        target = PAGES.get(
            target, "configs.md" if target == "configs" else target.removeprefix("docs/")
        )
        place = posixpath.relpath(target, posixpath.dirname(site) or ".")
        return f"{found[1]}{place}{found[3] or ''}{found[4]}"

    return LINK.sub(linked, markdown)

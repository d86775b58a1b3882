"""Writes docs/licences.md: what an installation brings with it, and under which licences.

`python docs/tools/licences.py` writes it from the metadata of the packages that are installed here; `--check` exits with 1
where a package that is installed has another line there, or a licence that is not among `KNOWN`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "licences.md"
KNOWN = re.compile(
    r"MIT(-0|-CMU)?|MIT No Attribution|BSD(-[0-3]-Clause)?|0BSD|ISC|Apache-2\.0|Apache Software License|PSF-2\.0|Python-2\.0|"
    r"CNRI-Python|Unlicense|Zlib|BSL-1\.0|HPND|MPL-2\.0|Mozilla Public License 2\.0 \(MPL 2\.0\)|CC0-1\.0|FreeType"
)
"""Licences under which the program may depend on a package."""
VENDORED = """
## Files of other projects in the package

| file | version | licence |
| --- | --- | --- |
| `verdict_cli/report/page/vendor/chart.umd.min.js`: Chart.js, with `@kurkle/color` in it | 4.6.1 (0.3.4) | MIT: \
`LICENSE-chart.js.md`, `LICENSE-kurkle-color.md` beside it |
"""
_SPELLED = {
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "MIT license": "MIT",
    "BSD License": "BSD",
    "New BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "ISC License (ISCL)": "ISC",
    "ISC License": "ISC",
}


def main() -> None:
    """Write the page; exit with 1 where a licence is not known."""
    lines, _ = rows()
    strange = [line for line in lines.values() if not known(line.split(" | ")[2])]
    for line in strange:
        sys.stderr.write(f"a licence that is not known: {line}\n")
    PAGE.write_text(page(lines), encoding="utf-8")
    sys.exit(bool(strange))


def rows() -> tuple[dict[str, str], set[str]]:
    """Each package's line, and the names of those that are not installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split()
    )
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    wanted: dict[str, list[str]] = {}
    missing: set[str] = set()
    extras = project["optional-dependencies"]
    groups = {"core": project["dependencies"]} | {
        name: extras[name] for name in sorted(extras) if name not in ("all", "dev", "docs")
    }
    for group, needed in groups.items():
        found: dict[str, None] = {}
        for one in needed:
            missing |= closed(Requirement(one), found)
        for name in found:
            if "core" not in wanted.setdefault(name, []):
                wanted[name].append(group)
    lines = {}
    for name in sorted(set(wanted) - missing):
        own = distribution(name)
        version = pinned.get(name, own.version)
        lines[name] = f"| {own.name} | {version} | {licence(own)} | {', '.join(wanted[name])} |"
    return lines, missing


def closed(needed: Requirement, found: dict[str, None], extra: str = "") -> set[str]:
    """Puts the package, and what it needs here, into ``found``; the names of what is not installed."""
    name = canonicalize_name(needed.name)
    if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
        return set()
    known_, missing = name in found, set()
    found[name] = None
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:
        return {name}
    for line in requires:
        inner = Requirement(line)
        for chosen in ("", *needed.extras):
            if (not known_ or chosen) and canonicalize_name(inner.name) not in found:
                missing |= closed(inner, found, chosen)
    return missing


def licence(of: Distribution) -> str:
    """The licence in SPDX's words where the package says so, else in its own."""
    said = of.metadata.get("License-Expression") or ""
    if not said:
        classified = [
            one.rpartition(" :: ")[2]
            for one in of.metadata.get_all("Classifier") or ()
            if one.startswith("License :: ") and not one.endswith("OSI Approved")
        ]
        text = (of.metadata.get("License") or "").strip()
        first = text.partition("\n")[0].strip()
        short = first if first in _SPELLED or (first == text and len(text) < 60) else ""
        said = (
            short
            if short and (not classified or short in _SPELLED)
            else " AND ".join(classified) or short
        )
    return (
        " AND ".join(_SPELLED.get(one, one) for one in said.split(" AND "))
        or _titled(of)
        or "unknown"
    )


def _titled(of: Distribution) -> str:
    """The licence that the package's one licence file has as its title, "" where there is none or another."""
    texts = [file.read_text() for file in of.files or () if re.match(r"LICEN[CS]E", file.name)]
    begins = " ".join(texts[0].split()[:6]) if len(texts) == 1 else ""
    titles = {"Apache License Version 2.0,": "Apache-2.0", "MIT License": "MIT"}
    return next((name for title, name in titles.items() if begins.startswith(title)), "")


def known(expression: str) -> bool:
    """Whether the licence is known: each that must be kept, or one of those that may be chosen."""
    every = all if " AND " in expression else any
    names = re.split(r" AND | OR ", re.sub(r"[()]", "", expression))
    return every(KNOWN.fullmatch(name.strip()) is not None for name in names)


def page(lines: dict[str, str]) -> str:
    """The page's text."""
    return (
        "# Licences\n\n<!-- Written by `make licences` from the packages' own metadata; not by hand. -->\n\n"
        "verdict is under the Apache License 2.0. An installation brings these packages with it (on Linux, Python 3.11, in the\n"
        "versions of constraints.txt); `needed by` says whether the program itself needs one, or which extras do.\n\n"
        "| package | version | licence | needed by |\n| --- | --- | --- | --- |\n"
        + "\n".join(lines.values())
        + "\n"
        + VENDORED
    )


if __name__ == "__main__":
    main()

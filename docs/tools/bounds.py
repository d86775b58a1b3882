"""Print the lowest versions that pyproject.toml allows of the packages that verdict needs, as requirements.

python docs/tools/bounds.py > lowest.txt
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_LOWER = re.compile(r"([\w.-]+)>=([\w.]+)[^;]*(;.*)?")


def main() -> None:
    """Print `name==version` for each."""
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    for requirement in project["dependencies"]:
        bound = _LOWER.fullmatch(requirement)
        assert bound is not None, requirement
        sys.stdout.write(f"{bound[1]}=={bound[2]} {bound[3] or ''}".strip() + "\n")


if __name__ == "__main__":
    main()

"""Files that come with the program: pipelines, published tables, samples, data cards, schemas.

They stand within an installed package (`pyproject.toml` puts them there), or beside it in a checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from verdict_cli.errors import UsageError
from verdict_cli.spec.problems import nearest

Kind = Literal["configs", "datasets", "schemas"]

_PACKAGE = Path(__file__).parents[1]


def folder(kind: Kind) -> Path:
    """The folder of that kind."""
    within = _PACKAGE / kind
    return within if within.is_dir() else _PACKAGE.parent / kind


def configs() -> dict[str, Path]:
    """The pipelines by name, such as `xstest` and `reproductions/wice`."""
    top = folder("configs")
    found = [*top.glob("*.yaml"), *top.glob("reproductions/*.yaml")]
    return {path.relative_to(top).with_suffix("").as_posix(): path for path in sorted(found)}


def named_config(name: str) -> Path:
    """The pipeline of that name. UsageError, with the nearest one, when none has it."""
    known = configs()
    if name not in known:
        raise UsageError(f"no pipeline {name!r} comes with verdict", hint=nearest(name, known))
    return known[name]

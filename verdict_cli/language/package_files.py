"""Files that come with the program: pipelines, published tables, samples, data cards, schemas.

They are inside an installed package (`pyproject.toml` puts them there), or next to it in a checkout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from verdict_cli.errors import UsageError
from verdict_cli.language.document.error_messages import nearest_spelling

ShippedKind = Literal["configs", "datasets", "schemas"]

_PACKAGE = Path(__file__).parents[1]


def folder(kind: ShippedKind) -> Path:
    """The folder of that kind."""
    within = _PACKAGE / kind
    return within if within.is_dir() else _PACKAGE.parent / kind


def configs() -> dict[str, Path]:
    """The pipelines by name, such as `xstest`, `paper/figure4_jury` and `reproductions/wice`."""
    top = folder("configs")
    paths = [
        path for kind in ("", "paper/", "reproductions/") for path in top.glob(f"{kind}*.yaml")
    ]
    return {path.relative_to(top).with_suffix("").as_posix(): path for path in sorted(paths)}


def is_shipped(pipeline: Path) -> bool:
    """Whether the file is a pipeline that comes with verdict, or a copy of one."""
    top = folder("configs")
    for path in (top / pipeline.name, top / pipeline.parent.name / pipeline.name):
        try:
            if path.samefile(pipeline) or path.read_bytes() == pipeline.read_bytes():
                return True
        except OSError:
            continue
    return False


def datasets() -> dict[str, Path]:
    """The samples by name, such as `xstest_sample`."""
    return {path.stem: path for path in sorted(folder("datasets").glob("*_sample.jsonl"))}


def recordings() -> dict[str, Path]:
    """The recordings by name, such as `demo_replies`."""
    return {path.stem: path for path in sorted(folder("datasets").glob("*_replies.jsonl"))}


def file_or_named(path: Path, paths: Callable[[], Mapping[str, Path]]) -> Path:
    """The given file; if it does not exist, the one of that name that comes with verdict.

    Only a bare name is looked up, so that a path that is wrong stays an error. A user's own file comes first.
    """
    if path.suffix or path.is_absolute() or path.is_file():
        return path
    return paths().get(path.as_posix(), path)


def named_config(name: str) -> Path:
    """The pipeline of that name. UsageError, with the nearest one, when none has it."""
    shipped = configs()
    if name not in shipped:
        raise UsageError(
            f"no pipeline {name!r} comes with verdict", hint=nearest_spelling(name, shipped)
        )
    return shipped[name]

"""A study: a pipeline, what varies, and the metrics. A file of `configs/studies`, one of the user's, or `--vary`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from verdict_cli.config_model import ConfigModel, NonEmptyText, Seq
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.document.overrides import find_target, parts_of
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.package_files import configs, file_or_named, folder
from verdict_cli.messages import JsonObject

SWITCH = ("on", "off")
MOST_VALUE_LENGTH = 60


class StudyVariant(ConfigModel):
    """A variant of a study that has a name of its own."""

    name: NonEmptyText
    """Its name in tables and charts."""
    pipeline: NonEmptyText | None = None
    """Its pipeline, where it is not the study's: a file next to the study, or the name of a shipped one."""
    model: NonEmptyText | None = None
    """The model of the pipeline, as `--model`, which replaces it."""
    set: JsonObject = Field(default_factory=dict)
    """Values by their path in the file, as `--set` takes them."""
    off: Seq[NonEmptyText] = ()
    """Paths of what is left out."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The values as `--set` takes them."""
        return tuple(f"{path}={json.dumps(value)}" for path, value in self.set.items())


class Study(ConfigModel):
    """A pipeline, what varies, and the metrics that compare the variants."""

    study: Literal[1] = 1
    """The version of the format."""
    name: NonEmptyText | None = None
    """The name of its directory and page. [default: the pipeline's]"""
    description: str = ""
    """What it shows, in one sentence."""
    pipeline: NonEmptyText | None = None
    """The pipeline: a file next to the study, or the name of a shipped one."""
    variants: Seq[StudyVariant] = ()
    """The variants, the first of them the baseline; without `vary`."""
    vary: dict[str, Annotated[Seq[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Values for each path in the pipeline: every combination is a variant, the last path changing fastest."""
    together: bool = False
    """Whether `vary` pairs the first values of all paths, then the second ones, and so on."""
    metrics: Seq[NonEmptyText] = ()
    """EVALUATION.METRIC: the first compares the variants, the others are shown. [default: the first of the pipeline]"""
    against: Literal["cost", "calls", "latency"] | None = None
    """The axis of the frontier. [default: cost if it is known, else calls]"""


def studies() -> dict[str, Path]:
    """The studies that come with verdict, by name."""
    return {path.stem: path for path in sorted((folder("configs") / "studies").glob("*.yaml"))}


def read_study(path: Path) -> Study | None:
    """The study in a file, or the shipped one of that name; None for a pipeline. SpecError with every problem."""
    if path.suffix not in (".yaml", ".yml") and path.as_posix() in configs():
        return None
    document = read_document(file_or_named(path, studies))
    if "study" not in document.data:
        return None
    try:
        study = Study.model_validate(document.data)
    except ValidationError as error:
        raise SpecError([*explain_error(error, Study, document).values()]) from None
    if bool(study.variants) == bool(study.vary):
        raise UsageError(f"{path}: a study has either `variants` or `vary`")
    return study


def pipeline_of(path: Path, name: str) -> Path:
    """The file of a pipeline that the study of this path names; a shipped one by its name."""
    beside = file_or_named(path, studies).parent / name
    return beside if beside.is_file() else file_or_named(Path(name), configs)


def named_variants(study: Study, model: str | None) -> tuple[StudyVariant, ...]:
    """The variants that the study lists; with `--model`, those that differ in more than the model."""
    chosen: dict[object, StudyVariant] = {}
    for variant in study.variants:
        own_model = variant.model if model is None else None
        name = f"{variant.name}, {own_model}" if own_model else variant.name
        key = (variant.settings, variant.off, own_model, variant.pipeline)
        chosen.setdefault(key, variant.model_copy(update={"name": name, "model": own_model}))
    _check_names([variant.name for variant in chosen.values()], "the study")
    return tuple(chosen.values())


def varied(vary: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The values of each `PATH=V1,V2`, items of a YAML list. UsageError where one cannot be read."""
    values = {}
    for text in vary:
        path, equals, items = text.partition("=")
        if not equals or not path:
            raise UsageError(
                f"--vary {text!r} is not of the form PATH=V1,V2",
                hint="--vary 'pipeline[0].repeat=1,3,5'",
            )
        if path in values:
            raise UsageError(f"--vary has {path} twice", hint="give all values of a path at once")
        parts_of(path)
        values[path] = _items(items, text)
    return values


def _items(text: str, vary: str) -> tuple[Any, ...]:
    try:
        parsed = parse_document(f"value: [{text}]".encode(), "--vary").data
    except (SpecError, UnicodeEncodeError):
        parsed = {}
    values = parsed.get("value") if parsed.keys() == {"value"} else None
    if not isinstance(values, list) or not values:
        raise UsageError(
            f"--vary {vary!r}: the values are not YAML, separated by commas",
            hint="put texts with commas or special characters in quotes; a list is written [a, b]",
        )
    return tuple(values)


def combinations(
    document: Document, vary: Mapping[str, Sequence[Any]], *, together: bool = False
) -> tuple[StudyVariant, ...]:
    """Every combination of the values, the last path changing fastest; `together` takes the first values of all
    paths, then the second ones, and so on.

    For a path to a mapping or a list, `on` keeps it and `off` leaves it out; elsewhere they are texts.
    """
    if together and len({len(values) for values in vary.values()}) > 1:
        counts = ", ".join(f"{path} has {len(values)}" for path, values in vary.items())
        raise UsageError(f"--together needs as many values of each path: {counts}")
    names = _short_names(list(vary))
    switched = {path for path, values in vary.items() if _switches(document, path, values)}
    grid = zip(*vary.values(), strict=True) if together else product(*vary.values())
    variants = []
    for chosen in grid:
        values = dict(zip(vary, chosen, strict=True))
        words = [f"{name}={_text(value)}" for name, value in zip(names, chosen, strict=True)]
        variant = StudyVariant(
            name=" ".join(words),
            set={path: value for path, value in values.items() if path not in switched},
            off=tuple(path for path in vary if path in switched and values[path] == "off"),
        )
        variants.append(variant)
    _check_names([variant.name for variant in variants], "--vary")
    return tuple(variants)


def _switches(document: Document, path: str, values: Sequence[Any]) -> bool:
    """Whether the values are `on` and `off` of a mapping or a list."""
    target = find_target(document.data, path)
    words = [value for value in values if isinstance(value, str) and value in SWITCH]
    return (
        len(words) == len(values) and target is not None and isinstance(target.value, dict | list)
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= MOST_VALUE_LENGTH else f"{text[: MOST_VALUE_LENGTH - 1]}…"


def _short_names(paths: Sequence[str]) -> list[str]:
    """The last key of each path where it is unique; else, and for a path that ends in an index, the whole path."""
    last = [
        path.rpartition(".")[2] if "." in path and not path.endswith("]") else path
        for path in paths
    ]
    return [
        short if last.count(short) == 1 else path for short, path in zip(last, paths, strict=True)
    ]


def _check_names(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{where} has the variant {duplicate} twice", hint="values must differ")

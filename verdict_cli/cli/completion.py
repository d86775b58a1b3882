"""What the shell offers for a value: names that the language and the package know, and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def _beginning(names: Iterable[str], typed: str) -> list[str]:
    return sorted(name for name in names if name.startswith(typed))


def _files(typed: str) -> list[str]:
    """The files and folders that begin so; a shell adds none where names are offered."""
    folder, _, name = typed.rpartition("/")
    place = Path(f"{folder}/" if typed.startswith("/") else folder)
    prefix = f"{folder}/" if "/" in typed else ""
    if not place.is_dir():
        return []
    return [
        f"{prefix}{path.name}{'/' if path.is_dir() else ''}"
        for path in sorted(place.iterdir())
        if path.name.startswith(name)
    ]


def pipelines(incomplete: str) -> list[str]:
    """The pipelines shipped with verdict, and files."""
    from verdict_cli.language.package_files import configs

    return [*_beginning(configs(), incomplete), *_files(incomplete)]


def datasets(incomplete: str) -> list[str]:
    """The samples shipped with verdict, and files."""
    from verdict_cli.language import package_files

    return [*_beginning(package_files.datasets(), incomplete), *_files(incomplete)]


def models(incomplete: str) -> list[str]:
    """The models that need no key."""
    from verdict_cli.llm.providers.baseline import NAMES

    return _beginning(NAMES, incomplete)


def metrics(incomplete: str) -> list[str]:
    """The metrics."""
    from verdict_cli.language.metric_registry import METRICS

    return _beginning(METRICS.shipped(), incomplete)


def explained(incomplete: str) -> list[str]:
    """Units, scales, extractors, other parts of a file, and metrics."""
    from verdict_cli.language.metric_registry import METRICS
    from verdict_cli.language.reference import entries

    return _beginning({*entries(), *METRICS.shipped()}, incomplete)


def benchmarks(incomplete: str) -> list[str]:
    """The benchmarks with a data card."""
    from verdict_cli.language.package_files import folder

    cards = folder("datasets").glob("*.card.yaml")
    return _beginning((path.name.removesuffix(".card.yaml") for path in cards), incomplete)

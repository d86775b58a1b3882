"""Arguments and options shared by several commands, those that features add, and how typer gets them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Protocol, get_type_hints

import typer

from verdict_cli.cli import completion
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.registry import feature_part

NO_EXTRAS: NamedValues = MappingProxyType({})


@dataclass
class CommandCall:
    """One call of a command, as the command line gave it."""

    command: str
    options: NamedValues
    """Every option and argument by its parameter's name, those of extensions among them."""
    extras: JsonObject = field(default_factory=dict)
    """What extensions add to the call, by a name of their own: the command passes it on as its `extras`."""


class Extension(Protocol):
    """A frozen dataclass whose fields are options for typer, as those of `model_options.RowOptions`."""

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        """Do what the options say; the command runs inside of the context manager. Raises VerdictError."""
        ...


_BATCHES = ("batches", "run_options.BatchRunOptions")
_RAY = ("ray", "option.RayOption")
_TRACE = ("tracing", "option.TraceOption")
_UNTRUSTED = ("untrusted", "untrusted_option.UntrustedOption")
_EXTENSIONS = {
    "run": (_BATCHES, _RAY, _TRACE, _UNTRUSTED),
    "serve": (_TRACE,),
    "validate": (_UNTRUSTED,),
    "gate": (_UNTRUSTED,),
}
"""The options that features add to a command: the feature, and their class in it."""


def extensions(command: str) -> dict[str, type[Extension]]:
    """The classes of options that features add to a command, by the features' names."""
    classes = {
        feature: feature_part(feature, path) for feature, path in _EXTENSIONS.get(command, ())
    }
    return {feature: kind for feature, kind in classes.items() if kind is not None}


class Undecided(StrEnum):
    """The result of an inconclusive gate (`--inconclusive`)."""

    PASS = "pass"
    FAIL = "fail"


def _recording_path(value: Path | None) -> Path | None:
    """Resolve the name of a recording shipped with verdict, if there is no such file."""
    if value is None:
        return None
    from verdict_cli.language.package_files import file_or_named, recordings

    return file_or_named(value, recordings)


Config = Annotated[
    Path,
    typer.Argument(
        help="The pipeline file, or the name of a pipeline shipped with verdict.",
        autocompletion=completion.pipelines,
    ),
]
Data = Annotated[
    str,
    typer.Argument(
        help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or - for JSONL on standard input.",
        autocompletion=completion.datasets,
    ),
]
OptionalData = Annotated[
    str | None,
    typer.Argument(
        help="As for `run`: a file, a directory, a glob, or -. [default: the benchmark CONFIG]",
        autocompletion=completion.datasets,
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="EVALUATION.METRIC, or one of the two. [default: the first]",
        autocompletion=completion.metrics,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a value of the file, e.g. 'pipeline[1].repeat=5'.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The model of every unit that does not set one; the file's settings of it are kept.",
        autocompletion=completion.models,
    ),
]
AllowCode = Annotated[
    list[Path] | None,
    typer.Option("--allow-code", metavar="FILE", help="Allow the unit types of this Python file."),
]
AllowOutside = Annotated[
    bool,
    typer.Option(
        "--allow-outside",
        help="Let the pipeline file, and the images of rows, refer to files outside their folder.",
    ),
]


def _allow_hosts(hosts: list[str] | None) -> list[str] | None:
    """Add the hosts to VERDICT_ALLOW_HOSTS, for this process and its children."""
    if hosts:
        from verdict_cli.language.model_address import allow

        try:
            allow(hosts, os.environ)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None
    return hosts


# The callback does all the work, so commands ignore the value. `verdict serve` and `verdict view` do not have it, because their
# own `--allow-host` names the hosts that they answer for.
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="HOST",
        callback=_allow_hosts,
        help="Allow sending an API key to this host, as with VERDICT_ALLOW_HOSTS.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N rows.")]
SampleOption = Annotated[
    int | None,
    typer.Option(
        "--sample", min=1, help="A random sample of N rows, drawn with --seed, in file order."
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Delete the results in the directory and start over.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random choices.")]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        callback=_recording_path,
        help="Take all replies from a recording: a run, a calls.parquet, or a JSONL file.",
    ),
]
IntervalLevel = Annotated[
    float | None,
    typer.Option(
        "--level",
        min=0.5,
        max=0.9999,
        help="The confidence level of intervals. [default: the file's `level`, or 0.95]",
    ),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=4096, help="The most model calls in flight.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", min=0, metavar="USD", help="Start no further call once this much is spent."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Do not read or write the shared cache of replies.")
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print no progress. Warnings and errors are still printed."),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="Do not ask before money is spent. Without a terminal, nothing is asked anyway.",
    ),
]


EXTRAS = "extras"
"""The parameter by which a command takes what its extensions add; it is no option."""


def flatten_options(
    command: Callable[..., Any], name: str = "", added: NamedValues = NO_EXTRAS
) -> Callable[..., Any]:
    """Return the command with each parameter of an options class replaced by the fields of that class, for typer.

    The options of the classes ``added`` follow; the command runs inside of what they do.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    flattened: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            flattened += _options(groups[parameter.name])
        elif parameter.name != EXTRAS:
            annotation = hints.get(parameter.name, Any)
            flattened.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            )
    for extension in added.values():
        flattened += _options(extension)

    @wraps(command)
    def flat_command(**values: Any) -> Any:
        options = dict(values)

        def filled(kind: Any) -> Any:
            return kind(**{field.name: values.pop(field.name) for field in fields(kind)})

        opened = [filled(kind) for kind in added.values()]
        parameters = {group: filled(kind) for group, kind in groups.items()}
        call = CommandCall(name, options)
        with ExitStack() as stack:
            for extension in opened:
                stack.enter_context(extension.applied(call))
            extras = {EXTRAS: call.extras} if EXTRAS in command.__annotations__ else {}
            return command(**values, **parameters, **extras)

    del flat_command.__wrapped__
    flat_command.__signature__ = inspect.Signature(flattened)  # type: ignore[attr-defined]
    flat_command.__annotations__ = {parameter.name: parameter.annotation for parameter in flattened}
    return flat_command


def _options(kind: Any) -> list[inspect.Parameter]:
    """The fields of an options class as parameters."""
    types = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=types[field.name],
        )
        for field in fields(kind)
    ]

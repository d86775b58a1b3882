"""The option `--untrusted` of `run`, `validate` and `gate`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from verdict_cli.cli.options import CommandCall
from verdict_cli.errors import UsageError
from verdict_cli.messages import NamedValues
from verdict_cli.storage.paths import is_remote_url


@dataclass(frozen=True, kw_only=True)
class UntrustedOption:
    """Run the command in a confined process, unless this is that process. Raises UsageError."""

    untrusted: Annotated[
        bool,
        typer.Option(
            "--untrusted",
            rich_help_panel="Untrusted files",
            help="For a pipeline or a dataset of unknown origin: use no other files, hosts, keys or code than the command names, "
            "in a process with limits of memory and time. `run` requires --budget.",
        ),
    ] = False

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        if not self.untrusted:
            return nullcontext()
        # Not at the head: every run has this option, and few use it.
        from verdict_cli.features.untrusted.untrusted import confine

        options = call.options
        if call.command == "gate":
            confine(filter(None, (options["run"], options["gates"])), out=options["run"])
        else:
            confine(
                [*_files(options), *([options["replay"]] if options.get("replay") else [])],
                out=_output(call),
                fresh=call.command == "run",
                model=options["model"],
                allow_host=options["allow_host"],
                forbidden=_forbidden(options),
            )
        return nullcontext()


def _files(options: NamedValues) -> list[Any]:
    """The pipelines and the dataset that the command names."""
    configs = options["configs"] if "configs" in options else [options["config"]]
    return [*configs, *([options["data"]] if options["data"] else [])]


def _output(call: CommandCall) -> Any:
    """The directory that the command writes to; None where it writes nothing."""
    if call.command != "run":
        return None
    if call.options["budget"] is None and call.options["replay"] is None:
        raise UsageError(
            "--untrusted needs --budget, because the pipeline decides how many calls it makes",
            hint="give --budget USD, or --replay RECORDING to make no call",
        )
    return call.options["out"] or "runs"


def _forbidden(options: NamedValues) -> dict[str, object]:
    """The values of options that would let the files have more."""
    urls = (*_files(options), options.get("out"))
    return {
        "--allow-code": options["allow_code"],
        "--allow-outside": options["allow_outside"],
        "--trace": options.get("trace"),
        "a URL": any(url is not None and is_remote_url(str(url)) for url in urls),
    }

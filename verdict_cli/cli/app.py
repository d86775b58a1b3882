"""The command line: its commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from verdict_cli import __version__
from verdict_cli.cli.console import print_error
from verdict_cli.cli.model_options import flatten_options
from verdict_cli.errors import VerdictError

COMMANDS = {
    "init": "Write a first pipeline for your own data, and try it.",
    "demo": "Show a judge, a report and a comparison in seconds, offline.",
    "run": "Judge every row of a dataset and report the figures.",
    "judge": "Judge one row, or rows on standard input, live.",
    "rank": "Pick among candidates: by score, tournament or groups.",
    "validate": "Check a pipeline file, and data against it, without a call.",
    "graph": "Draw the graph of a pipeline.",
    "estimate": "Say what a run will cost: calls, tokens, dollars.",
    "sweep": "Run variants side by side: figure, cost, calls, time.",
    "audit": "Measure what should not decide a verdict, and may.",
    "plan": "Say how many rows or labels a wanted interval needs.",
    "report": "Measure a run again and rewrite its report.",
    "compare": "Compare two runs row by row.",
    "gate": "Decide a run's gates again.",
    "calibrate": "Fit a judge to labelled rows of a run.",
    "extract": "Read a run's recorded replies with other extractors.",
    "serve": "Answer over HTTP: judgements, rewards, batches.",
    "view": "Show runs in a browser.",
    "bench": "Judge a benchmark, or make published figures anew.",
    "explain": "Say what a word of the language means.",
    "schema": "Print the JSON Schema of pipeline files.",
    "units": "List the unit types, or the keys of one.",
    "datasets": "List, download, import and check benchmarks.",
    "cache": "Show what the cache of replies holds, or clear it.",
}
"""Each is a module of this folder with a function of its name, or with an `app` where it has commands of its own; and what the
list of commands says of it."""


class Commands(TyperGroup):
    """The commands; the module of each is imported when it is run or listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none, and then all are there to name the nearest."""
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(_command(name), name)
        return super().get_command(ctx, cmd_name)


def _command(name: str) -> Any:
    module = import_module(f"verdict_cli.cli.{name}")
    own = getattr(module, "app", None)
    if own is None:
        own = typer.Typer(add_completion=False, rich_markup_mode=None)
        own.command(name)(flatten_options(getattr(module, name)))
    command = typer.main.get_command(own)
    command.short_help = COMMANDS[name]
    return command


app = typer.Typer(
    name="verdict",
    help="Judge LLM outputs with compound judges: small graphs of LLM calls described in a YAML file.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    """Answers --version."""
    if version:
        sys.stdout.write(f"verdict {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.Exit(2)


def main() -> None:
    """Runs the command line; every error leaves by here."""
    _utf8()
    try:
        app(prog_name="verdict")
    except SystemExit as left:
        if left.code == 2 and (cure := shell_cure(sys.argv[1:])):
            print_error(cure)
        raise
    except VerdictError as error:
        print_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print_error("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception:
        import traceback
        from tempfile import NamedTemporaryFile

        from verdict_cli.llm.providers.secrets import environment_secrets, redact_text

        with NamedTemporaryFile("w", prefix="verdict-error-", suffix=".log", encoding="utf-8", delete=False) as log:
            log.write(redact_text(traceback.format_exc(), environment_secrets(os.environ)))
        print_error(
            f"this is a mistake in verdict itself; what happened is written to {log.name}\n"
            "    please report it with that file"
        )
        sys.exit(70)
    finally:
        gc.freeze()  # or the interpreter would look through everything once more while it ends


def shell_cure(words: Sequence[str]) -> str:
    """What is probably wrong with the command line: no command, or a JSON text that the shell took apart, or a glob that it made
    into files. Else empty."""
    if words and words[0] not in COMMANDS and Path(words[0]).suffix in (".yaml", ".yml"):
        return f"the command comes first: verdict run {shlex.join(words)}"
    if "--row" in words[:-1] and not words[words.index("--row") + 1].endswith("}"):
        return 'the shell took the row apart: put it into single quotes, --row \'{"question": "…"}\''
    files = [word for word in words if not word.startswith("-") and Path(word).is_file()]
    if len(files) > 2 and words[0] not in ("compare",):
        return (
            "the shell made several files of a glob: put it into quotes, such as 'data/*.jsonl', or name the directory"
        )
    return ""


def _utf8() -> None:
    """Reads and writes UTF-8 whatever the machine's own encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

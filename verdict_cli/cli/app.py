"""The command line: its commands, and the place where an error becomes a message and an exit code."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from verdict_cli import __version__
from verdict_cli.cli.console import print_error
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.model_options import flatten_options
from verdict_cli.errors import VerdictError

GROUPS = {
    "Commands": {
        "init": "Write a first pipeline for your own data, and try it.",
        "run": "Judge every row of a dataset and report the metrics.",
        "view": "Show runs in a browser.",
        "compare": "Compare runs row by row, metric by metric.",
        "gate": "Re-evaluate a run's gates and regenerate the report.",
    },
    "Check a pipeline (no model is called)": {
        "validate": "Check a pipeline file, and a dataset against it.",
        "graph": "Draw the graph of a pipeline.",
        "estimate": "Estimate the calls, tokens and cost of a run.",
        "plan": "Compute how many rows or labels an interval needs.",
        "explain": "Explain a unit, key, metric or error code.",
        "units": "List the unit types, or the keys of one.",
        "schema": "Print the JSON Schema of pipeline files.",
    },
    "Judge live": {
        "judge": "Judge one row, or rows from standard input.",
        "rank": "Rank candidates by score, tournament or groups.",
        "serve": "Serve a judge over HTTP: verdicts, rewards, batches.",
    },
    "Study a judge": {
        "sweep": "Compare variants of a pipeline: metric, cost, latency.",
        "audit": "Test a judge for bias and prompt-injection robustness.",
        "extract": "Read a run's recorded replies with other extractors.",
        "calibrate": "Fit a judge to the labelled rows of a run.",
        "queue": "Draw rows of a run for people to label.",
        "align": "Improve a unit of a judge against human labels.",
        "watch": "Detect drift of a judge on frozen rows.",
    },
    "Benchmarks and data": {
        "bench": "Judge a benchmark, or reproduce published results.",
        "import": "Convert logs of other tools to a dataset.",
        "export": "Write the scores of a run for other tools.",
        "datasets": "List, download, import and check benchmarks.",
        "demo": "Show a judge, a report and a comparison, offline.",
        "reproduce": "Reproduce the paper's tables 1 to 3.",
    },
    "Maintenance": {
        "batch": "Show, cancel or collect the batches of a run.",
        "report": "Recompute a run's metrics and rewrite its report.",
        "verify": "Check a run's files against its digests.",
        "cache": "Show or clear the cache of model replies.",
    },
}
"""The sections of `verdict --help`, and the one-line help of each command."""

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
"""Each command is a module of this folder with a function of its name (`import_` for a keyword), or with an `app` if it has
subcommands."""


FEATURE_COMMANDS = {"batch": "verdict_cli.features.batches.command"}
"""The modules of the commands that features bring."""

LISTED_TOGETHER = {
    "explain": (
        ("explain", "units", "schema"),
        "Explain a unit, key, metric or error; list units; print the JSON Schema.",
    ),
    "estimate": (("estimate", "plan"), "Estimate the cost of a run; the rows or labels that an interval needs."),
    "queue": (("queue", "align"), "Draw rows for people to label; improve a judge by the labels."),
    "verify": (("verify", "cache"), "Check a run's files; show or clear the cache of model replies."),
    "bench": (("bench", "reproduce"), "Judge a benchmark, or reproduce published results and the paper's tables."),
}
"""Commands that `--help` lists in one line, at the first of them."""


class Commands(TyperGroup):
    """The commands. The module of a command is imported when the command is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None if there is none. Then all are loaded, because click suggests the nearest name."""
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(_command(name), name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups. Their modules are not imported: that takes longer than everything else here."""
        followers = {name for names, _ in LISTED_TOGETHER.values() for name in names[1:]}
        lines = {
            name: (", ".join(LISTED_TOGETHER[name][0]), LISTED_TOGETHER[name][1])
            if name in LISTED_TOGETHER
            else (name, text)
            for name, text in COMMANDS.items()
            if name not in followers
        }
        width = max(len(names) for names, _ in lines.values())
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(lines[name][0].ljust(width), lines[name][1]) for name in commands if name in lines]
                )


def _command(name: str) -> Any:
    attribute = f"{name}_" if iskeyword(name) else name
    module = import_module(FEATURE_COMMANDS.get(name, f"verdict_cli.cli.{attribute}"))
    command_app = getattr(module, "app", None)
    if command_app is None:
        command_app = typer.Typer(add_completion=False, rich_markup_mode=None)
        command_app.command(name, cls=HelpCommand)(flatten_options(getattr(module, attribute)))
    command = typer.main.get_command(command_app)
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
    if version:
        sys.stdout.write(f"verdict {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.Exit(2)


def main() -> None:
    """Run the command line. Every error becomes a message and an exit code here."""
    _use_utf8()
    try:
        app(prog_name="verdict")
    except SystemExit as ended:
        if ended.code == 2 and (hint := usage_hint(sys.argv[1:])):
            print_error(hint)
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
    except MemoryError:
        print_error("the memory is exhausted\n    use smaller files, or a machine with more memory")
        sys.exit(2)
    except Exception:
        import traceback
        from tempfile import NamedTemporaryFile

        from verdict_cli.llm.providers.secrets import environment_secrets, redact_text

        with NamedTemporaryFile("w", prefix="verdict-error-", suffix=".log", encoding="utf-8", delete=False) as log:
            log.write(redact_text(traceback.format_exc(), environment_secrets(os.environ)))
        print_error(f"internal error in verdict (please report it)\n    attach the traceback: {log.name}")
        sys.exit(70)
    finally:
        gc.freeze()  # otherwise the interpreter collects again while it exits


def usage_hint(words: Sequence[str]) -> str:
    """Guess what is wrong with a command line: no command, or JSON or a glob that the shell expanded. Empty if unknown."""
    if words and words[0] not in COMMANDS and Path(words[0]).suffix in (".yaml", ".yml"):
        return f"the command comes first: verdict run {shlex.join(words)}"
    if "--row" in words[:-1] and not words[words.index("--row") + 1].endswith("}"):
        return 'the shell split the row: put it in single quotes, --row \'{"question": "…"}\''
    files = [word for word in words if not word.startswith("-") and Path(word).is_file()]
    if len(files) > 2 and words[0] not in ("compare",):
        return "the shell expanded a glob: quote it, such as 'data/*.jsonl', or give the directory"
    return ""


def _use_utf8() -> None:
    """Write UTF-8 whatever the machine's own encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

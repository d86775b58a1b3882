"""How a command whose runs were stopped goes on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from verdict_cli.cli.streams import complain
from verdict_cli.errors import JournalError, VerdictError

if TYPE_CHECKING:
    from verdict_cli.calls import Store


@contextmanager
def resumable(store: Store | None) -> Iterator[None]:
    """Of what stops the runs within, says how the command goes on and exits; closes the cache whatever happened."""
    try:
        yield
    except JournalError:
        raise
    except VerdictError as error:
        complain(str(error))
        complain(resume())
        raise typer.Exit(error.exit_code) from None
    finally:
        if store is not None:
            store.close()
            if store.trouble:
                complain(f"warning: replies could not be kept in the cache: {store.trouble}")


def resume() -> str:
    """How the user goes on."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return f"the same command goes on: {shlex.join(['verdict', *words])}"

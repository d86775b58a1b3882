"""One row through a plan."""

from verdict_cli.runtime.context import Context
from verdict_cli.runtime.row import PINNED_ROW, run_pinned, run_row

__all__ = ["PINNED_ROW", "Context", "run_pinned", "run_row"]

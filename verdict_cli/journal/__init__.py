"""The journal: each paid call on disk before its row counts as done."""

from verdict_cli.journal.entry import Entry
from verdict_cli.journal.journal import Journal

__all__ = ["Entry", "Journal"]

"""The journal: each paid call on disk before its row counts as done."""

from verdict_cli.journal.copies import told_apart
from verdict_cli.journal.entry import Entry, read_reply, reply_fields
from verdict_cli.journal.journal import Journal

__all__ = ["Entry", "Journal", "read_reply", "reply_fields", "told_apart"]

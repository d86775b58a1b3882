"""The journal: each paid call on disk before its row counts as done."""

from verdict_cli.journal.copies import told_apart
from verdict_cli.journal.entry import Entry, read_reply, reply_fields
from verdict_cli.journal.journal import Journal
from verdict_cli.journal.segments import Segments

__all__ = ["Entry", "Journal", "Segments", "read_reply", "reply_fields", "told_apart"]

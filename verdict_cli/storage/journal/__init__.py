"""The journal: each paid call on disk before its row counts as done."""

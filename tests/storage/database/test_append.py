"""What is appended to a database keeps its texts, calls and rows under new numbers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from verdict_cli.messages import Message, Reply
from verdict_cli.storage.database.append import append
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, RowCall, StoredRow
from verdict_cli.storage.database.schema import connect, open_foreign

PAID_WITHOUT_ROW = -2


def fill(path: Path, rows: range, column: str) -> None:
    """Rows of one call each, of which the first is retracted; and a call that is of no row."""
    with Database.open(path) as database:
        extra = database.add_call(
            None, (PAID_WITHOUT_ROW, "extra", "", 0, 0), "m", CallContent(Reply(column))
        )
        database.add_row(
            StoredRow(
                PAID_WITHOUT_ROW, "", database.names(()), [], (RowCall(extra.number, "extra"),)
            )
        )
        for row in rows:
            reply = CallContent(Reply(f"reply {row}", cost_usd=0.5))
            message = Message("user", f"Row {row}")
            call = database.add_call(
                b"%016d" % row, (row, "judge", "", 0, 0), "m", reply, messages=[message]
            )
            names = database.names((f"{column} {row}",))
            database.add_row(StoredRow(row, row, names, [row], (RowCall(call.number, "judge"),)))
            if row == rows[0]:
                database.retract([call.number])


def test_rows_keep_their_calls_their_texts_and_what_they_cost(tmp_path):
    parts = {"a": range(0, 6, 2), "b": range(1, 6, 2)}
    merged = tmp_path / "merged.db"
    Database.open(merged).close()
    for name, rows in parts.items():
        fill(tmp_path / name, rows, name)
        with closing(open_foreign(tmp_path / name)) as source, closing(connect(merged)) as target:
            append(source, target)
    with Database.open_foreign(merged) as database:
        extra, *rows = database.rows()
        assert [row.row for row in rows] == list(range(6))
        for row in rows:
            (call,) = database.calls([row.calls[0].number]).values()
            assert call.content.reply == Reply(f"reply {row.row}", cost_usd=0.5)
            assert database.messages(call.content) == (Message("user", f"Row {row.row}"),)
            assert database.text(row.names) == f'["{"ab"[row.row % 2]} {row.row}"]'
        of_no_row = database.calls([call.number for call in extra.calls]).values()
        assert [call.content.reply for call in of_no_row] == [Reply("a"), Reply("b")]
        assert database.retracted_usd == 1.0
        assert database.find(b"%016d" % 0) == database.find(b"%016d" % 1) == []

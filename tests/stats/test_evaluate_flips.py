"""The flip rate of judges that are asked in both orders."""

import pytest

from verdict_cli.stats.measure import flip_rates
from verdict_cli.storage.tables.writer import ParquetTable


def test_the_flip_rate_is_the_share_of_rows_whose_two_orders_disagree(tmp_path):
    path = tmp_path / "results.parquet"
    with ParquetTable(path) as table:
        for row, (status, agree) in enumerate(
            [("ok", True), ("ok", False), ("ok", True), ("ok", True), ("failed", None)]
        ):
            table.write({"row": row, "id": row, "status": status, "judge[0].consistent": agree})
    (flip_rate,) = flip_rates(["judge[0]"], path).values()
    assert flip_rate.value == pytest.approx(0.25)
    assert flip_rate.n == 4
    assert flip_rate.low is not None and flip_rate.low < 0.25 < (flip_rate.high or 0)


def test_without_such_a_judge_nothing_is_read(tmp_path):
    assert flip_rates([], tmp_path / "missing.parquet") == {}

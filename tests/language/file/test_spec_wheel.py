"""What the commands need of the repository comes with the installed package."""

from zipfile import ZipFile

import pytest
from paths import ROOT


def test_the_wheel_has_every_pipeline_table_sample_card_and_schema(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    (built,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as packed:
        names = set(packed.namelist())
    wanted = [
        path for kind in ("configs", "datasets", "schemas") for path in (ROOT / kind).rglob("*.*")
    ]
    assert len(wanted) > 60
    assert {f"verdict_cli/{path.relative_to(ROOT).as_posix()}" for path in wanted} <= names

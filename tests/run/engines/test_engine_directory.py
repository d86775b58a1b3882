"""A run's directory: what may be written there."""

import pytest

from verdict_cli.errors import OutputError
from verdict_cli.run.run_directory import RunDirectory


@pytest.mark.parametrize(
    "name",
    [
        "../escaped.yaml",
        "published/../../escaped.yaml",
        "published/../../run/x.yaml",
        "/ABSOLUTE/escaped.yaml",
    ],
)
def test_nothing_is_written_outside_the_directory(name, tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.prepare()
    with pytest.raises(OutputError, match="leaves the run's directory"):
        directory.write(name.replace("/ABSOLUTE", str(tmp_path)), "x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_is_a_link_is_not_followed_out_of_the_directory(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.prepare()
    (tmp_path / "elsewhere").mkdir()
    (directory.path / "published").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="leaves the run's directory"):
        directory.write("published/t.yaml", "x")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_missing_parent_directory_is_created(tmp_path):
    for folder in (tmp_path / "run", tmp_path / "a" / ".." / "run"):
        path = RunDirectory(folder).write("published/t.yaml", "x")
        assert path.read_text() == "x"
    assert (tmp_path / "run" / "published" / "t.yaml").exists()

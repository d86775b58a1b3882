"""A run whose directory is on a network file system, by the mount table."""

from __future__ import annotations

from pathlib import Path

import pytest

from verdict_cli.storage import mounts
from verdict_cli.storage.mounts import network_file_system


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "fuse.sshfs", "9p", "lustre"])
def test_the_database_is_on_this_machine_and_copied_when_the_run_ends(
    kind, bench, tmp_path, monkeypatch
):
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda / ext4 rw 0 0\nhost:/x {tmp_path}/out {kind} rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(tmp_path / "cache"))
    warnings: list[str] = []
    job = bench.job(5, warn=warnings.append)
    facts = bench.run(job)
    assert facts.done == 5
    assert [warning for warning in facts.warnings if f"is on {kind}" in warning]
    assert len(warnings) == 1 and f"is on {kind}" in warnings[0]
    (copy,) = (tmp_path / "cache" / "runs").glob("*/run.db")
    assert copy.read_bytes() == job.directory.database.read_bytes()
    copy.unlink()
    assert bench.run(job).done == 5
    assert len(bench.requests) == 5


def test_a_mount_above_a_network_mount_is_not_one(tmp_path, monkeypatch):
    table = tmp_path / "mounts"
    table.write_text(f"host:/x / nfs rw 0 0\n/dev/sda {tmp_path} ext4 rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    assert network_file_system(tmp_path / "run") == ""
    assert network_file_system(Path("/")) == "nfs"

"""A URL is refused where only paths are written to."""

from shell import needs


@needs("audit", "object_store")
def test_a_url_is_refused_where_only_paths_are_written_to(shell):
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    done = shell("audit", config, shell.rows(2), "--out", "s3://bucket/run")
    assert (done.code, "only `verdict run` writes to one" in done.err) == (2, True)
    assert not (shell.folder / "s3:").exists()
    read = shell("report", "s3://bucket/run")
    assert (read.code, "copy the run from its store" in read.err) == (2, True)

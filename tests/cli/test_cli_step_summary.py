"""The summary of a GitHub Actions step."""

from verdict_cli.cli.show_report import MOST_SUMMARY_BYTES, append_step_summary

ONE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


def test_a_run_adds_its_report_to_what_the_step_has(shell, monkeypatch):
    summary = shell.write("summary.md", "before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert shell("run", shell.config(ONE), shell.rows(3), "--out", "out", "-q").code == 0
    report = (shell.folder / "out" / "report.md").read_text(encoding="utf-8")
    assert summary.read_text(encoding="utf-8") == f"before\n{report}\n"


def test_a_summary_without_room_stays_as_it_is(tmp_path, capsys):
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * (MOST_SUMMARY_BYTES - 10))
    append_step_summary("a report that is longer than that", {"GITHUB_STEP_SUMMARY": str(path)})
    assert path.stat().st_size == MOST_SUMMARY_BYTES - 10
    assert "does not fit" in capsys.readouterr().err


def test_a_summary_that_cannot_be_written_is_a_warning(tmp_path, capsys):
    append_step_summary("text", {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert "cannot be written" in capsys.readouterr().err
    append_step_summary("text", {})
    assert capsys.readouterr().err == ""

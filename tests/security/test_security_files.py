"""A pipeline file and a dataset name files of their own folder only, unless `--allow-outside`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from verdict_cli import Pipeline
from verdict_cli.cli.app import app
from verdict_cli.errors import DataError, ReplyError, SpecError
from verdict_cli.language.fields.types import ImageType
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.run.judge_session import RowInputs

HEAD = "verdict: 1\nname: p\nmodel: baseline/lexical\n"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 16
NAMING = {
    "prompt": "pipeline: [{unit: CoTUnit, prompt: {file: %s}}]",
    "use": "pipeline: [{use: '%s#b'}]",
    "weights": "pipeline: [{unit: JudgeUnit, scale: boolean, prompt: '{source.q}', "
    "extract: {type: token_probability, calibration: {file: %s}}}]",
    "published": "pipeline: [{unit: JudgeUnit, prompt: '{source.q}'}]\nevaluate: {e: {metrics: [mean], published: %s}}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "own"
    project.mkdir()
    (tmp_path / "secret.md").write_text("secret {source.q}")
    (tmp_path / "secret.png").write_bytes(PICTURE)
    (project / "inside.png").write_bytes(PICTURE)
    (project / "link.md").symlink_to(tmp_path / "secret.md")
    (project / "link.png").symlink_to(tmp_path / "secret.png")
    return project


def codes(folder: Path, text: str) -> list[str]:
    path = folder / "p.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(SpecError) as caught:
        build_plan(load(path))
    return [problem.code for problem in caught.value.problems]


@pytest.mark.parametrize("kind", NAMING)
@pytest.mark.parametrize("way", ["dots", "absolute", "link", "sly"])
def test_a_file_outside_is_refused(folder, kind, way):
    outside = str(folder.parent / "secret.md")
    file = {
        "dots": "../secret.md",
        "absolute": outside,
        "link": "link.md",
        "sly": "x/../../secret.md",
    }[way]
    (folder / "x").mkdir()
    assert "outside" in codes(folder, NAMING[kind] % file)


@pytest.mark.parametrize("kind", NAMING)
@pytest.mark.parametrize(
    "way",
    ["~/secret.md", "file://%s", "$HOME/secret.md", "${HOME}/secret.md", "%%2e%%2e/secret.md"],
)
def test_no_other_spelling_leads_out(folder, kind, way, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    file = way % (folder.parent / "secret.md") if "%s" in way else way.replace("%%", "%")
    assert codes(folder, NAMING[kind] % f'"{file}"'.replace('"', "" if kind == "use" else '"'))


def test_a_used_file_cannot_reach_out_either(folder):
    (folder / "deep").mkdir()
    inner = "blocks: {b: [{unit: CoTUnit, prompt: {file: %s}}]}\npipeline: [{use: b}]\n"
    (folder / "deep/b.yaml").write_text(HEAD + inner % "../../secret.md")
    assert codes(folder, "pipeline: [{use: deep/b.yaml#b}]") == ["outside"]
    (folder / "fine.md").write_text("{source.q}")
    (folder / "deep/b.yaml").write_text(HEAD + inner % "../fine.md")
    (folder / "p.yaml").write_text(HEAD + "pipeline: [{use: deep/b.yaml#b}]")
    assert build_plan(load(folder / "p.yaml")).plan.nodes


@pytest.mark.parametrize(("flags", "code"), [([], 2), (["--allow-outside"], 0)])
def test_allow_outside_lets_the_commands_read_it(folder, flags, code, capsys):
    path = folder / "p.yaml"
    path.write_text(HEAD + NAMING["prompt"] % "../secret.md")
    with pytest.raises(SystemExit) as caught:
        app(["validate", str(path), *flags])
    assert caught.value.code == code
    assert ("--allow-outside" in capsys.readouterr().err) == bool(code)


def test_a_setting_of_the_command_line_may_name_any_file(folder):
    (folder / "p.yaml").write_text(HEAD + NAMING["prompt"] % "none.md")
    flags = ["--set", f"pipeline[0].prompt.file={folder.parent / 'secret.md'}"]
    with pytest.raises(SystemExit) as caught:
        app(["validate", str(folder / "p.yaml"), *flags])
    assert caught.value.code == 0


def test_from_yaml_refuses_unless_it_is_allowed(folder):
    path = folder / "p.yaml"
    path.write_text(HEAD + NAMING["prompt"] % "../secret.md")
    with pytest.raises(SpecError, match="outside"):
        Pipeline.from_yaml(path).plan()
    assert Pipeline.from_yaml(path, allow_outside=True).plan().nodes


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("file", "fine"), [("inside.png", True), ("../secret.png", False), ("link.png", False)]
)
def test_a_row_names_only_pictures_in_its_folder(folder, file, nested, fine):
    types, row = ("{photo: image}", {"photo": file})
    if nested:
        types, row = "{of: {photo: image}}", {"of": row}  # type: ignore[assignment,dict-item]
    asks = "pipeline: [{unit: JudgeUnit, prompt: '{source.%s}'}]" % (
        "of.photo" if nested else "photo"
    )
    (folder / "p.yaml").write_text(HEAD + f"dataset: {{schema: {types}}}\n" + asks)
    plan = build_plan(load(folder / "p.yaml")).plan
    if fine:
        RowInputs(plan, folder).row(row)
    else:
        with pytest.raises(DataError, match="allow-outside"):
            RowInputs(plan, folder).row(row)


def test_a_recording_outside_answers_only_where_the_user_names_it(folder):
    replies = folder.parent / "calls.jsonl"
    replies.write_text('{"row": 0, "unit": "judge", "reply": "{\\"score\\": 4}"}\n')
    asks = "pipeline: [{unit: JudgeUnit, prompt: '{source.q}', model: 'replay/%s'}]"
    config = folder / "p.yaml"
    row = ["--row", json.dumps({"q": "x"}), "--quiet"]
    config.write_text(HEAD + asks % replies)
    with pytest.raises(Exception, match="outside") as caught:
        app(["judge", str(config), *row], standalone_mode=False)
    assert type(caught.value).__name__ == "Refused"
    config.write_text(HEAD + "pipeline: [{unit: JudgeUnit, prompt: '{source.q}'}]")
    assert not _code(["judge", str(config), *row, "--model", f"replay/{replies}"])


def _code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        app(arguments)
    return int(caught.value.code or 0)


def test_a_model_cannot_name_a_picture_of_this_machine(folder):
    pipeline = "pipeline: [{unit: JudgeUnit, prompt: '{source.q}', response: {photo: image}}]"
    (folder / "p.yaml").write_text(HEAD + pipeline)
    kind = build_plan(load(folder / "p.yaml")).plan.nodes[0].output.fields["photo"]
    assert isinstance(kind, ImageType)
    with pytest.raises(ReplyError, match="cannot name a file"):
        kind.read(str(folder / "inside.png"))
    assert kind.read("https://example.org/a.png")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of them")
@pytest.mark.parametrize("kind", ["fifo", "directory", "device"])
def test_what_is_no_file_is_reported_without_waiting(folder, kind):
    odd = folder / "odd.md"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "directory":
        odd.mkdir()
    else:
        odd.symlink_to("/dev/zero")

    def release() -> None:  # who waits for the pipe is let go on, and the test fails
        with contextlib.suppress(OSError):
            os.close(os.open(odd, os.O_WRONLY | os.O_NONBLOCK))

    for naming in NAMING.values():
        released = threading.Timer(5, release)
        released.start()
        reported = codes(folder, naming % "odd.md")
        released.cancel()
        released.join()
        assert kind == "directory" or "outside" in reported


def test_a_prompt_without_end_is_not_read_whole(folder):
    with (folder / "long.md").open("wb") as file:
        file.truncate(10**12)  # a hole: the disk holds nothing of it
    assert codes(folder, NAMING["prompt"] % "long.md") == ["too-large"]
    assert codes(folder, NAMING["use"] % "long.md")

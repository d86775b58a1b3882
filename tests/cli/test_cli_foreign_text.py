"""What a provider, a file or the data says is no command to the log of a CI."""

import pytest

from verdict_cli.cli.console import print_error, print_message, print_report, printable


@pytest.mark.parametrize(
    "text",
    [
        "::error::x",
        "a\n::stop-commands::x",
        "a\n   ::error file=b::x",
        "a\r::error::x",
        "see ##[error]x",
        "a\u2028::x",
    ],
)
@pytest.mark.parametrize("write", [print_error, print_message, print_report])
def test_s18_foreign_text_is_no_command_of_github(text, write, capsys):
    write(text)
    printed = "".join(capsys.readouterr())
    assert "##[" not in printed and "\r" not in printed
    assert not any(line.strip().startswith("::") for line in printed.splitlines())


def test_s18_other_colons_stay():
    assert printable("a::b\n  c: d\n- ::x #[y]") == "a::b\n  c: d\n- ::x #[y]"


def test_s18_a_column_named_like_a_command_is_shown_and_not_obeyed(shell):
    config = shell.write(
        "p.yaml",
        "verdict: 1\nname: t\nmodel: baseline/lexical\npipeline:\n- {unit: JudgeUnit, name: j, prompt: 'Rate {source.text}'}\n",
    )
    data = shell.write("d.jsonl", '{"a\\n::error::x": 1}\n')
    done = shell("run", config, data, "--out", "out")
    assert done.code == 2
    assert not any(line.strip().startswith("::") for line in (done.out + done.err).splitlines())

"""Decision models side by side: accuracy, calibration error, cost and p95 in one table."""

import json

from jsonl import jsonl


def test_a_sweep_over_models_reports_accuracy_ece_cost_and_p95(shell, decision_servers):
    url = decision_servers.start("--cost")
    judge = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is {source.a} right?"}\n'
    measured = "evaluate: {ok: {prediction: output.score, target: source.ok, metrics: [accuracy]}, sure: {probability: output.expected, target: source.ok}}"
    names = [json.dumps({"name": f"systemone/{name}", "api_base": url}) for name in ("jev", "clef")]
    config = shell.config(judge + measured, f"model: {names[0]}")
    rows = shell.write("d.jsonl", jsonl({"a": str(n), "ok": n % 2 == 0} for n in range(20)))
    done = shell(
        "sweep",
        config,
        rows,
        "--vary",
        f"model={','.join(names)}",
        "--metric",
        "ok.accuracy",
        "--out",
        "s",
        "--yes",
    )
    assert done.code == 0, done.err
    head = next(line for line in done.out.splitlines() if "row p95" in line)
    assert head.index("metric") < head.index("ECE") < head.index("cost") < head.index("row p95")
    document = json.loads((shell.folder / "s" / "sweep.json").read_text())
    for variant in document["variants"]:
        assert 0 <= variant["ece"]["value"] <= 1
        assert variant["row_s_median"] <= variant["row_s_p95"]
        assert variant["cost_usd"] > 0
    assert document["frontier"]


def test_a_bound_is_calibrated_on_the_probability_and_escalates(shell, decision_servers):
    rules = [{"match": "sure", "p": 0.97}, {"match": "doubtful", "p": 0.6}]
    url = decision_servers.start(rules=rules)
    judge = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "@system\\nIs it right?\\n@user\\n{source.a}"%s}\n'
    measured = "evaluate: {ok: {prediction: output.score, target: source.ok, metrics: [accuracy]}}"
    lines = []
    for number in range(240):
        word = "sure" if number % 3 else "doubtful"
        lines.append(
            json.dumps(
                {"id": number, "a": f"{word} {number}", "ok": word == "sure" or number % 2 == 0}
            )
        )
    rows = shell.write("d.jsonl", "\n".join(lines) + "\n")
    head = f'model: {{name: systemone/jev, api_base: "{url}"}}\ndataset: {{id: id}}'
    done = shell("run", shell.config(judge % "" + measured, head), rows, "--out", "out", "--yes")
    assert done.code == 0, done.err
    words = (
        "--target",
        "source.ok",
        "--agreement",
        "0.9",
        "--confidence",
        "output.p",
        "--out",
        "bound.yaml",
    )
    done = shell("calibrate", "out", *words)
    assert done.code == 0, done.err + done.out
    more = ", escalate: {when: {file: bound.yaml}, to: abstain}"
    done = shell(
        "run", shell.config(judge % more + measured, head), rows, "--out", "again", "--yes"
    )
    assert done.code == 0, done.err
    assert json.loads((shell.folder / "again" / "run.json").read_text())["abstained"] == 80

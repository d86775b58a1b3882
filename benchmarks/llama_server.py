"""Two pipelines against a real llama.cpp server with a tiny model of random weights.

    python -m venv VENV && VENV/bin/pip install gguf xllamacpp
    python benchmarks/llama_server.py VENV/bin/python
    python benchmarks/llama_server.py VENV/bin/python --server 'llama-server -m {model} --port {port}'

The first argument is an interpreter that has `gguf`, and `xllamacpp` (llama.cpp's own server in a wheel) unless `--server`
gives another command. Checks that grammar-constrained JSON and log-probabilities are read, and prints what was read.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROWS = 50
START_S = 60.0
HEAD = """verdict: 1
name: llama-{name}
model: {{name: openai/tiny, api_base: "http://127.0.0.1:{port}/v1", max_tokens: {tokens}, cache: false, retries: 5}}
pipeline:
  - unit: JudgeUnit
    name: judge
    prompt: "Rate from 1 to 5: {{source.text}}"
"""
STRUCTURED = HEAD + "    explanation: true\n"
PROBABILITY = HEAD + "    extract: token_probability\n"


def make(path: Path) -> None:
    """Writes a llama of 2 layers and 64 dimensions whose 354 tokens are bytes and printable ASCII characters.

    The weights are random; a constant in the first dimension makes digits likely and quotation marks not rare, so that
    texts end and a scale's values are among the alternatives.
    """
    import gguf
    import numpy as np

    width, layers, heads, hidden = 64, 2, 4, 128
    special = ["<unk>", "<s>", "</s>"]
    single = ["▁" if code == 32 else chr(code) for code in range(32, 127)]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)] + single
    kind = gguf.TokenType
    kinds = (
        [kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256 + [kind.NORMAL] * len(single)
    )
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    )
    draw = np.random.default_rng(0)

    def weights(*shape: int, scale: float = 0.5) -> Any:
        return draw.normal(0.0, scale / math.sqrt(shape[-1]), shape).astype(np.float32)

    embedding, output = weights(len(tokens), width), weights(len(tokens), width, scale=1.0)
    embedding[:, 0] = 1.0
    liking = dict.fromkeys("12345", 0.8) | {'"': 1.0, "</s>": 0.4}
    output[:, 0] = [liking.get(token, 0.0 if token in single else -1.0) for token in tokens]
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    writer.add_tensor("output.weight", output)
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(width, width))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(hidden, width))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(width, hidden))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path: Path, port: int) -> None:
    """Runs llama.cpp's server from the wheel until the process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 8192
    params.n_parallel = 4
    params.n_gpu_layers = 0
    params.model_alias = {"tiny"}
    server = xllamacpp.Server(params)
    print(f"llama.cpp at {server.listening_address}", flush=True)
    while True:
        time.sleep(60)


def wait(port: int, process: subprocess.Popen[bytes]) -> str:
    """The server's name for itself, once it answers."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=2) as answer:
                answer.read()
                return answer.headers.get("Server") or "no Server header"
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit("the server does not answer")


def judged(folder: Path, name: str, pipeline: str, port: int, tokens: int) -> list[dict[str, Any]]:
    """The calls of a run of the pipeline over `ROWS` rows."""
    config, data, out = folder / f"{name}.yaml", folder / "rows.jsonl", folder / name
    config.write_text(pipeline.format(name=name, port=port, tokens=tokens))
    data.write_text("".join(json.dumps({"text": f"text {place}"}) + "\n" for place in range(ROWS)))
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        str(config),
        str(data),
        "--out",
        str(out),
        "--quiet",
    ]
    command += ["--concurrency", "8", "--json"]
    start = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"\n## {name}: exit {ended.returncode}, {time.perf_counter() - start:.1f} s")
    if not (out / "calls.parquet").exists():
        raise SystemExit(ended.stderr)
    from pyarrow import parquet

    results = parquet.read_table(out / "results.parquet").to_pylist()
    calls = parquet.read_table(out / "calls.parquet").to_pylist()
    failures = Counter(row["failure.kind"] for row in results if row["status"] != "ok")
    print(
        f"rows read: {sum(row['status'] == 'ok' for row in results)} of {len(results)}; failed: {dict(failures)}"
    )
    print(
        f"calls: {len(calls)}; failed: {dict(Counter(call['failure'] for call in calls if call['failure']))}"
    )
    print(f"finish reasons: {dict(Counter(call['finish_reason'] for call in calls))}")
    print(f"parameters: {calls[0]['params']}")
    print(f"tokens: {sum(call['prompt_tokens'] or 0 for call in calls)} in, "
          f"{sum(call['completion_tokens'] or 0 for call in calls)} out")  # fmt: skip
    read = next((row for row in results if row["status"] == "ok"), None)
    print(
        f"first output: {read and {key: value for key, value in read.items() if key.startswith('judge.')}}"
    )
    print(f"its reply: {calls[0]['reply']!r}")
    if calls[0]["error"]:
        print(f"its error: {calls[0]['error']}")
    return calls


def main() -> None:
    """Makes the model, starts the server, runs both pipelines, and ends the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--server", help="a command with {model} and {port}")
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "tiny.gguf"
        subprocess.run([given.python, __file__, "--make", str(model)], check=True)
        command = [given.python, __file__, "--serve", str(model), str(port)]
        if given.server:
            command = shlex.split(given.server.format(model=model, port=port))
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            print(f"model: {model.stat().st_size / 1e6:.1f} MB; server: {wait(port, process)}")
            judged(folder, "structured", STRUCTURED, port, 400)
            calls = judged(folder, "probability", PROBABILITY, port, 8)
            positions = json.loads(calls[0]["logprobs"] or "[]")
            print(
                f"log-probabilities: {len(positions)} positions, {len(positions[0])} alternatives at the first"
            )
        except SystemExit:
            print((folder / "server.log").read_text(errors="replace")[-3000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(timeout=30)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()

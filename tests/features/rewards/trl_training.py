"""Train a tiny model of random weights for three steps by TRL's GRPOTrainer, rewarded by a judge: `python trl_training.py FOLDER`.

Prints a JSON line with the rewards that TRL logged. Run by `test_rl_trl.py` in an environment that has TRL.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset
from verdict_cli.rl import trl_reward, trl_rewards

SCORES = """
verdict: 1
name: helpful
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {range: [1, 5]}, prompt: "Does {source.response} answer {source.prompt}?"}
"""
PAIRS = """
verdict: 1
name: better
model: baseline/lexical
dataset: {columns: {question: prompt}}
pipeline:
  - unit: PairwiseJudgeUnit
    name: judge
    options: [source.a, source.b]
    prompt: "Which answers {source.question} better? A: {input.A} B: {input.B}"
"""


def main(folder: Path) -> None:
    """Train, and print what was logged."""
    words = [f"w{index}" for index in range(40)] + ["is", "what", "a", "?"]
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[EOS]", "[UNK]", *words])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]"
    )
    size = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(vocabulary), pad_token_id=0, eos_token_id=1, **size)
    )
    (folder / "scores.yaml").write_text(SCORES, encoding="utf-8")
    (folder / "pairs.yaml").write_text(PAIRS, encoding="utf-8")
    criteria = {"judged": "output.score", "least": "1.0 if output.score > 1 else 0.0"}
    functions = [
        trl_reward(folder / "scores.yaml"),
        trl_reward(folder / "pairs.yaml"),
        *trl_rewards(folder / "scores.yaml", criteria),
    ]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=functions,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=6,
            max_steps=3,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": f"what is w{index} ?"} for index in range(8)]),
        processing_class=tokenizer,
    )
    trainer.train()
    for function in functions:
        function.close()
    logged = [entry for entry in trainer.state.log_history if "reward" in entry]
    sys.stdout.write(json.dumps({"logged": logged, "steps": trainer.state.global_step}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

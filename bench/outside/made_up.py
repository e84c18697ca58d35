# SPDX-License-Identifier: Apache-2.0
"""What the programs of bench/outside/outside.py would fetch: small stand-ins, where a program looks for a copy.

Digits are drawn, and the weights of gpt-fast, whose words are bytes. Text is Shakespeare's, which pytorch/examples
brings along, and words of GLUE's MRPC come from accelerate's own samples.
"""

from __future__ import annotations

import csv
import importlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_GLUE = """import datasets
import evaluate

class Glue(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", features=features)
    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references)}
"""


_BYTES = """import sys

class SentencePieceProcessor:
    def __init__(self, path): pass
    def bos_id(self): return 256
    def eos_id(self): return 257
    def EncodeAsIds(self, text): return list(text.encode())
    def DecodeIds(self, tokens):
        if notes := getattr(sys.modules.get("sitecustomize"), "notes", None):
            notes.tokens(tokens)
        return " ".join(map(str, tokens))
"""


def _shakespeare(folder: Path) -> Path:
    return folder / "examples/distributed/minGPT-ddp/mingpt/data/input.txt"


def _nanogpt(folder: Path) -> None:
    data = folder / "nanoGPT/data/shakespeare_char"
    shutil.copy(_shakespeare(folder), data)
    subprocess.run([sys.executable, "prepare.py"], cwd=data, check=True, stdout=subprocess.DEVNULL)


def _bert(folder: Path) -> None:
    """A small one under the name of a big one, with a word list of its own, and the task that it learns."""
    import transformers

    accelerate = folder / "accelerate"
    rows = {part: list(csv.DictReader((accelerate / f"tests/test_samples/MRPC/{part}.csv").open()))
            for part in ("train", "dev")}  # fmt: skip
    words = {word for row in rows["train"] for word in f"{row['sentence1']} {row['sentence2']}".lower().split()}
    bert = accelerate / "bert-base-cased"
    bert.mkdir(exist_ok=True)
    (bert / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words)]))
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(words) + 5, **shape)
    transformers.set_seed(7)
    transformers.BertForSequenceClassification(config).save_pretrained(bert)
    (bert / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 512})
    )
    (accelerate / "glue").mkdir(exist_ok=True)
    (accelerate / "glue/glue.py").write_text(_GLUE)
    mrpc = accelerate / "nyu-mll/glue"
    mrpc.mkdir(parents=True, exist_ok=True)
    for part, name in (("train", "train"), ("dev", "validation")):
        with (mrpc / f"{name}.csv").open("w") as file:
            table = csv.writer(file)
            table.writerow(["sentence1", "sentence2", "label", "idx"])
            table.writerows([row["sentence1"], row["sentence2"], int(row["label"] == "equivalent"), at]
                            for at, row in enumerate(rows[part] * 12))  # fmt: skip
    files = "\n".join(f"  - split: {name}\n    path: {name}.csv" for name in ("train", "validation"))
    (mrpc / "README.md").write_text(f"---\nconfigs:\n- config_name: mrpc\n  data_files:\n{files}\n---\n")


def _digits(folder: Path) -> None:
    raw = folder / "pytorch-lightning/Datasets/MNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(5)
    for part, count in (("train", 6000), ("t10k", 512)):
        head = [count.to_bytes(4, "big"), *([(28).to_bytes(4, "big")] * 2)]
        (raw / f"{part}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + b"".join(head) + drawn.randbytes(784 * count))
        labels = bytes(drawn.randrange(10) for _ in range(count))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + head[0] + labels)


def _llama(folder: Path) -> None:
    import transformers

    shape = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 512}
    transformers.set_seed(7)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=1000, **shape))
    llama.save_pretrained(folder / "DeepSpeedExamples/training/tensor_parallel/basic_example/small-llama")


def _words(folder: Path) -> None:
    for program in ("pytorch/basics", "fabric/language_model"):
        data = folder / "pytorch-lightning/examples" / program / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "wikitext-2.txt").write_text(_shakespeare(folder).read_text()[:730_000])


def _stories(folder: Path) -> None:
    """In a sum of the larger one only one of four ranks has anything but zeros, so that its order does not matter."""
    import torch

    gpt_fast = folder / "gpt-fast"
    (gpt_fast / "sentencepiece.py").write_text(_BYTES)
    (gpt_fast / "tiktoken").mkdir(exist_ok=True)
    (gpt_fast / "tiktoken/load.py").write_text("load_tiktoken_bpe = None\n")
    sys.path.insert(0, str(gpt_fast))
    model = importlib.import_module("model")
    for name, blocks in (("stories15M", 1), ("stories110M", 4)):
        torch.manual_seed(7)
        with torch.device("meta"):
            shapes = {part: weights.shape for part, weights in model.Transformer.from_name(name).state_dict().items()}
        drawn = {part: torch.randn(shape) / shape[-1] ** 0.5 if len(shape) > 1 else torch.ones(shape)
                 for part, shape in shapes.items()}  # fmt: skip
        for part, weights in drawn.items():
            if part.endswith(("wo.weight", "w2.weight")):
                drawn[part] = torch.block_diag(*(
                    rows.chunk(blocks, 1)[at] for at, rows in enumerate(weights.chunk(blocks, 0))
                ))  # fmt: skip
        checkpoint = gpt_fast / "checkpoints" / name
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "tokenizer.model").touch()
        torch.save({part: weights.bfloat16() for part, weights in drawn.items()}, checkpoint / "model.pth")


_MAKERS: dict[str, Callable[[Path], None]] = {
    "nanoGPT": _nanogpt,
    "accelerate": _bert,
    "pytorch-lightning/Datasets": _digits,
    "pytorch-lightning": _words,
    "DeepSpeedExamples": _llama,
    "gpt-fast": _stories,
}


def make(folder: Path) -> None:
    """For the checkouts that are there."""
    for place, maker in _MAKERS.items():
        if (folder / place.partition("/")[0]).is_dir():
            maker(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())

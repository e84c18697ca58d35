# SPDX-License-Identifier: Apache-2.0
"""Programs that nobody here wrote, as their repositories have them: how bench/outside/outside.py starts each."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    name: str
    folder: str  # where it is started, below that of all checkouts
    command: str  # what follows torchrun
    ranks: int = 2  # where there are fewer GPUs, as many
    variables: dict[str, str] = field(default_factory=dict)
    wants: str = ""  # "gpu" or "cpu", where it serves only these


_ACCELERATORS = {"OUTSIDE_ACCELERATORS": "4"}
_TP = "examples/distributed/tensor_parallelism"
_GPT_FAST = "generate.py --num_samples 3 --max_new_tokens 100 --checkpoint_path checkpoints"
# Tuned kernels add in other orders from run to run.
_SAME_KERNELS = {"OUTSIDE_ACCELERATORS": "0", "TORCHINDUCTOR_DETERMINISTIC": "1"}
_GRAPHS = {**_ACCELERATORS, "TORCHINDUCTOR_DETERMINISTIC": "1", "OUTSIDE_COMPILED": "reduce-overhead"}
_RL = "pytorch-lightning/examples/fabric/reinforcement_learning"
_DIGITS = "pytorch-lightning/examples/fabric/image_classifier"
_DIGITS_ONCE = "train_fabric.py --epochs 1 --batch-size 256"
_DEEPSPEED = "DeepSpeedExamples/training"
_RL_SMALL = "--num-envs 2 --total-timesteps 512 --num-steps 64"
_MINGPT = "main.py data_config.path=data/input.txt trainer_config.max_epochs=1 trainer_config.data_loader_workers=0"
_NANOGPT = (
    "train.py config/train_shakespeare_char.py --max_iters=12 --eval_iters=2 --eval_interval=12 --log_interval=4 "
    "--compile=False --gradient_accumulation_steps=2"
)
# It gives its layers no values: they are what lay in the memory, which the C library makes zeros.
_ZEROED = {**_ACCELERATORS, "MALLOC_PERTURB_": "255"}
_OFFLINE = {"HF_HUB_OFFLINE": "1"}
_MOCKED = {"TESTING_MOCKED_DATALOADERS": "1", **_OFFLINE}
_BY_FEATURE = ("gradient_accumulation", "local_sgd", "ddp_comm_hook", "early_stopping", "multi_process_metrics")


def _fabric(ranks: int, accelerator: str = "cpu") -> dict[str, str]:
    """What `fabric run` sets."""
    chosen = {"DEVICES": str(ranks), "ACCELERATOR": accelerator, "NUM_NODES": "1", "PRECISION": "32-true"}
    return {"LT_CLI_USED": "1"} | {f"LT_{name}": value for name, value in chosen.items()}


PROGRAMS = [
    Program("ddp", "examples/distributed/ddp", "example.py", 2, _ACCELERATORS),
    Program("ddp tutorial", "examples/distributed/ddp-tutorial-series", "multigpu_torchrun.py 2 1", wants="gpu"),
    Program("FSDP2", "examples/distributed/FSDP2", "example.py", 2, _ZEROED),
    Program("FSDP2, mixed", "examples/distributed/FSDP2", "example.py --mixed-precision", 2, _ZEROED),
    Program("tensor parallel", _TP, "tensor_parallel_example.py", 2, _ACCELERATORS),
    Program("sequence parallel", _TP, "sequence_parallel_example.py", 2, _ACCELERATORS),
    Program("compiled tensor parallel", _TP, "tensor_parallel_example.py", 4, _GRAPHS, "gpu"),
    Program("compiled sequence parallel", _TP, "sequence_parallel_example.py", 4, _GRAPHS, "gpu"),
    Program("two-dimensional", _TP, "fsdp_tp_example.py", 4, _ACCELERATORS),
    Program("gpt-fast", "gpt-fast", f"{_GPT_FAST}/stories110M/model.pth", 4, _SAME_KERNELS),
    Program("compiled gpt-fast", "gpt-fast", f"{_GPT_FAST}/stories110M/model.pth --compile", 4, _SAME_KERNELS, "gpu"),
    Program("small gpt-fast", "gpt-fast", f"{_GPT_FAST}/stories15M/model.pth", 2, _SAME_KERNELS),
    Program("compiled small gpt-fast", "gpt-fast", f"{_GPT_FAST}/stories15M/model.pth --compile", 2, _SAME_KERNELS,
            "gpu"),
    Program("minGPT", "examples/distributed/minGPT-ddp/mingpt",
            f"{_MINGPT} data_config.truncate=0.02 trainer_config.batch_size=64", 2, _ACCELERATORS, "gpu"),
    Program("minGPT, small", "examples/distributed/minGPT-ddp/mingpt",
            f"{_MINGPT} data_config.truncate=0.001 trainer_config.batch_size=32 gpt_config.n_layer=2 "
            "gpt_config.n_embd=64 data_config.block_size=64 trainer_config.use_amp=False", 2, _ACCELERATORS, "cpu"),
    Program("nanoGPT", "nanoGPT", _NANOGPT, 2, wants="gpu"),
    Program("nanoGPT, small", "nanoGPT",
            f"{_NANOGPT} --backend=gloo --n_layer=2 --n_embd=48 --batch_size=4 --block_size=64",
            2, _ACCELERATORS, "cpu"),
    *(Program(f"accelerate {name}", "accelerate", f"examples/by_feature/{name}.py --cpu", 2, _MOCKED, "cpu")
      for name in _BY_FEATURE),
    *(Program(f"accelerate {name}", "accelerate", f"examples/by_feature/{name}.py", 2, _MOCKED, "gpu")
      for name in ("local_sgd", "ddp_comm_hook")),
    *(Program(f"accelerate {name}", "accelerate", f"-m accelerate.test_utils.scripts.{name}", 2, wants="gpu")
      for name in ("test_script", "test_ops", "test_sync")),
    Program("accelerate nlp_example", "accelerate", "examples/nlp_example.py --cpu", 2, _OFFLINE, "cpu"),
    Program("accelerate nlp_example", "accelerate", "examples/nlp_example.py --mixed_precision bf16", 2, _OFFLINE,
            "gpu"),
    Program("Lightning transformer", "pytorch-lightning/examples/pytorch/basics", "transformer.py", wants="gpu"),
    Program("Fabric language model", "pytorch-lightning/examples/fabric/language_model", "train.py", 2,
            _fabric(2, "cuda"), "gpu"),
    Program("Fabric PPO, torch", _RL, f"train_torch.py {_RL_SMALL} --cuda", wants="gpu"),
    Program("Fabric image classifier", _DIGITS, _DIGITS_ONCE, 2, _fabric(2, "cuda"), "gpu"),
    Program("Fabric PPO, torch", _RL, f"train_torch.py {_RL_SMALL}", wants="cpu"),
    Program("Fabric PPO", _RL, f"train_fabric.py {_RL_SMALL}", 2, _fabric(2), "cpu"),
    Program("Fabric PPO, decoupled", _RL, f"train_fabric_decoupled.py {_RL_SMALL}", 3, _fabric(3), "cpu"),
    Program("Fabric image classifier", _DIGITS, _DIGITS_ONCE, 2, _fabric(2), "cpu"),
    *(Program(f"DeepSpeed variable batches{', pipeline' if stages else ''}",
              f"{_DEEPSPEED}/data_efficiency/variable_batch_size_and_lr",
              f"variable_batch_size_and_lr_example.py --pipeline-num-stages {stages}", wants="cpu")
      for stages in (0, 2)),
    *(Program(f"DeepSpeed ZeRO-3, {name}", f"{_DEEPSPEED}/bf16_master_weight",
              f"train.py --deepspeed_config configs/{name}.json --num_layers 4 --num_steps 12", wants="gpu")
      for name in ("baseline", "bf16_full")),
    Program("DeepSpeed offloaded states", f"{_DEEPSPEED}/offload_states", "offload_states.py", wants="gpu"),
    Program("DeepSpeed tensor parallel", f"{_DEEPSPEED}/tensor_parallel/basic_example",
            "autotp_example.py --model_name small-llama --tp_size 2 --dp_size 1 --seq_length 256", wants="gpu"),
]  # fmt: skip

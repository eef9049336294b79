"""Stock fairseq's own training, as ``fairseq-train`` builds it, for comparison with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from torch import Tensor

PAD = 1


def stock(data: Path, shape: Any, seed: int, objective: str, precision: str = "fp32") -> Trainer:
    """Return a Trainer for the stock fairseq task equivalent to ``objective``.

    Args:
        data: binarised directory.
        shape: with ``layers``, ``dim``, ``heads``, ``length``, ``batch_tokens``, ``updates`` and ``lr``.
        seed: of everything.
        objective: ``mmlm``, ``mbart``, ``mass`` (for which fairseq has nothing nearer than denoising) or
            ``translation``, for which ``data`` has one pair.
        precision: ``fp32`` or ``bf16``, its optimiser with float32 masters.
    """
    words = {"mmlm": _masked_lm, "translation": _translation}.get(objective, _denoising)(data, shape)
    words += [] if torch.cuda.is_available() else ["--cpu"]
    words += [
        "--seed", str(seed), "--max-tokens", str(shape.batch_tokens), "--update-freq", "1",
        "--num-workers", "0", "--dropout", "0.1", "--attention-dropout", "0.1", *_side("encoder", shape),
        "--optimizer", "adam", "--adam-betas", "(0.9,0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.01",
        "--clip-norm", "1.0", "--lr", str(shape.lr), "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", str(shape.updates // 10), "--total-num-update", str(shape.updates),
        "--max-update", str(shape.updates),
    ]  # fmt: skip
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    cfg.common.bf16 = precision == "bf16"  # the option --bf16 asks for a TPU
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(seed)
    return Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))


def _masked_lm(data: Path, shape: Any) -> list[str]:
    return [
        str(data), "--task", "multilingual_masked_lm", "--arch", "roberta_base", "--criterion", "masked_lm",
        "--sample-break-mode", "complete", "--multilang-sampling-alpha", "0.3",
        "--tokens-per-sample", str(shape.length), "--max-positions", str(shape.length),
    ]  # fmt: skip


def _denoising(data: Path, shape: Any) -> list[str]:
    return [
        str(data), "--task", "multilingual_denoising", "--arch", "bart_base", "--criterion", "cross_entropy",
        "--add-lang-token", "--sample-break-mode", "complete_doc", "--multilang-sampling-alpha", "0.3",
        "--mask", "0.35", "--mask-length", "span-poisson", "--poisson-lambda", "3.5", "--replace-length", "1",
        "--permute-sentences", "1", "--tokens-per-sample", str(shape.length), *_decoder(shape),
    ]  # fmt: skip


def _translation(data: Path, shape: Any) -> list[str]:
    (pair,) = [path.name for path in data.iterdir() if "-" in path.name]
    src, tgt = pair.split("-")
    return [
        str(data / pair), "--task", "translation", "--source-lang", src, "--target-lang", tgt, "--arch", "bart_base",
        "--criterion", "cross_entropy", *_decoder(shape),
    ]  # fmt: skip


def _decoder(shape: Any) -> list[str]:
    length = str(shape.length)
    return [*_side("decoder", shape), "--max-source-positions", length, "--max-target-positions", length]


def _side(name: str, shape: Any) -> list[str]:
    return [
        f"--{name}-layers", str(shape.layers), f"--{name}-embed-dim", str(shape.dim),
        f"--{name}-ffn-embed-dim", str(4 * shape.dim), f"--{name}-attention-heads", str(shape.heads),
    ]  # fmt: skip


def as_roberta(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a packed masked batch of ours as fairseq's ``masked_lm`` takes it.

    Args:
        sample: N tokens in B sequences, M of them chosen; see `xling.data.packing.pack`.

    Returns:
        ``net_input`` with ``src_tokens`` and ``src_lengths``, and ``target``, int64 (B, longest), padded.
    """
    lengths = [length for count, length in sample["net_input"]["runs"] for _ in range(count)]
    tokens = sample["net_input"]["src_tokens"]
    target = torch.full_like(tokens, PAD)
    target[sample["chosen"]] = sample["target"]

    def padded(packed: Tensor) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(packed.split(lengths), batch_first=True, padding_value=PAD)

    return {
        "id": sample["id"],
        "net_input": {"src_tokens": padded(tokens), "src_lengths": torch.tensor(lengths)},
        "target": padded(target),
        "ntokens": len(tokens),
        "nsentences": len(lengths),
    }

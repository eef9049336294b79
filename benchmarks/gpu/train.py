"""Tokens a second, MFU and memory of pre-training, ours beside stock fairseq and transformers.

Settings: ``scale=tiny``, ``only=xlmr_base|mbart_large|translation`` (several with commas), ``systems=`` (likewise),
``updates=``, ``batch=`` (tokens), ``file=`` (a word behind the names of the files).

Every system trains on the same synthetic shards (`benchmarks.pretrain`) with dropout of 0.1 in layers and attention; a
system that does not fit into memory gets half the tokens in a batch until it does. The FLOPs of a token are counted by
torch in one update of ours without compilation, and used for every system of the shape, but for ModernBERT's own.
Transformers' models train with bfloat16 autocast over float32 weights and fused AdamW, on full rows of 512.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.common import Table, device, free, peak, product_rate, wait
from benchmarks.pretrain import Shape, batches, ours, size_of, write_data
from benchmarks.stock import stock

Update = Callable[[], int]  # makes an update and returns its real tokens
WARM, BLOCKS, WORKERS = 4, 3, 6
PEER_BATCH = 32_768  # tokens that a peer begins with: none of them held more
XLMR = Shape(12, 768, 12, 250_002, 512, 131_072, 24, BLOCKS, 3_000_000, 5e-4)
LARGE = replace(XLMR, layers=12, dim=1024, heads=16, batch_tokens=16_384)
BASE = replace(XLMR, layers=6, batch_tokens=16_384)
CASES = {"xlmr_base": (XLMR, "mmlm"), "mbart_large": (LARGE, "mbart"), "translation": (BASE, "translation")}
SYSTEMS = {
    "xlmr_base": "bf16,fp32,stock bf16,stock fp32,transformers XLM-R,transformers ModernBERT",
    "mbart_large": "bf16,stock bf16,stock fp32",
    "translation": "bf16,fp32,stock bf16,stock fp32",
}


@dataclass
class Rate:
    """What was measured of a system."""

    tokens_s: float
    spread: str
    gib: float


def run(settings: dict[str, str]) -> None:
    """Print and write."""
    tiny = settings.get("scale") == "tiny"
    product = product_rate(torch.bfloat16, 256 if tiny else 8192)
    for name in settings.get("only", ",".join(CASES)).split(","):
        shape, objective = CASES[name]
        changed = {"updates": int(settings.get("updates", 6 if tiny else shape.updates))}
        changed["batch_tokens"] = int(settings.get("batch", 1024 if tiny else shape.batch_tokens))
        shape = replace(shape, **changed)
        if tiny:
            shape = replace(shape, layers=2, dim=64, heads=2, vocab=2_502, length=128, tokens=60_000)
        with tempfile.TemporaryDirectory() as folder:
            folder_of_data = write_data(Path(folder), shape)
            data = folder_of_data / ("pairs" if objective == "translation" else "mono")
            _case(name, shape, objective, data, product, settings)


def _case(
    name: str, shape: Shape, objective: str, data: Path, product: float, settings: dict[str, str]
) -> None:
    file = "_".join(["train", name, *([settings["file"]] if "file" in settings else [])])
    table = Table(file, f"training, {name} ({objective})", shape=str(shape), product_tflops=product / 1e12)
    flops = counted(data, shape, objective)
    for system in settings.get("systems", SYSTEMS[name]).split(","):
        peer = system.startswith(("stock", "transformers"))
        batch = min(shape.batch_tokens, PEER_BATCH) if peer else shape.batch_tokens
        while batch >= shape.length:
            at = replace(shape, batch_tokens=batch)
            try:
                update, own = built(data, at, objective, system)
                rate = timed(update, shape.updates)
            except Exception as error:
                update = None
                free()
                if "out of memory" in str(error).lower():
                    batch //= 2
                    continue
                table.add(system=system, batch=batch, error=f"{type(error).__name__}: {error}"[:200])
                break
            done = (own or flops) * rate.tokens_s
            figures = {"tokens_s": rate.tokens_s, "spread": rate.spread, "mflop_token": (own or flops) / 1e6}
            figures |= {
                "tflops": done / 1e12,
                "mfu": done / (peak() or product),
                "of_product": done / product,
            }
            table.add(system=system, batch=batch, **figures, peak_gib=rate.gib)
            update = None
            free()
            break


def counted(data: Path, shape: Shape, objective: str) -> float:
    """Return FLOPs of a real token, forward and backward, in one update of at most 8 sequences."""
    small = replace(shape, batch_tokens=min(shape.batch_tokens, 8 * shape.length))
    trainer = ours(data, small, 1, "bf16", objective)
    stream = batches(trainer)
    trainer.train_step(next(stream))
    samples = next(stream)
    with FlopCounterMode(display=False) as counter:
        trainer.train_step(samples)
    free()
    return counter.get_total_flops() / size_of(samples[0])[0]


def built(data: Path, shape: Shape, objective: str, system: str) -> tuple[Update, float]:
    """Return an update function of a system, and the FLOPs of its tokens if it has its own count, else 0."""
    if system.startswith("transformers"):
        return _transformers(shape, "modernbert" if "ModernBERT" in system else "xlm-roberta")
    return trainer_update(data, shape, objective, system), 0.0


def trainer_update(data: Path, shape: Shape, objective: str, system: str) -> Update:
    """Return the update function of our or stock fairseq's Trainer."""
    if system.startswith("stock"):
        trainer = stock(data, shape, 1, objective, "bf16" if "bf16" in system else "fp32")
    else:
        more = [f"train.workers={WORKERS if device().type == 'cuda' else 0}"]
        trainer = ours(data, shape, 1, system.split()[0], objective, more)
    stream = batches(trainer)

    def update() -> int:
        samples = next(stream)
        with update.memory_kept():
            trainer.train_step(samples, raise_oom=True)  # else fairseq leaves the update out
        return size_of(samples[0])[0]

    return update


def timed(update: Update, updates: int) -> Rate:
    """Return the real tokens per second of whole updates, in `BLOCKS` blocks after `WARM` updates."""
    for _ in range(WARM):
        update()
    if device().type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    rates, most = [], 0
    total = [0, 0.0]
    for _ in range(BLOCKS):
        wait()
        begin, tokens = time.perf_counter(), 0
        for _ in range(max(1, updates // BLOCKS)):
            tokens += update()
            most = max(most, torch.cuda.memory_reserved() if device().type == "cuda" else 0)
        wait()
        elapsed = time.perf_counter() - begin
        rates.append(tokens / elapsed)
        total = [total[0] + tokens, total[1] + elapsed]
    gib = most / 2**30  # of the driver: fairseq sets back torch's own maximum after every update
    spread = f"{min(rates):,.0f} to {max(rates):,.0f}, median {statistics.median(rates):,.0f}"
    return Rate(total[0] / total[1], spread, gib)


def _transformers(shape: Shape, kind: str) -> tuple[Update, float]:
    """Return the masked LM of transformers; its head only sees the chosen positions if the model supports that."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    known: dict[str, Any] = {
        "vocab_size": shape.vocab, "hidden_size": shape.dim, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "intermediate_size": 4 * shape.dim, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "attn_implementation": "sdpa",
    }  # fmt: skip
    if kind == "modernbert":  # 22 layers, GeGLU of 1152: ModernBERT base, mmBERT base
        deep = {"num_hidden_layers": 22, "intermediate_size": 1152} if shape.layers == 12 else {}
        known |= {"sparse_prediction": True, "cls_token_id": 0, "sep_token_id": 2, **deep}
    else:
        known["max_position_embeddings"] = shape.length + 2
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, **known)).to(device()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    rows = max(1, shape.batch_tokens // shape.length)

    def update() -> int:
        tokens = torch.randint(4, shape.vocab, (rows, shape.length), device=device())
        chosen = torch.rand(tokens.shape, device=device()) < 0.15
        labels = tokens.masked_fill(~chosen, -100)
        with torch.autocast(device().type, torch.bfloat16):
            loss = model(input_ids=tokens.masked_fill(chosen, 4), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return tokens.numel()

    body = sum(p.numel() for n, p in model.named_parameters() if "embeddings" not in n and "decoder" not in n)
    head = 0.15 * shape.vocab * shape.dim  # by convention: the attention's own products are left out here
    return update, 6.0 * (body + head)

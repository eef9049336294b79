"""Tokens per second of fine-tuning beside the loop of `transformers`' run_xnli and run_ner, on the same weights.

Usage: ``python -m benchmarks.tuning CHECKPOINT [BLOCKS] [BATCHES]``; needs XLING_DATA and `transformers`. The
weights are copied into XLM-R's classes of `transformers`, and their hidden states must agree before anything is
timed. Their batches are those of the examples: run_xnli pads to 128 tokens, run_ner to the longest row of the batch;
AdamW (fused), linear schedule, clipping at 1. Rows are encoded beforehand on both sides. Blocks of updates alternate in
one process; times are processor seconds, tokens are those of the rows without padding.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from xling.core.sampling import rng
from xling.data.packing import Example, pack
from xling.eval.suite import load, suites
from xling.models import checkpoint
from xling.models.encoder import PAD, Encoder, working_dtype
from xling.transfer import tune
from xling.transfer.heads import TaskModel
from xling.transfer.regime import Regime
from xling.transfer.settings import TuneConfig
from xling.transfer.task import TASKS

PAD_TO = 128
CFG = TuneConfig(precision="fp32")


def main(ckpt: str = "", blocks: str = "3", batches: str = "8") -> int:
    """Time both tasks and print one JSON object."""
    if not (ckpt and os.environ.get("XLING_DATA") and find_spec("transformers")):
        print("benchmarks/tuning.py needs a CHECKPOINT, XLING_DATA and transformers", file=sys.stderr)
        return 2
    data = Path(os.environ["XLING_DATA"])
    print(
        json.dumps(
            {
                name: _compare(Path(ckpt), data, name, int(blocks), int(batches), padded)
                for name, padded in (("xnli", True), ("panx", False))
            },
            indent=1,
        )
    )
    return 0


def _compare(
    ckpt: Path, data: Path, name: str, num_blocks: int, num_batches: int, pad: bool
) -> dict[str, Any]:
    suite = suites()[name]
    rows = load(suite, "en", "train", data)[: num_blocks * num_batches * CFG.batch_rows]
    labels = TASKS[suite.task].labels_of(suite, rows)
    systems: dict[str, Callable[[list[Example]], None]] = {}
    examples: list[list[Example]] = []
    for label, precision in (("ours, fp32", "fp32"), ("ours, auto", "auto")):
        loaded, _ = checkpoint.load_model(ckpt, CFG.dropout)
        model = TaskModel(loaded.encoder, suite.task, labels, CFG.dropout).to(working_dtype(precision))
        tuned = tune.Tuned(model, tune.vocab.load(ckpt), PAD_TO)
        examples = tune._units(tuned, rows, name)
        learning = Regime(model, CFG)
        systems[label] = lambda batch, m=model, how=learning: tune._update(m, how, batch, CFG)  # type: ignore[misc]
    systems["transformers, fp32"] = _theirs(ckpt, suite.task, len(labels), examples, pad)
    order = rng("tuning benchmark").permutation(len(examples))
    seconds: dict[str, list[float]] = {key: [] for key in systems}
    tokens = []
    for block in range(num_blocks):
        size = num_batches * CFG.batch_rows
        shuffled = [examples[i] for i in order[block * size : (block + 1) * size]]
        tokens.append(sum(len(e["tokens"]) for unit in shuffled for e in unit))
        for key, update in systems.items():
            # Ours sorts within a pool of a hundred batches; theirs draws at random.
            units = shuffled if key.startswith("transformers") else sorted(shuffled, key=_length)
            if block == 0:
                update(_batches(units)[0])  # the first update allocates
            start = time.process_time()
            for batch in _batches(units):
                update(batch)
            seconds[key].append(time.process_time() - start)
    rates = {
        key: [round(n / s) for n, s in zip(tokens, times, strict=True)] for key, times in seconds.items()
    }
    theirs = sum(seconds["transformers, fp32"])
    return {
        "tokens per processor second, by block": rates,
        "times as fast": {key: round(theirs / sum(times), 2) for key, times in seconds.items()},
    }


def _length(unit: Sequence[Example]) -> int:
    return len(unit[0]["tokens"])


def _batches(units: Sequence[list[Example]]) -> list[list[Example]]:
    flat = [e for unit in units for e in unit]
    return [flat[i : i + CFG.batch_rows] for i in range(0, len(flat), CFG.batch_rows)]


def _theirs(
    ckpt: Path, task: str, num_labels: int, examples: Sequence[list[Example]], pad: bool
) -> Callable[[list[Example]], None]:
    """Return one update as `transformers`' Trainer does it, on the weights of ``ckpt``."""
    from transformers import (
        XLMRobertaConfig,
        XLMRobertaForSequenceClassification,
        XLMRobertaForTokenClassification,
        get_linear_schedule_with_warmup,
    )

    ours = checkpoint.load_model(ckpt)[0].encoder.eval()
    cfg = ours.cfg
    config = XLMRobertaConfig(
        vocab_size=len(ours.tokens.weight),
        hidden_size=cfg.dim,
        num_hidden_layers=cfg.layers,
        num_attention_heads=cfg.heads,
        intermediate_size=cfg.ffn_dim,
        max_position_embeddings=cfg.max_positions + 2,
        type_vocab_size=1,
        num_labels=num_labels,
        layer_norm_eps=1e-5,
        pad_token_id=PAD,
    )
    build = (
        XLMRobertaForTokenClassification if TASKS[task].tags_words else XLMRobertaForSequenceClassification
    )
    model = build(config)
    _copy(ours, model.roberta)
    _check_equal(ours, model.roberta, [unit[0] for unit in examples[:3]])
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 10_000)

    def update(batch: list[Example]) -> None:
        loss = model(**_padded(batch, PAD_TO if pad else 0, task)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        loss.item()

    return update


def _padded(batch: Sequence[Example], width: int, task: str) -> dict[str, torch.Tensor]:
    width = max(width, *(len(e["tokens"]) for e in batch), 1)
    tokens = torch.full((len(batch), width), PAD)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full((len(batch), width), -100)
    for i, e in enumerate(batch):
        tokens[i, : len(e["tokens"])] = torch.from_numpy(e["tokens"])
        mask[i, : len(e["tokens"])] = 1
        labels[i, torch.from_numpy(e["chosen"])] = torch.from_numpy(e["target"])
    inputs = {"input_ids": tokens, "attention_mask": mask}
    return inputs | {"labels": labels if TASKS[task].tags_words else labels[:, 0]}


def _copy(ours: Encoder, theirs: Any) -> None:
    """Our weights under their names; their positions start at 2, their segments add nothing."""
    assert not ours.cfg.pre_norm and ours.langs is None, "a post-norm encoder without language embeddings"
    embeddings = theirs.embeddings
    with torch.no_grad():
        embeddings.word_embeddings.weight.copy_(ours.tokens.weight)
        embeddings.position_embeddings.weight[2:] = ours.positions.weight
        embeddings.token_type_embeddings.weight.zero_()
    embeddings.LayerNorm.load_state_dict(ours.norm.state_dict())
    for mine, layer in zip(ours.layers, theirs.encoder.layer, strict=True):
        attention = layer.attention.self
        for place, part in enumerate((attention.query, attention.key, attention.value)):
            keys = slice(place * ours.cfg.dim, (place + 1) * ours.cfg.dim)
            part.load_state_dict({k: v[keys] for k, v in mine.qkv.state_dict().items()})
        for part, source in (
            (layer.attention.output.dense, mine.out),
            (layer.attention.output.LayerNorm, mine.attn_norm),
            (layer.intermediate.dense, mine.up),
            (layer.output.dense, mine.down),
            (layer.output.LayerNorm, mine.ffn_norm),
        ):
            part.load_state_dict(source.state_dict())


def _check_equal(ours: Encoder, theirs: Any, batch: Sequence[Example]) -> None:
    theirs.eval()
    padded = _padded(batch, PAD_TO, "tag")
    with torch.inference_mode():
        inputs = {key: padded[key] for key in ("input_ids", "attention_mask")}
        hidden = theirs(**inputs).last_hidden_state[padded["attention_mask"].bool()]
        sample = pack([e | {"langs": 0 * e["tokens"]} for e in batch])
        packed = ours(**{k: v for k, v in sample["net_input"].items() if k != "langs"})
    lengths = [len(e["tokens"]) for e in batch]
    order = sorted(range(len(batch)), key=lambda i: -lengths[i])
    back = dict(zip(order, packed.split([lengths[i] for i in order]), strict=True))
    torch.testing.assert_close(torch.cat([back[i] for i in range(len(batch))]), hidden, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Fine-tune an encoder on labelled rows and predict labels; one head serves classes and tags.

Protocol: AdamW, linear warm-up and decay, batches by length without padding, the epoch that is best on the
dev rows of the source language is kept (``select="dev"``), as in XTREME (Hu et al. 2020).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora import vocab
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.data.packing import Example, pack
from xling.models import checkpoint
from xling.models.dropout import dropout
from xling.models.encoder import Encoder, working_dtype
from xling.models.optim import AdamWConfig, XlingAdamW
from xling.transfer.encode import Kind, Row, encode_row

Score = Callable[[Sequence[Any]], float]


@dataclass(frozen=True)
class TuneConfig:
    """How to fine-tune.

    Attributes:
        lr: peak learning rate; base-size models want 2e-5 to 5e-5, tiny ones far more.
        batch_rows: rows in a batch.
        warmup: share of the updates.
        max_length: sub-tokens of one sequence, specials included.
        select: keep the epoch that is best on dev, or the last.
        random_init: throw the pre-trained weights away first: the control.
    """

    lr: float = 5e-4
    epochs: int = 5
    batch_rows: int = 32
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
    max_length: int = 128
    select: Literal["dev", "last"] = "dev"
    random_init: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    seed: int = 1


class TaskModel(nn.Module):
    """An encoder with a classifier on chosen tokens.

    Args:
        encoder: the encoder.
        kind: shape of the rows.
        labels: closed list of labels.
        drop: dropout before the classifier.
    """

    def __init__(self, encoder: Encoder, kind: Kind, labels: Sequence[str], drop: float) -> None:
        super().__init__()
        dim = encoder.cfg.dim
        self.encoder, self.kind, self.labels, self.drop = encoder, kind, tuple(labels), drop
        self.dense = nn.Linear(dim, dim) if kind != "tag" else None
        self.classifier = nn.Linear(dim, len(self.labels))
        for layer in (self.dense, self.classifier):
            if layer is not None:
                nn.init.normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, sample: dict[str, Any]) -> Tensor:
        """Logits (M, labels) at the chosen tokens of a packed batch; see `xling.data.packing.pack`."""
        hidden = self.encoder(**sample["net_input"])[sample["chosen"]]
        if self.dense is not None:
            hidden = torch.tanh(self.dense(dropout(hidden, self.drop, self.training)))
        logits: Tensor = self.classifier(dropout(hidden, self.drop, self.training))
        return logits


@dataclass
class Tuned:
    """A fine-tuned model with what prediction needs."""

    model: TaskModel
    processor: Any
    max_length: int
    dev_scores: list[float]

    def predict(self, rows: Sequence[Row], batch_tokens: int = 8192) -> list[Any]:
        """A label per row, or for tagging a tuple with one tag per word, in the order of ``rows``."""
        windows = _encode(self.processor, self.model.kind, rows, self.model.labels, self.max_length)
        owners = [owner for owner, _ in windows]
        found: list[list[str]] = [[] for _ in windows]
        self.model.eval()
        with torch.inference_mode():
            for batch in _batches_by_tokens([e for _, e in windows], batch_tokens):
                sample = pack([windows[i][1] | {"id": np.array([i])} for i in batch])
                best = self.model(sample).argmax(-1).tolist()
                start = 0
                for index in sample["id"].tolist():
                    count = len(windows[index][1]["chosen"])
                    found[index] = [self.model.labels[k] for k in best[start : start + count]]
                    start += count
        gathered: list[list[str]] = [[] for _ in rows]
        for owner, tags in zip(owners, found, strict=True):
            gathered[owner] += tags
        return [tuple(tags) if self.model.kind == "tag" else tags[0] for tags in gathered]


def fit(
    ckpt: Path, kind: Kind, labels: Sequence[str], train: Sequence[Row], dev: Sequence[Row], cfg: TuneConfig,
    score: Score | None = None, what: str = "fine-tune",
) -> Tuned:  # fmt: skip
    """Fine-tune a published checkpoint.

    Args:
        ckpt: directory of `xling pretrain`.
        kind: shape of the rows.
        labels: closed list of labels.
        train: rows to learn from.
        dev: rows of the source language to choose the epoch by.
        cfg: how.
        score: predictions on ``dev`` -> a number, more is better; by default the share of right labels.
        what: name on the progress bar.

    Raises:
        UserError: no checkpoint, no training rows, an unknown label, a loss that is not finite.
    """
    if not train:
        raise UserError(f"{what}: no training rows", fix="check the training split")
    torch.manual_seed(cfg.seed)
    encoder = checkpoint.load_model(ckpt, cfg.dropout, cfg.random_init)[0].encoder
    model = TaskModel(encoder, kind, labels, cfg.dropout).to(working_dtype(cfg.precision))
    tuned = Tuned(model, vocab.load(ckpt), min(cfg.max_length, encoder.cfg.max_positions), [])
    examples = [e for _, e in _encode(tuned.processor, kind, train, model.labels, tuned.max_length)]
    per_epoch = -(-len(examples) // cfg.batch_rows)
    optimizer = XlingAdamW(AdamWConfig(lr=[cfg.lr], weight_decay=cfg.weight_decay), model.parameters())
    best, best_state = -1.0, None
    with Progress(what, per_epoch * cfg.epochs, "updates") as progress:
        for epoch in range(cfg.epochs):
            for step, batch in enumerate(_epoch(examples, cfg, epoch)):
                optimizer.set_lr(_lr(cfg, epoch * per_epoch + step, per_epoch * cfg.epochs))
                loss = _update(model, optimizer, batch, cfg)
                progress.update(1, f"loss {loss:.3f}")
            if dev:
                predicted = tuned.predict(dev)
                tuned.dev_scores.append(score(predicted) if score else _share_right(predicted, dev))
                if cfg.select == "dev" and tuned.dev_scores[-1] > best:
                    best, best_state = tuned.dev_scores[-1], copy.deepcopy(model.state_dict())
    if best_state is not None:
        model.load_state_dict(best_state)
    return tuned


def _update(model: TaskModel, optimizer: XlingAdamW, batch: list[Example], cfg: TuneConfig) -> float:
    model.train()
    optimizer.zero_grad()
    sample = pack(batch)
    loss = F.cross_entropy(model(sample).float(), sample["target"])
    if not torch.isfinite(loss):
        raise UserError(
            f"the loss became {float(loss)} in fine-tuning", fix=f"lower the learning rate, now {cfg.lr}"
        )
    loss.backward()
    optimizer.multiply_grads(1.0)
    optimizer.clip_grad_norm(cfg.clip)
    optimizer.step()
    return float(loss.detach())


def _lr(cfg: TuneConfig, step: int, total: int) -> float:
    warmup = max(1, int(cfg.warmup * total))
    return cfg.lr * min((step + 1) / warmup, (total - step) / max(1, total - warmup))


def _encode(
    processor: Any, kind: Kind, rows: Sequence[Row], labels: Sequence[str], max_length: int
) -> list[tuple[int, Example]]:
    """Windows of all rows as (index of the row, example)."""
    return [
        (index, example | {"id": np.array([index])})
        for index, row in enumerate(rows)
        for example in encode_row(processor, kind, row, labels, max_length)
    ]


def _epoch(examples: Sequence[Example], cfg: TuneConfig, epoch: int) -> Iterator[list[Example]]:
    """Batches of one epoch: shuffled, then sorted by length within a hundred batches, then shuffled again."""
    generator = rng(cfg.seed, "tune", epoch)
    order = generator.permutation(len(examples))
    lengths = np.array([len(examples[i]["tokens"]) for i in order])
    pool = 100 * cfg.batch_rows
    chunks = [
        order[start : start + pool][np.argsort(lengths[start : start + pool], kind="stable")]
        for start in range(0, len(order), pool)
    ]
    batches = [
        chunk[i : i + cfg.batch_rows] for chunk in chunks for i in range(0, len(chunk), cfg.batch_rows)
    ]
    for index in generator.permutation(len(batches)):
        yield [examples[i] for i in batches[index]]


def _batches_by_tokens(examples: Sequence[Example], batch_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    num_tokens = 0
    for index in sorted(range(len(examples)), key=lambda i: len(examples[i]["tokens"])):
        length = len(examples[index]["tokens"])
        if batch and num_tokens + length > batch_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(index)
        num_tokens += length
    if batch:
        yield batch


def _share_right(predicted: Sequence[Any], rows: Sequence[Row]) -> float:
    pairs = [(p, row.label) for p, row in zip(predicted, rows, strict=True)]
    flat = [
        (a, b) for p, r in pairs for a, b in (zip(p, r, strict=True) if isinstance(p, tuple) else [(p, r)])
    ]
    return sum(a == b for a, b in flat) / max(len(flat), 1)

"""Fine-tune an encoder on labelled rows and predict labels; one head serves classes and tags.

AdamW, linear warm-up and decay, batches by length without padding. Which epoch's checkpoint counts is the
evaluation's decision, not made here.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora import vocab
from xling.core.config import from_dict
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.data.packing import Example, pack
from xling.models import checkpoint
from xling.models.dropout import dropout
from xling.models.encoder import Attention, Encoder, EncoderConfig, Runs, working_dtype
from xling.models.optim import AdamWConfig, NotFiniteError, XlingAdamW
from xling.transfer.encode import Kind, Row, encode_row

R3F_NOISE = 1e-5
SHARPNESS = 20.0
Features = Literal["cls", "match", "align"]
TASK, TASK_FILE = "xling-task-1", "task.pt"


@dataclass(frozen=True)
class TuneConfig:
    """How to fine-tune.

    Attributes:
        lr: peak learning rate; base-size models want 2e-5 to 5e-5, tiny ones far more.
        epochs: passes over the training rows; each leaves a checkpoint to choose from.
        batch_rows: rows in a batch.
        max_length: sub-tokens of one sequence, specials included.
        method: ``plain``, or ``r3f``: a symmetric KL between the predictions with and without noise on the word
            vectors is added (Aghajanyan et al. 2021; noise 1e-5, weight 1).
        freeze_embeddings: leave the word vectors as pre-trained.
        pair_features: what is read of a pair; see `TaskModel`.
        warmup: share of the updates.
        random_init: throw the pre-trained weights away first: the control.
    """

    lr: float = 5e-4
    epochs: int = 5
    batch_rows: int = 32
    max_length: int = 128
    method: Literal["plain", "r3f"] = "plain"
    freeze_embeddings: bool = False
    pair_features: Features = "cls"
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
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
        features: of a pair: the state of ``<s>`` (``cls``), or with it the mean states u and v of the two texts,
            ``|u - v|`` and ``u * v`` (``match``; Conneau et al. 2017, section 3.1); or what `unmatched` finds in
            the word vectors alone (``align``), which leaves the layers above them out.
    """

    def __init__(
        self, encoder: Encoder, kind: Kind, labels: Sequence[str], drop: float, features: Features = "cls"
    ) -> None:
        super().__init__()
        dim = encoder.cfg.dim
        self.encoder, self.kind, self.labels, self.drop = encoder, kind, tuple(labels), drop
        self.features: Features = features if kind == "pair" else "cls"
        width = {"cls": dim, "match": 5 * dim, "align": 4 * dim}[self.features]
        self.norm = nn.LayerNorm(width) if self.features == "align" else None
        self.dense = nn.Linear(width, dim) if kind != "tag" else None
        self.classifier = nn.Linear(dim, len(self.labels))
        for layer in (self.dense, self.classifier):
            if layer is not None:
                nn.init.normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, sample: dict[str, Any], noise: float = 0.0) -> Tensor:
        """Logits (M, labels) at the chosen tokens of a packed batch; see `xling.data.packing.pack`.

        ``noise`` is the standard deviation of what is added to the word vectors.
        """
        inputs = sample["net_input"]
        words = self.encoder.tokens(inputs["src_tokens"])
        if noise:
            words = words + noise * torch.randn_like(words)
        if self.norm is not None:
            hidden = self.norm(unmatched(words, sample["segments"], inputs["runs"]))
        else:
            hidden = self.encoder.contextualise(
                words, inputs["positions"], Attention(inputs["runs"]), inputs.get("langs")
            )
            chosen = hidden[sample["chosen"]]
            if self.features == "match":
                chosen = torch.cat([chosen, matched(hidden, sample["segments"], inputs["runs"])], 1)
            hidden = chosen
        if self.dense is not None:
            hidden = torch.tanh(self.dense(dropout(hidden, self.drop, self.training)))
        logits: Tensor = self.classifier(dropout(hidden, self.drop, self.training))
        return logits


def matched(hidden: Tensor, segments: Tensor, runs: Runs) -> Tensor:
    """Mean states u and v of the two texts of each pair, ``|u - v|`` and ``u * v``.

    Args:
        hidden: (N, D) states of a packed batch of B pairs.
        segments: (N,) 1 and 2 at the tokens of the two texts; an empty text counts as zeros.
        runs: of the batch.

    Returns:
        (B, 4 D).
    """
    lengths = torch.tensor([length for count, length in runs for _ in range(count)], device=hidden.device)
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=hidden.device), lengths)
    sides = []
    for side in (1, 2):
        here = segments == side
        total = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add(0, owner[here], hidden[here])
        count = torch.bincount(owner[here], minlength=len(lengths)).clamp_min(1)
        sides.append(total / count[:, None].to(hidden.dtype))
    u, v = sides
    return torch.cat([u, v, (u - v).abs(), u * v], 1)


def unmatched(hidden: Tensor, segments: Tensor, runs: Runs) -> Tensor:
    """What each text of a pair says that the other does not.

    Every token is rebuilt from the other text's tokens, weighted by a softmax over `SHARPNESS` x cosine (the attend
    step of Parikh et al. 2016), and what is left of it is summed over its text, with and without its sign. Where the
    words of one meaning lie together in all languages, so do these differences.

    Args:
        hidden: (N, D) states of a packed batch of B pairs.
        segments: (N,) 1 and 2 at the tokens of the two texts; against an empty text nothing is rebuilt.
        runs: of the batch.

    Returns:
        (B, 4 D).
    """
    rows, start = [], 0
    for count, length in runs:
        block = slice(start, start + count * length)
        start = block.stop
        states, sides = hidden[block].view(count, length, -1), segments[block].view(count, length)
        unit = F.normalize(states, dim=-1)
        other = sides[:, :, None] * sides[:, None, :] == 2  # 1 x 2: one token of each text
        scores = (SHARPNESS * unit @ unit.mT).masked_fill(~other, float("-inf"))
        left = states - scores.softmax(-1).nan_to_num(0.0) @ states  # NaN: a token that sees nothing
        of_texts = [left * (sides == side)[..., None] for side in (1, 2)]
        rows.append(torch.cat([made for x in of_texts for made in (x.sum(1), x.abs().sum(1))], 1))
    return torch.cat(rows)


@dataclass
class Tuned:
    """A fine-tuned model with what prediction needs."""

    model: TaskModel
    processor: Any
    max_length: int
    lang: int = 0

    def encode(self, rows: Sequence[Row]) -> list[tuple[int, Example]]:
        """Windows of all rows as (index of the row, example)."""
        windows = []
        for index, row in enumerate(rows):
            for example in encode_row(
                self.processor, self.model.kind, row, self.model.labels, self.max_length
            ):
                extra = {"id": np.array([index]), "langs": np.full(len(example["tokens"]), self.lang)}
                windows.append((index, example | extra))
        return windows

    def predict(self, rows: Sequence[Row], batch_tokens: int = 8192) -> list[Any]:
        """A label per row, or for tagging a tuple with one tag per word, in the order of ``rows``."""
        windows = self.encode(rows)
        owners = [owner for owner, _ in windows]
        found: list[list[str]] = [[] for _ in windows]
        self.model.eval()
        with torch.inference_mode():
            for batch in batches_by_tokens([len(e["tokens"]) for _, e in windows], batch_tokens):
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
    ckpt: Path, kind: Kind, labels: Sequence[str], train: Sequence[Row], cfg: TuneConfig, lang: str = "en",
    what: str = "fine-tune",
) -> list[Tuned]:  # fmt: skip
    """Fine-tune a published checkpoint; one model per epoch, the last one last.

    Args:
        ckpt: directory of `xling pretrain`.
        kind: shape of the rows.
        labels: closed list of labels.
        train: rows to learn from.
        cfg: how.
        lang: language of the rows, for models with language embeddings.
        what: name on the progress bar.

    Raises:
        UserError: no checkpoint, no training rows, an unknown label, a loss that is not finite.
    """
    for name, least in (("epochs", 1), ("batch_rows", 1), ("max_length", 8)):
        if getattr(cfg, name) < least:
            raise UserError(f"{name}={getattr(cfg, name)}", f"a whole number from {least}")
    torch.manual_seed(cfg.seed)
    loaded, langs = checkpoint.load_model(ckpt, cfg.dropout, cfg.random_init)
    model = TaskModel(loaded.encoder, kind, labels, cfg.dropout, cfg.pair_features).to(
        working_dtype(cfg.precision)
    )
    longest = min(cfg.max_length, loaded.encoder.cfg.max_positions)
    tuned = Tuned(model, vocab.load(ckpt), longest, langs.index(lang) if lang in langs else 0)
    examples = _examples(tuned, train, what)
    per_epoch = -(-len(examples) // cfg.batch_rows)
    model.encoder.tokens.requires_grad_(not cfg.freeze_embeddings)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = XlingAdamW(AdamWConfig(lr=[cfg.lr], weight_decay=cfg.weight_decay), learned)
    kept: list[Tuned] = []
    with Progress(what, per_epoch * cfg.epochs, "updates") as progress:
        for epoch in range(cfg.epochs):
            for step, batch in enumerate(_epoch(examples, cfg, epoch)):
                optimizer.set_lr(_lr(cfg, epoch * per_epoch + step, per_epoch * cfg.epochs))
                loss = _update(model, optimizer, batch, cfg)
                progress.update(1, f"loss {loss:.3f}")
            kept.append(replace(tuned, model=copy.deepcopy(model).requires_grad_(False).eval()))
    return kept


def _examples(tuned: Tuned, rows: Sequence[Row], what: str) -> list[Example]:
    """Windows with something to learn: a sentence without words has none."""
    examples = [(owner, example) for owner, example in tuned.encode(rows) if len(example["chosen"])]
    if not examples:
        raise UserError(f"{what}: no training rows", fix="check the training split")
    for owner, example in examples:
        if (example["target"] < 0).any():
            raise UserError(f"{what}: row {rows[owner].id} has no label", fix="check the training split")
    return [example for _, example in examples]


def save(tuned: Tuned, directory: Path, ckpt: Path, langs: list[str]) -> None:
    """Write ``task.pt`` with the vocabulary of ``ckpt`` beside it; `load` reads them."""
    for name in ("dict.txt", "spm.model"):
        shutil.copy(ckpt / name, directory / name)
    model = tuned.model
    facts = {
        "shape": checkpoint.shape_of(model.encoder.cfg),
        "langs": langs,
        "kind": model.kind,
        "labels": list(model.labels),
        "features": model.features,
        "max_length": tuned.max_length,
    }
    checkpoint.write_published(directory / TASK_FILE, TASK, facts, model.state_dict(), directory)


def load(directory: Path, lang: str = "en") -> Tuned:
    """A fine-tuned model that `save` wrote, in float32.

    Raises:
        UserError: as `xling.models.checkpoint.read_published`.
    """
    path = directory / TASK_FILE
    state = checkpoint.read_published(path, TASK)
    shape = from_dict(EncoderConfig, {k: str(v) for k, v in state["shape"].items()}, str(path))
    langs = state["langs"]
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    encoder = Encoder(shape, vocab_size, len(langs) if shape.lang_embeddings else 0)
    model = TaskModel(encoder, state["kind"], state["labels"], 0.0, state["features"])
    model.load_state_dict(state["weights"])
    code = langs.index(lang) if lang in langs else 0
    return Tuned(model.requires_grad_(False).eval(), vocab.load(directory), state["max_length"], code)


def average(checkpoints: Sequence[Tuned]) -> Tuned:
    """The model whose weights are the mean of the given ones."""
    mean = copy.deepcopy(checkpoints[0].model)
    states = [c.model.state_dict() for c in checkpoints]
    mean.load_state_dict(
        {k: torch.stack([s[k].float() for s in states]).mean(0).to(v.dtype) for k, v in states[0].items()}
    )
    return replace(checkpoints[0], model=mean)


def _update(model: TaskModel, optimizer: XlingAdamW, batch: list[Example], cfg: TuneConfig) -> float:
    model.train()
    optimizer.zero_grad()
    sample = pack(batch)
    logits = model(sample).float()
    loss = F.cross_entropy(logits, sample["target"])
    if cfg.method == "r3f":
        loss = loss + _symmetric_kl(logits, model(sample, noise=R3F_NOISE).float())
    if not torch.isfinite(loss):
        raise UserError(
            f"the loss became {float(loss.detach())} in fine-tuning",
            fix=f"lower the learning rate, now {cfg.lr}",
        )
    loss.backward()
    optimizer.multiply_grads(1.0)
    try:
        optimizer.clip_grad_norm(cfg.clip)
    except NotFiniteError:
        raise UserError(
            "the gradients became infinite in fine-tuning", fix=f"lower the learning rate, now {cfg.lr}"
        ) from None
    optimizer.step()
    return float(loss.detach())


def _symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    a, b = torch.log_softmax(first, -1), torch.log_softmax(second, -1)
    return F.kl_div(a, b, log_target=True, reduction="batchmean") + F.kl_div(
        b, a, log_target=True, reduction="batchmean"
    )


def _lr(cfg: TuneConfig, step: int, total: int) -> float:
    warmup = max(1, int(cfg.warmup * total))
    return cfg.lr * min((step + 1) / warmup, (total - step) / max(1, total - warmup))


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


def batches_by_tokens(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices by length in batches of at most ``batch_tokens`` tokens, or one sequence."""
    batch: list[int] = []
    num_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and num_tokens + lengths[index] > batch_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(index)
        num_tokens += lengths[index]
    if batch:
        yield batch

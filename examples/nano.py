"""All of xling in one file: from raw text to a zero-shot table, in plain torch and sentencepiece.

A model reads text of seven languages and sentence pairs, learns to find names from English labels alone, and finds
them in the six other languages. Beside it stands the control: the same model with random weights, fine-tuned alike.
Both see the same labels, so the difference is what pre-training gave.

    xling toyworld out=runs/nano                       # synthetic text; or a folder of your own, laid out alike
    python examples/nano.py runs/nano                  # five minutes on two cores
    python examples/nano.py runs/nano updates=300      # any setting below

The folder holds

    mono/LANG.txt               raw text, one sentence or paragraph a line
    para/en-LANG.{en,LANG}      sentence pairs, line by line
    ner/LANG.{train,test}.tsv   a word and its tag (B-PER, I-PER, O ...) a line, an empty line after each sentence

Read from top to bottom: text, vocabulary, masking, batches, model, pre-training, fine-tuning, scores. Each part names
the modules of xling that do the same for real corpora, larger models and many machines. A test computes the losses of
this file and of xling from the same weights and batches, and they are equal (tests/test_nano.py).
"""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Ids of the special tokens, as in fairseq. Pieces of words follow, and <mask> is the last id.
BOS, PAD, EOS, UNK, FIRST_PIECE = range(5)
SOURCE = "en"  # the language that has labels


@dataclass
class Settings:
    """What can be changed on the command line as ``name=value``.

    In xling every stage has such a dataclass; recipes and the command line set it, and unknown names are errors
    (xling/core/settings).
    """

    vocab_size: int = 2500
    layers: int = 4
    dim: int = 128
    heads: int = 4
    ffn_dim: int = 512
    max_positions: int = 128
    block: int = 64  # tokens of a block of running text
    batch_rows: int = 16  # blocks of text, and as many sentence pairs, in an update
    mask_prob: float = 0.25  # BERT has .15; a small model on short text learns faster with more
    tlm_weight: float = 2.0  # weight of the loss on pairs, beside that on text
    alpha: float = 0.7  # languages are drawn with probability (share of the text) ** alpha
    updates: int = 2000
    lr: float = 2e-3
    warmup: int = 200
    tune_epochs: int = 4
    tune_rows: int = 32
    tune_lr: float = 1e-3
    seed: int = 1


# ----------------------------------------------------------------------------------------------------
# Text. xling/corpora reads crawls, dumps and archives here, identifies languages, deduplicates, filters, counts what it
# drops and why. This file takes clean lines.


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file that are not empty."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_pairs(folder: Path) -> list[tuple[str, str]]:
    """Return all sentence pairs of a folder; a file of each side, line by line."""
    pairs = []
    for source in sorted(folder.glob(f"*.{SOURCE}")):
        (target,) = (path for path in folder.glob(f"{source.stem}.*") if path != source)
        sides = (path.read_text(encoding="utf-8").splitlines() for path in (source, target))
        pairs += [(x, y) for x, y in zip(*sides, strict=True) if x.strip() and y.strip()]
    return pairs


def read_tagged(path: Path) -> list[tuple[list[str], list[str]]]:
    """Return sentences as (words, tags)."""
    sentences = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line]
        if rows:
            sentences.append(([word for word, _ in rows], [tag for _, tag in rows]))
    return sentences


# ----------------------------------------------------------------------------------------------------
# Vocabulary: one SentencePiece model for all languages (xling/text/vocab.py, which balances the languages by alpha).
# Token arrays are int64; a language is one long stream with </s> after each line (xling/text/files/shards.py keeps such
# streams in memory-mapped files).


class Vocabulary:
    """SentencePiece with fairseq's ids."""

    def __init__(self, lines: Sequence[str], size: int) -> None:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type="unigram",
            character_coverage=1.0, unk_id=0, bos_id=-1, eos_id=-1, minloglevel=2, num_threads=1,
        )  # fmt: skip
        self.model = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        self.mask = FIRST_PIECE + size - 1  # SentencePiece counts its <unk>, which has id 3 here
        self.num_ids = self.mask + 1

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; SentencePiece's id 0 is <unk>, its piece 1 our first."""
        return [piece + FIRST_PIECE - 1 if piece else UNK for piece in self.model.encode(text)]


def stream_of(lines: Sequence[str], vocabulary: Vocabulary) -> np.ndarray:
    """Return the tokens of all lines, with </s> after each, int64 (num_tokens,)."""
    return np.array([token for line in lines for token in [*vocabulary.encode(line), EOS]])


# ----------------------------------------------------------------------------------------------------
# Masking (Devlin et al. 2019, section 3.1): choose a share of the tokens; 80 % of them become <mask>, 10 % a random
# piece, 10 % stay. The model predicts the original at the chosen places. xling/data/masking.py also masks words and
# spans.

Row = tuple[np.ndarray, np.ndarray]  # tokens and positions of a sequence, or what `mask` returns


def mask(tokens: np.ndarray, prob: float, mask_id: int, rng: np.random.Generator) -> Row:
    """Return the corrupted tokens (T,) and the chosen positions (M,); special tokens are never chosen."""
    (candidates,) = np.nonzero(tokens >= FIRST_PIECE)
    count = min(max(1, int(prob * len(candidates) + rng.random())), len(candidates))
    chosen = np.sort(rng.permutation(candidates)[:count])
    fate, pieces = rng.random(count), rng.integers(FIRST_PIECE, mask_id, count)
    pieces[fate >= 0.2] = mask_id
    corrupted, is_changed = tokens.copy(), fate >= 0.1
    corrupted[chosen[is_changed]] = pieces[is_changed]
    return corrupted, chosen


# ----------------------------------------------------------------------------------------------------
# Batches. Here rows are padded to the longest; xling packs all rows of a batch into one row without padding
# (xling/data/packing.py) and keys every draw by seed, epoch and index, so that a killed run goes on to the bit
# (xling/data/mixer.py).


@dataclass
class Batch:
    """A padded batch of masked rows.

    Attributes:
        tokens: corrupted ids (B, T), padded with <pad>.
        positions: position of each token (B, T).
        target: the original ids where the model predicts, -1 elsewhere, (B, T).
    """

    tokens: Tensor
    positions: Tensor
    target: Tensor


def batch_of(rows: list[Row], prob: float, mask_id: int, rng: np.random.Generator) -> Batch:
    """Mask rows of (tokens, positions) and pad them."""
    length = max(len(tokens) for tokens, _ in rows)
    tokens, positions, target = (np.full((len(rows), length), value) for value in (PAD, 0, -1))
    for i, (row, places) in enumerate(rows):
        corrupted, chosen = mask(row, prob, mask_id, rng)
        tokens[i, : len(row)], positions[i, : len(row)] = corrupted, places
        target[i, chosen] = row[chosen]
    return Batch(*map(torch.from_numpy, (tokens, positions, target)))


def mmlm_rows(streams: list[np.ndarray], cfg: Settings, rng: np.random.Generator) -> Iterator[Row]:
    """Yield blocks of running text, <s> and a part of a stream, of languages drawn by size ** alpha, without end.

    Multilingual masked LM: Conneau et al. 2020 (xling/objectives/mmlm.py).
    """
    sizes = np.array([len(stream) for stream in streams], dtype=float) ** cfg.alpha
    while True:
        stream = streams[rng.choice(len(streams), p=sizes / sizes.sum())]
        start = rng.integers(max(1, len(stream) - cfg.block + 1))
        row = np.concatenate([[BOS], stream[start : start + cfg.block - 1]])
        yield row, np.arange(len(row))


def tlm_rows(
    pairs: list[tuple[list[int], list[int]]], cfg: Settings, rng: np.random.Generator
) -> Iterator[Row]:
    """Yield ``<s> x </s> </s> y </s>`` for pairs in random order and direction, without end.

    A masked word can be read off the other side, if the model knows which words translate each other. Positions begin
    again in y, so equal places meet. Translation LM: Conneau & Lample 2019, section 3.3 (xling/objectives/tlm.py).
    """
    while True:
        for index in rng.permutation(len(pairs)):
            x, y = pairs[index][:: rng.choice([1, -1])]
            row = np.array([BOS, *x, EOS, EOS, *y, EOS])
            if len(row) <= cfg.max_positions:
                second = len(x) + 2
                yield row, np.concatenate([np.arange(second), np.arange(len(row) - second)])


# ----------------------------------------------------------------------------------------------------
# Model: BERT's encoder with norms after the blocks, and RoBERTa's head, whose output matrix is that of the embeddings.
# Names of weights are those of xling/models/network/encoder.py, which also has rotary and relative positions, gated
# blocks, local windows, adapters, variable-length attention, and a loss that never holds all logits at once.


class Layer(nn.Module):
    """Attention over all tokens of the row, then a feed-forward block."""

    def __init__(self, cfg: Settings) -> None:
        super().__init__()
        self.heads = cfg.heads
        self.qkv, self.out = nn.Linear(cfg.dim, 3 * cfg.dim), nn.Linear(cfg.dim, cfg.dim)
        self.up, self.down = nn.Linear(cfg.dim, cfg.ffn_dim), nn.Linear(cfg.ffn_dim, cfg.dim)
        self.attn_norm, self.ffn_norm = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        """Map states (B, T, D) to (B, T, D); ``is_token`` (B, T) is False at padding, which nothing attends to."""
        rows, length, dim = x.shape
        # Queries, keys and values, each (B, H, T, C).
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=is_token[:, None, None])
        x = self.attn_norm(x + self.out(attended.transpose(1, 2).reshape(rows, length, dim)))
        return self.ffn_norm(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Token and position embeddings, then the layers."""

    def __init__(self, cfg: Settings, num_ids: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(num_ids, cfg.dim, padding_idx=PAD)
        self.positions = nn.Embedding(cfg.max_positions, cfg.dim)
        self.norm = nn.LayerNorm(cfg.dim)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Map ids (B, T) to states (B, T, D)."""
        x = self.norm(self.tokens(tokens) + self.positions(positions))
        for layer in self.layers:
            x = layer(x, tokens != PAD)
        return x


class MaskedLM(nn.Module):
    """The encoder with its head for masked tokens."""

    def __init__(self, cfg: Settings, num_ids: int) -> None:
        super().__init__()
        self.encoder = Encoder(cfg, num_ids)
        self.dense, self.norm = nn.Linear(cfg.dim, cfg.dim), nn.LayerNorm(cfg.dim)
        self.bias = nn.Parameter(torch.zeros(num_ids))
        self.apply(initialise)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the original tokens at the chosen places, in nats."""
        chosen = batch.target >= 0
        hidden = self.encoder(batch.tokens, batch.positions)[chosen]  # (M, D): only these meet the vocabulary
        hidden = self.norm(F.gelu(self.dense(hidden)))
        logits = F.linear(hidden, self.encoder.tokens.weight, self.bias)  # (M, V)
        return F.cross_entropy(logits, batch.target[chosen])


def initialise(module: nn.Module) -> None:
    """Draw matrices and embeddings from normal(0, .02), as BERT does; biases are zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        elif module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])


# ----------------------------------------------------------------------------------------------------
# Training. In xling fairseq's Trainer takes the step (xling/training), which adds precision, many processes, sharding,
# validation, checkpoints that are written whole or not at all, and exact resume.


def rate(update: int, peak: float, warmup: int, updates: int) -> float:
    """Return the learning rate of an update: up over ``warmup`` updates, then down to 0 in a straight line."""
    return peak * min((update + 1) / max(1, warmup), (updates - update) / max(1, updates - warmup))


def optimiser_of(module: nn.Module) -> torch.optim.AdamW:
    """Return AdamW; weight decay is for matrices, not for biases and norms."""
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.dim() > 1], "weight_decay": 0.01},
        {"params": [weight for weight in trained if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6)


def step(loss: Tensor, module: nn.Module, optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Follow the gradient of a loss, clipped to norm 1."""
    for group in optimiser.param_groups:
        group["lr"] = lr
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimiser.step()


def pretrain(data: Path, langs: list[str], vocabulary: Vocabulary, cfg: Settings) -> MaskedLM:
    """Train a masked LM on text and pairs; each update has a batch of both."""
    rng = np.random.default_rng(cfg.seed)
    streams = [stream_of(read_lines(data / "mono" / f"{lang}.txt"), vocabulary) for lang in langs]
    pairs = [(vocabulary.encode(x), vocabulary.encode(y)) for x, y in read_pairs(data / "para")]
    text_rows, pair_rows = mmlm_rows(streams, cfg, rng), tlm_rows(pairs, cfg, rng)
    model = MaskedLM(cfg, vocabulary.num_ids)
    optimiser, begun = optimiser_of(model), time.monotonic()
    for update in range(cfg.updates):
        drawn = [[next(rows) for _ in range(cfg.batch_rows)] for rows in (text_rows, pair_rows)]
        losses = [model.loss(batch_of(rows, cfg.mask_prob, vocabulary.mask, rng)) for rows in drawn]
        weighted = (losses[0] + cfg.tlm_weight * losses[1]) / (1 + cfg.tlm_weight)
        step(weighted, model, optimiser, rate(update, cfg.lr, cfg.warmup, cfg.updates))
        if (update + 1) % max(1, cfg.updates // 10) == 0:
            text_loss, pair_loss = (loss.item() for loss in losses)
            print(f"update {update + 1}: masked LM {text_loss:.2f}, pairs {pair_loss:.2f}, "
                  f"{time.monotonic() - begun:.0f} s", flush=True)  # fmt: skip
    return model


# ----------------------------------------------------------------------------------------------------
# Fine-tuning on English labels (xling/transfer). A word's tag is read off its first piece. The embeddings stay as they
# are: English labels would move the English rows alone, away from those of their translations.


class Tagger(nn.Module):
    """The encoder of a masked LM with a linear layer on the first piece of each word."""

    def __init__(self, model: MaskedLM, tags: list[str]) -> None:
        super().__init__()
        self.encoder, self.tags = model.encoder, tags
        self.head = nn.Linear(model.dense.out_features, len(tags))
        initialise(self.head)
        for table in (self.encoder.tokens, self.encoder.positions):
            table.requires_grad_(False)

    def forward(self, sentences: Sequence[list[str]], vocabulary: Vocabulary) -> list[Tensor]:
        """Return for each sentence the logits of its words' tags, (words, tags)."""
        rows, firsts = [], []
        for words in sentences:
            pieces = [vocabulary.encode(word) or [UNK] for word in words]
            firsts.append(torch.tensor(np.cumsum([1, *map(len, pieces[:-1])])))
            rows.append(torch.tensor([BOS, *(piece for word in pieces for piece in word), EOS]))
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        hidden = self.encoder(tokens, torch.arange(tokens.shape[1]).expand_as(tokens))
        return [self.head(states[first]) for states, first in zip(hidden, firsts, strict=True)]


def finetune(model: MaskedLM, data: Path, vocabulary: Vocabulary, cfg: Settings) -> Tagger:
    """Train a tagger on the English labels."""
    sentences = read_tagged(data / "ner" / f"{SOURCE}.train.tsv")
    tags = sorted({tag for _, row in sentences for tag in row})
    tagger, rng = Tagger(model, tags), np.random.default_rng(cfg.seed)
    optimiser = optimiser_of(tagger)
    num_batches = math.ceil(len(sentences) / cfg.tune_rows)
    updates = cfg.tune_epochs * num_batches
    epochs = (np.array_split(rng.permutation(len(sentences)), num_batches) for _ in range(cfg.tune_epochs))
    for update, batch in enumerate(rows for epoch in epochs for rows in epoch):
        logits = torch.cat(tagger([sentences[i][0] for i in batch], vocabulary))
        wanted = torch.tensor([tags.index(tag) for i in batch for tag in sentences[i][1]])
        lr = rate(update, cfg.tune_lr, updates // 10, updates)
        step(F.cross_entropy(logits, wanted), tagger, optimiser, lr)
    return tagger


# ----------------------------------------------------------------------------------------------------
# Scores. eval/metrics agrees with the official scorers to the digit; eval/scores adds intervals, eval/run seeds and
# more controls.


def spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the names of a sentence as (first word, word after the last, kind)."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and tag != f"I-{tags[start][2:]}":
            found.add((start, i, tags[start][2:]))
            start = None
        if tag.startswith("B-") or (tag.startswith("I-") and start is None):
            start = i
    return found


@torch.no_grad()
def span_f1(tagger: Tagger, path: Path, vocabulary: Vocabulary) -> float:
    """Return F1 in percent over whole names: first word, last word and kind must be right."""
    right = given = wanted = 0
    for words, tags in read_tagged(path):
        (logits,) = tagger([words], vocabulary)
        predicted, gold = spans([tagger.tags[i] for i in logits.argmax(1).tolist()]), spans(tags)
        right, given, wanted = right + len(predicted & gold), given + len(predicted), wanted + len(gold)
    return 100 * 2 * right / max(1, given + wanted)


def main(words: list[str]) -> dict[str, dict[str, float]]:
    """Run everything, print the table, and return it: system -> language -> F1."""
    data, cfg = Path(words[0]), Settings()
    kinds = {field.name: type(getattr(cfg, field.name)) for field in fields(cfg)}
    for word in words[1:]:
        name, _, value = word.partition("=")
        assert name in kinds, f"unknown setting {name!r}; there are {', '.join(kinds)}"
        setattr(cfg, name, kinds[name](value))
    torch.manual_seed(cfg.seed)
    langs = sorted(path.stem for path in (data / "mono").glob("*.txt"))
    lines = [line for lang in langs for line in read_lines(data / "mono" / f"{lang}.txt")]
    vocabulary = Vocabulary(lines, cfg.vocab_size)
    print(f"{len(langs)} languages, {len(lines):,} lines, {vocabulary.num_ids:,} ids")
    models = {"pre-trained": pretrain(data, langs, vocabulary, cfg)}
    models["random weights"] = MaskedLM(cfg, vocabulary.num_ids)
    table = {}
    for system, model in models.items():
        tagger = finetune(model, data, vocabulary, cfg)
        table[system] = {
            lang: span_f1(tagger, data / "ner" / f"{lang}.test.tsv", vocabulary) for lang in langs
        }
    others = [lang for lang in langs if lang != SOURCE]
    print(f"\nSpan F1 of names. Labels: {SOURCE} alone.")
    print(" " * 16, *(f"{column:>6}" for column in (SOURCE, *others, "others")))
    for system, row in table.items():
        mean = sum(row[lang] for lang in others) / len(others)
        print(f"{system:<16}", *(f"{row[lang]:6.1f}" for lang in (SOURCE, *others)), f"{mean:6.1f}")
    return table


if __name__ == "__main__":
    main(sys.argv[1:])

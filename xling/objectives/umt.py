"""Unsupervised translation: a sentence from a translation of it that the present weights make (back-translation).

For every sentence y of the text the model writes x, its translation into another language, without gradient, greedy
or sampled; then it learns to get y from x. Beside it in one recipe stand ``dae`` or ``mass`` (`xling.objectives.multi`
with ``mix: sum`` puts both into every update, XLM's schedule on ``dae``) and, where there is some, ``translation``.

A start without a pre-trained model: ``word_by_word`` updates long x comes from a dictionary instead of the weights.

Source: Lample et al. 2018 (b), section 3; Conneau & Lample 2019, section 5.2; Liu et al. 2020, section 5 (only pieces
of the language that is written in the first updates). Decided here: a batch that is used ``reuse`` times comes back
after ``pool`` other batches with the x that was made for it, which is part of the checkpoint.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.sampling import rng
from xling.data import noise
from xling.data.packing import Example, pack_seq2seq
from xling.models import ddp
from xling.models.generate import generate_all
from xling.models.search import Search
from xling.objectives.base import EOS, FIRST_PIECE, Loss, ObjectiveDataset, objective
from xling.objectives.seq2seq import Seq2SeqObjective, Text, TextConfig, TextDataset, example, sequence_loss
from xling.objectives.trial import Trial
from xling.text import shards, vocab, wordbyword
from xling.text.shards import UNK

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Int

BATCH_TOKENS = 1 << 14  # translated at once, by which a batch of training is never cut on a CPU
SAMPLE = 1 << 24  # tokens of a language that its pieces are counted in


@dataclass
class UmtConfig(TextConfig):
    """Settings of back-translation.

    Attributes:
        pairs: such as ``en-fr,en-de``, trained in both directions; empty for every two languages.
        sample: draw from the distribution instead of taking the best token.
        top_k: draw from so many best tokens; 0 for all.
        temperature: of drawing.
        max_len_a: with ``max_len_b``: outputs are at most ``a * n + b`` tokens.
        max_len_b: see ``max_len_a``.
        reuse: how often each translated batch is used.
        pool: batches that are translated together, by length.
        own_pieces: updates at the start in which only pieces of the language are written.
        own_share: pieces that are the language's own: share of its text at least.
        dictionaries: ``en-fr=PATH,fr-en=PATH``.
        word_by_word: updates at the start in which x is made with ``dictionaries``.
    """

    pairs: str = ""
    sample: bool = False
    top_k: int = 0
    temperature: float = 1.0
    max_len_a: float = 1.3
    max_len_b: int = 5
    reuse: int = 1
    pool: int = 8
    own_pieces: int = 0
    own_share: float = 0.01
    dictionaries: str = ""
    word_by_word: int = 0


class BackDataset(TextDataset):
    """Sentences with the language they are to be translated into; a batch comes back ``reuse`` times in an epoch."""

    def batch_by_size(self, *args: Any, **settings: Any) -> list[Int[np.ndarray, " _"]]:
        """Stretches of ``pool`` batches, each stretch as often as its batches are used."""
        batches = super().batch_by_size(*args, **settings)
        pool, uses = self._cfg.pool, self._cfg.reuse if self._split == "train" else 1
        return [b for i in range(0, len(batches), pool) for b in batches[i : i + pool] * uses]

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """The sentences as they are, since their sources are yet to be made.

        Returns:
            ``texts``, a list of int64 (length,) with ``</s>``; ``langs`` and ``others``, what they are in and what
            they are to be translated into; ``epoch``; ``id``, ``nsentences`` and ``ntokens``.
        """
        return {
            "id": torch.from_numpy(np.concatenate([each["id"] for each in samples])),
            "texts": [each["text"] for each in samples],
            "langs": [int(each["lang"]) for each in samples],
            "others": [int(each["other"]) for each in samples],
            "epoch": self.epoch,
            "nsentences": len(samples),
            "ntokens": 2 * sum(len(each["text"]) for each in samples),
        }


class Made(nn.Module):
    """What back-translation keeps in the model: which pieces are whose, the update, batches that will be used again.

    Attributes:
        counts: of each piece in the text of each language, float32 (num_langs, vocabulary).
        num_updates: made so far; fairseq tells it.
        kept: by batch the uses left and the sources, each int64 (length,).
        others: what every process kept when it was asked last, as `packed`; none where there is one process.
    """

    def __init__(self, counts: Float[Tensor, "langs vocab"]) -> None:
        super().__init__()
        self.counts: Tensor
        self.register_buffer("counts", counts)
        self.num_updates = 0
        self.others: list[Tensor] = []
        self.kept: dict[int, tuple[int, list[np.ndarray]]] = {}

    def set_num_updates(self, num_updates: int) -> None:
        """Called by fairseq before every update and when a checkpoint is loaded."""
        self.num_updates = num_updates

    def own(self, share: float) -> Bool[Tensor, "langs vocab"]:
        """Pieces of which a share is a language's, bool (num_langs, vocabulary); texts count as equally long."""
        rates = self.counts / self.counts.sum(1, keepdim=True)
        return (rates > 0) & (rates >= share * rates.sum(0))

    def packed(self) -> Int[Tensor, " numbers"]:
        """The batches kept as one row of int64: of each its key, its uses, its size, lengths and tokens."""
        rows = [np.array([len(self.kept)])]
        for key, (uses, made) in self.kept.items():
            rows += [np.array([key, uses, len(made), *map(len, made)]), *made]
        return torch.from_numpy(np.concatenate(rows).astype(np.int64))

    def ask(self) -> None:
        """Learn what every process keeps; all have to ask."""
        if ddp.size() > 1:
            self.others = [torch.zeros(0)] * ddp.size()
            dist.all_gather_object(self.others, self.packed())

    def get_extra_state(self) -> Int[Tensor, " numbers"]:
        """What each process keeps, as it was when they were asked: their number, the sizes of their rows, the rows."""
        rows = self.others or [self.packed()]
        return torch.cat([torch.tensor([len(rows), *map(len, rows)]), *rows])

    def set_extra_state(self, state: Int[Tensor, " numbers"]) -> None:
        """Put back what this process kept; where their number has changed, each takes all there is."""
        num = int(state[0])
        rows = torch.split(state[num + 1 :].cpu(), state[1 : num + 1].tolist())
        self.kept = {}
        for each in [rows[ddp.rank()]] if num == ddp.size() else rows:
            row, at = each.numpy(), 1
            for _ in range(int(row[0])):
                key, uses, size = (int(n) for n in row[at : at + 3])
                cuts = np.cumsum(row[at + 3 : at + 3 + size])
                at += 3 + size
                self.kept[key] = uses, np.split(row[at : at + cuts[-1]].copy(), cuts[:-1])
                at += int(cuts[-1])


@objective("umt")
class Umt(Seq2SeqObjective):
    """A sentence from the model's own translation of it."""

    trial = Trial({"reuse": "2", "pool": "2", "sample": "true", "pairs": "en-ar,en-th"}, makes_sources=True)
    config = UmtConfig
    shardable = False

    def __init__(self, cfg: Any, dictionary: Any, langs: list[str]) -> None:
        super().__init__(cfg, dictionary, langs)
        self.partners = partners_of(cfg.pairs, langs, shards.languages_in(Path(cfg.data)))
        self.seconds = {"generate": 0.0, "data": 0.0}  # for benchmarks
        for name in ("reuse", "pool"):
            if getattr(cfg, name) < 1:
                raise UserError(f"{name}={getattr(cfg, name)}", "a whole number from 1")
        for name in ("own_pieces", "word_by_word"):
            if getattr(cfg, name) < 0:
                raise UserError(f"{name}={getattr(cfg, name)}", "updates from 0")
        noise.check_share("own_share", cfg.own_share)
        if cfg.join:
            raise UserError("join with back-translation", "sentences one by one", "leave it out")
        self.search = Search(
            beam=1,
            max_len_a=cfg.max_len_a,
            max_len_b=cfg.max_len_b,
            sample=cfg.sample,
            top_k=cfg.top_k,
            temperature=cfg.temperature,
        )
        self._dictionaries = wordbyword.read(cfg.dictionaries)
        if cfg.word_by_word:
            for src, others in self.partners.items():
                for other in others:
                    if (langs[src], langs[other]) not in self._dictionaries:
                        raise UserError(
                            f"word_by_word={cfg.word_by_word} without a dictionary {langs[src]}-{langs[other]}",
                            f"dictionaries=DIR of `xling bli`, or {langs[src]}-{langs[other]}=PATH",
                        )
        self._processor = vocab.load(Path(cfg.data)) if cfg.word_by_word else None

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Sentences of the split in the languages of the pairs."""
        mine = [lang for index, lang in enumerate(self.langs) if index in self.partners]

        def build(text: Text) -> Example:
            lang = self.langs.index(mine[text.lang])
            others = self.partners[lang]
            return {
                "text": text.tokens,
                "lang": np.array(lang),
                "other": np.array(others[int(text.generator.integers(len(others)))]),
            }

        return BackDataset(self.cfg, data, split, mine, "umt", build, lambda lengths: 2 * lengths)

    def before_save(self, model: Any) -> None:
        """Every process keeps translations of its own, and one writes them all."""
        model.extras["umt"].ask()

    def count(self, sample: dict[str, Any]) -> int:
        """Tokens to be written."""
        return sum(len(text) for text in sample["texts"])

    def modules(self, model: Any) -> nn.Module:
        """The counts of pieces and the batches kept."""
        return Made(count_pieces(Path(self.cfg.data), self.langs, len(self.dictionary)))

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy of the sentences given their translations."""
        sources, symbols = self.sources(model, sample), self.symbols
        begin = time.perf_counter()
        rows = zip(
            sample["id"].tolist(), sources, sample["texts"], sample["others"], sample["langs"], strict=True
        )
        packed = pack_seq2seq(
            [
                example(np.append(x, EOS), y, other, lang, symbols) | {"id": np.array([number])}
                for number, x, y, other, lang in rows
            ]
        )
        packed = to_device(packed, model.encoder.tokens.weight.device)
        self.seconds["data"] += time.perf_counter() - begin
        return sequence_loss(model, packed)

    def sources(self, model: Any, sample: dict[str, Any]) -> list[Int[np.ndarray, " _"]]:
        """The translation of each sentence, int64 (length,) without specials; made, or kept from an earlier use."""
        kept: dict[int, Any] = model.extras["umt"].kept
        key = key_of(sample)
        if model.training and key in kept:
            uses, made = kept.pop(key)
        else:
            uses, made = self.cfg.reuse, self.translations(model, sample, key)
        if model.training and uses > 1:
            kept[key] = uses - 1, made
            while len(kept) > self.cfg.pool:  # left by a batch that was halved or given up
                del kept[next(iter(kept))]
        return made

    def translations(self, model: Any, sample: dict[str, Any], key: int) -> list[Int[np.ndarray, " _"]]:
        """Translate the sentences of a batch with a dictionary in the first updates, then with the weights."""
        begin, cfg = time.perf_counter(), self.cfg
        state = model.extras["umt"]
        texts = [text[:-1] for text in sample["texts"]]
        langs, others = sample["langs"], sample["others"]
        if state.num_updates < cfg.word_by_word:
            made = [self._by_words(*row) for row in zip(texts, langs, others, strict=True)]
        else:
            seed = int(rng(cfg.seed, "umt", key).integers(1 << 31))
            own = state.own(cfg.own_share) if state.num_updates < cfg.own_pieces else None
            made = translate(model, texts, langs, others, self.symbols, self.search, seed, own)
        room = cfg.tokens_per_sample - 2
        self.seconds["generate"] += time.perf_counter() - begin
        return [x[:room] if len(x) else np.array([UNK]) for x in made]

    def _by_words(self, text: np.ndarray, lang: int, other: int) -> np.ndarray:
        assert self._processor is not None
        shown = self._processor.decode([int(i) - 1 for i in text if i >= FIRST_PIECE])
        found = self._dictionaries[self.langs[lang], self.langs[other]](shown)
        return np.array([UNK if i == 0 else i + 1 for i in self._processor.encode(found)], dtype=np.int64)


def translate(
    model: Any,
    texts: list[Int[np.ndarray, " _"]],
    langs: list[int],
    others: list[int],
    symbols: Any,
    search: Search,
    seed: int = 1,
    own: Bool[Tensor, "langs vocab"] | None = None,
) -> list[Int[np.ndarray, " _"]]:
    """The best translation of each text, without gradient.

    Args:
        model: left as it was.
        texts: pieces of each, (length,).
        langs, others: what they are in and what they are to be translated into.
        symbols: of the model.
        search: how.
        seed: of the drawing.
        own: pieces that each language may write, bool (num_langs, vocabulary); None for all.
    """
    found: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * len(texts)
    groups = [range(len(texts))] if own is None else [
        [i for i, other in enumerate(others) if other == lang] for lang in sorted(set(others))
    ]  # fmt: skip
    search = replace(search, seed=seed)
    for rows in groups:
        pieces = None if own is None else own[others[rows[0]]]
        made = generate_all(
            model,
            [texts[i] for i in rows],
            [langs[i] for i in rows],
            [others[i] for i in rows],
            symbols,
            search,
            batch_tokens=BATCH_TOKENS,
            pieces=pieces,
        )
        for row, hypotheses in zip(rows, made, strict=True):
            found[row] = hypotheses[0].tokens
    return found


def key_of(sample: dict[str, Any]) -> int:
    """What a batch is known by: its epoch, sentences and directions."""
    digest = hashlib.blake2b(
        repr((sample["epoch"], sample["langs"], sample["others"])).encode(), digest_size=8
    )
    for text in sample["texts"]:
        digest.update(text.tobytes())
    return int.from_bytes(digest.digest()) >> 1


def to_device(value: Any, device: torch.device) -> Any:
    """A sample with its tensors on a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    return {key: to_device(each, device) for key, each in value.items()} if isinstance(value, dict) else value


def count_pieces(data: Path, langs: list[str], size: int) -> Float32[Tensor, " langs {size}"]:
    """How often each piece stands in the training text of each language, float32 (num_langs, size)."""
    counts = torch.zeros(len(langs), size)
    for index, lang in enumerate(langs):
        if (data / lang / "train.idx").is_file():
            tokens = shards.open_shard(data / lang / "train").tokens[:SAMPLE]
            counts[index] = torch.from_numpy(np.bincount(tokens.astype(np.int64), minlength=size)[:size])
    counts[:, :FIRST_PIECE] = 0
    return counts


def partners_of(pairs: str, langs: list[str], there: list[str]) -> dict[int, list[int]]:
    """For each language, by index, those that it is translated into.

    Raises:
        UserError: a language without text or unknown to the model, or fewer than two languages.
    """
    named = [split_pair(pair.strip()) for pair in pairs.split(",") if pair.strip()]
    mine = [lang for lang in langs if lang in there]
    if not named:
        named = [(a, b) for i, a in enumerate(mine) for b in mine[i + 1 :]]
    if not named:
        raise UserError(
            f"back-translation with {', '.join(mine) or 'no language'} alone", "two languages with text"
        )
    found: dict[int, list[int]] = {}
    for pair in named:
        for lang in pair:
            if lang not in mine:
                raise UserError(f"pair {'-'.join(pair)}: no text in {lang}", ", ".join(mine), "binarize it")
        for lang, other in (pair, pair[::-1]):
            if langs.index(other) not in (others := found.setdefault(langs.index(lang), [])):
                others.append(langs.index(other))
    return found

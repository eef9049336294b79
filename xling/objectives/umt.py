"""Unsupervised translation.

Reconstruct a sentence from a translation made by the current weights (back-translation).

For every sentence y of the text the model writes x, its translation into another language, without gradient,
greedy or sampled; then it learns to translate x to y. A recipe combines it with ``dae`` or ``mass``
(`xling.objectives.multi` with ``mix: sum`` puts both into every update, with XLM's schedule on ``dae``) and,
if there are pairs, ``translation``.

To start without a pre-trained model, x comes from a dictionary in the first ``word_by_word`` updates.

Source: Lample et al. 2018 (b), section 3; Conneau & Lample 2019, section 5.2; Liu et al. 2020, section 5
(only pieces of the target language in the first updates). Our choice: a batch that is used ``reuse`` times
returns after ``pool`` other batches with the x made for it, which is part of the checkpoint.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from xling.array_types import Bool, Float, Float32, Int
from xling.core.sampling import rng
from xling.data.packing import Example, pack_seq2seq, to_device
from xling.models.distributed import processes
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.objectives.base import EOS, FIRST_PIECE, Loss, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.seq2seq import Seq2SeqObjective, Text, TextDataset, example, sequence_loss
from xling.text import vocab, word_translation
from xling.text.files import shards
from xling.text.files.shards import UNK

BATCH_TOKENS = 1 << 14  # tokens translated at once; large enough that no training batch is split on a CPU
SAMPLE = 1 << 24  # tokens of a language in which its pieces are counted


class BackDataset(TextDataset):
    """Dataset of sentences with their target language; a batch returns ``reuse`` times in an epoch."""

    def arranged(self, batches: list[Int[np.ndarray, " _"]]) -> list[Int[np.ndarray, " _"]]:
        """Arrange batches in stretches of ``pool``, repeating each stretch as often as its batches are used."""
        pool, uses = self._cfg.pool, self._cfg.reuse if self._split == "train" else 1
        return [b for i in range(0, len(batches), pool) for b in batches[i : i + pool] * uses]

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Return the unpacked sentences, since their sources have not been generated yet.

        Returns:
            ``texts``, a list of int64 (length,) with ``</s>``; ``langs`` and ``others``, their language and
            the language to translate into; ``epoch``; ``id``, ``nsentences`` and ``ntokens``.
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


class BackTranslations(nn.Module):
    """Back-translation state kept in the model: piece counts by language, the update, and batches to be reused.

    Attributes:
        counts: count of each piece in the text of each language, float32 (num_langs, vocabulary).
        num_updates: number of updates so far, set by fairseq.
        kept: by batch the remaining uses and the sources, each int64 (length,).
        others: state of every process when last gathered, as `packed`; empty with one process.
    """

    def __init__(self, counts: Float[Tensor, "langs vocab"]) -> None:
        super().__init__()
        self.counts: Tensor
        self.register_buffer("counts", counts)
        self.num_updates = 0
        self.others: list[Tensor] = []
        self.kept: dict[int, tuple[int, list[np.ndarray]]] = {}

    def set_num_updates(self, num_updates: int) -> None:
        """Store the number of updates; fairseq calls this before every update and when a checkpoint is loaded."""
        self.num_updates = num_updates

    def own(self, share: float) -> Bool[Tensor, "langs vocab"]:
        """Return which pieces belong to a language by a share, bool (num_langs, vocabulary).

        Texts count as equally long.
        """
        rates = self.counts / self.counts.sum(1, keepdim=True)
        return (rates > 0) & (rates >= share * rates.sum(0))

    def packed(self) -> Int[Tensor, " numbers"]:
        """Serialise the kept batches to one row of int64.

        For each its key, its uses, its size, lengths and tokens.
        """
        rows = [np.array([len(self.kept)])]
        for key, (uses, sources) in self.kept.items():
            rows += [np.array([key, uses, len(sources), *map(len, sources)]), *sources]
        return torch.from_numpy(np.concatenate(rows).astype(np.int64))

    def gather(self) -> None:
        """Gather the kept batches of every process; all processes must call this."""
        if processes.size() > 1:
            self.others = [torch.zeros(0)] * processes.size()
            dist.all_gather_object(self.others, self.packed())

    def get_extra_state(self) -> Int[Tensor, " numbers"]:
        """Return the gathered state of the processes: their number, the sizes of their rows, the rows."""
        rows = self.others or [self.packed()]
        return torch.cat([torch.tensor([len(rows), *map(len, rows)]), *rows])

    def set_extra_state(self, state: Int[Tensor, " numbers"]) -> None:
        """Restore the state of this process; if the number of processes has changed, each takes the whole state."""
        num = int(state[0])
        rows = torch.split(state[num + 1 :].cpu(), state[1 : num + 1].tolist())
        self.kept = {}
        for each in [rows[processes.rank()]] if num == processes.size() else rows:
            row, at = each.numpy(), 1
            for _ in range(int(row[0])):
                key, uses, size = (int(n) for n in row[at : at + 3])
                cuts = np.cumsum(row[at + 3 : at + 3 + size])
                at += 3 + size
                self.kept[key] = uses, np.split(row[at : at + cuts[-1]].copy(), cuts[:-1])
                at += int(cuts[-1])


@objective("umt")
class Umt(Seq2SeqObjective):
    """The back-translation objective: reconstruct a sentence from the model's own translation of it."""

    trial = Trial({"reuse": "2", "pool": "2", "sample": "true", "pairs": "en-ar,en-th"}, makes_sources=True)

    def __init__(self, cfg: Any, dictionary: Any, langs: list[str]) -> None:
        super().__init__(cfg, dictionary, langs)
        self.partners = shards.partners_of(cfg.pairs, langs, shards.list_languages(Path(cfg.data)))
        self.search = Search(
            beam=1,
            max_len_a=cfg.max_len_a,
            max_len_b=cfg.max_len_b,
            sample=cfg.sample,
            top_k=cfg.top_k,
            temperature=cfg.temperature,
        )
        self._dictionaries = word_translation.read_translators(cfg.dictionaries)
        self._processor = vocab.load_processor(Path(cfg.data)) if cfg.word_by_word else None

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of sentences of a split in the languages of the pairs."""
        paired_langs = [lang for index, lang in enumerate(self.langs) if index in self.partners]

        def build(text: Text) -> Example:
            lang = self.langs.index(paired_langs[text.lang])
            others = self.partners[lang]
            return {
                "text": text.tokens,
                "lang": np.array(lang),
                "other": np.array(others[int(text.generator.integers(len(others)))]),
            }

        return BackDataset(self.cfg, data, split, paired_langs, "umt", build, lambda lengths: 2 * lengths)

    def before_save(self, model: Any) -> None:
        """Gather the translations of every process, since one process writes them all."""
        model.extras["umt"].gather()

    def count(self, sample: dict[str, Any]) -> int:
        """Count the tokens to be written."""
        return sum(len(text) for text in sample["texts"])

    def modules(self, model: Any) -> nn.Module:
        """Create the piece counts and the store of kept batches."""
        return BackTranslations(count_pieces(Path(self.cfg.data), self.langs, len(self.dictionary)))

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of the sentences given their translations."""
        sources, symbols = self.sources(model, sample), self.symbols
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
        return sequence_loss(model, packed)

    def sources(self, model: Any, sample: dict[str, Any]) -> list[Int[np.ndarray, " _"]]:
        """Return the translation of each sentence, int64 (length,) without specials.

        Generated, or kept from an earlier use.
        """
        kept: dict[int, Any] = model.extras["umt"].kept
        key = key_of(sample)
        if model.training and key in kept:
            uses, written = kept.pop(key)
        else:
            uses, written = self.cfg.reuse, self.translations(model, sample, key)
        if model.training and uses > 1:
            kept[key] = uses - 1, written
            while len(kept) > self.cfg.pool:  # entries left by a batch that was split or skipped
                del kept[next(iter(kept))]
        return written

    def translations(self, model: Any, sample: dict[str, Any], key: int) -> list[Int[np.ndarray, " _"]]:
        """Translate the sentences of a batch with a dictionary in the first updates, then with the weights."""
        cfg = self.cfg
        state = model.extras["umt"]
        texts = [text[:-1] for text in sample["texts"]]
        langs, others = sample["langs"], sample["others"]
        if state.num_updates < cfg.word_by_word:
            written = [self._by_words(*row) for row in zip(texts, langs, others, strict=True)]
        else:
            seed = int(rng(cfg.seed, "umt", key).integers(1 << 31))
            own = state.own(cfg.own_share) if state.num_updates < cfg.own_pieces else None
            written = translate(model, texts, langs, others, self.symbols, self.search, seed, own)
        room = cfg.tokens_per_sample - 2
        return [x[:room] if len(x) else np.array([UNK]) for x in written]

    def _by_words(self, text: np.ndarray, lang: int, other: int) -> np.ndarray:
        assert self._processor is not None
        shown = self._processor.decode([int(i) - 1 for i in text if i >= FIRST_PIECE])
        translated = self._dictionaries[self.langs[lang], self.langs[other]](shown)
        return np.array(
            [UNK if i == 0 else i + 1 for i in self._processor.encode(translated)], dtype=np.int64
        )


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
    """Translate each text without gradient and return the best hypothesis.

    Args:
        own: pieces that each language may write, bool (num_langs, vocabulary); None for all.
    """
    translations: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * len(texts)
    groups = [range(len(texts))] if own is None else [
        [i for i, other in enumerate(others) if other == lang] for lang in sorted(set(others))
    ]  # fmt: skip
    search = replace(search, seed=seed)
    for rows in groups:
        pieces = None if own is None else own[others[rows[0]]]
        hypotheses_of = generate_all(
            model,
            [texts[i] for i in rows],
            [langs[i] for i in rows],
            [others[i] for i in rows],
            symbols,
            search,
            batch_tokens=BATCH_TOKENS,
            pieces=pieces,
        )
        for row, hypotheses in zip(rows, hypotheses_of, strict=True):
            translations[row] = hypotheses[0].tokens
    return translations


def key_of(sample: dict[str, Any]) -> int:
    """Return a key that identifies a batch: its epoch, sentences and directions."""
    digest = hashlib.blake2b(
        repr((sample["epoch"], sample["langs"], sample["others"])).encode(), digest_size=8
    )
    for text in sample["texts"]:
        digest.update(text.tobytes())
    return int.from_bytes(digest.digest()) >> 1


def count_pieces(data: Path, langs: list[str], size: int) -> Float32[Tensor, " langs {size}"]:
    """Count each piece in the training text of each language, float32 (num_langs, size)."""
    counts = torch.zeros(len(langs), size)
    for index, lang in enumerate(langs):
        if shards.is_there(data / lang / "train"):
            tokens = shards.open_shard(data / lang / "train").tokens[:SAMPLE]
            counts[index] = torch.from_numpy(np.bincount(tokens.astype(np.int64), minlength=size)[:size])
    counts[:, :FIRST_PIECE] = 0
    return counts

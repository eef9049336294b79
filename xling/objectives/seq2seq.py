"""Base of objectives with a decoder: the form of sequence pairs, datasets of monolingual sentences, and the loss.

Every source ends in ``</s> [lang]``, the token of its own language. The decoder starts with the token of the
language it writes, reads ``[lang] y`` and predicts ``y </s>`` (mBART's order). So one way of generating works
for models of all these objectives, and the token at the decoder's start selects the language of the output.
With ``model.lang_first`` sources are ``[lang] x </s>``, and the decoder reads ``</s> [lang] y`` (M2M-100's order).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xling.array_types import Int, Integer
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.sampling import alpha_shares
from xling.data import mixer
from xling.data.packing import Example, pack_seq2seq, sequence
from xling.data.symbols import Symbols
from xling.objectives.base import EOS, Loss, Objective
from xling.objectives.base_settings import TextConfig as TextConfig
from xling.objectives.dataset import DrawnDataset, Window
from xling.objectives.pairs import Pair, PairDataset, Side
from xling.text.files import pair_documents, shards


class Text(NamedTuple):
    """Sentences of one language, as an objective receives them.

    Attributes:
        tokens: int64 (length,), each sentence with its ``</s>``.
        lang: index into the task's languages.
        generator: random generator of the text.
    """

    tokens: Int[np.ndarray, " length"]
    lang: int
    generator: np.random.Generator


BACK = "back-translated "
BuildText = Callable[[Text], Example]


def example(
    source: Int[np.ndarray, " source"],
    target: Int[np.ndarray, " target"],
    src_lang: int,
    tgt_lang: int,
    symbols: Symbols,
    start: int = 0,
) -> Example:
    """Build an example from a source and a target sequence.

    Args:
        source: what the encoder reads, without its language token, (S - 1,), or (S,) if it has no language
            token.
        target: what is predicted, (T,); with ``lang_first`` the token of its language comes before it.
        src_lang, tgt_lang: indices of the languages.
        symbols: symbols of the model.
        start: position of the first prediction.

    Returns:
        Input of `xling.data.packing.pack_seq2seq`.
    """
    tokens, prompt = symbols.with_lang(source, src_lang), symbols.prompt(tgt_lang)
    end = [symbols.end(tgt_lang)] if symbols.documents else []
    target = np.concatenate([prompt[1:], target, end]).astype(target.dtype)
    return sequence(
        tokens,
        src_lang,
        prev_tokens=np.concatenate([prompt[:1], target[:-1]]),
        prev_positions=start + np.arange(len(target)),
        prev_langs=np.full(len(target), tgt_lang),
        target=target,
    )


class TextDataset(DrawnDataset):
    """Dataset of sentences or joined sentences of many languages mixed by alpha; other splits hold each once.

    Args:
        langs: languages of the task; those without monolingual text are skipped.
        name: name of the objective, part of its random key.
        max_tokens_of: maximum tokens of both sides for texts of given lengths.
        room: tokens of the longest text, 0 for ``tokens_per_sample`` - 1.
    """

    def __init__(
        self,
        cfg: Any,
        data: Path,
        split: str,
        langs: list[str],
        name: str,
        build: BuildText,
        max_tokens_of: Callable[[Int[np.ndarray, " texts"]], Int[np.ndarray, " texts"]],
        room: int = 0,
    ) -> None:
        self._build, self._max_tokens_of = build, max_tokens_of
        self._room = room or cfg.tokens_per_sample - 1
        there = [lang for lang in shards.list_languages(data) if lang in langs]
        if not there:
            raise UserError(
                f"no monolingual text in {data} for {', '.join(langs)}",
                fix="run xling binarize with corpora.LANG=FILE",
            )
        self._codes = [langs.index(lang) for lang in there]
        self._streams = {lang: shards.open_shard(data / lang / split) for lang in there}
        join = getattr(cfg, "join", False)  # a `TextConfig` says so
        cut = {lang: texts_of(shard, self._room, join) for lang, shard in self._streams.items()}
        if split == "train" and (empty := [lang for lang, (starts, _) in cut.items() if not len(starts)]):
            raise UserError(
                f"no training text in {data} for {', '.join(empty)}", fix="leave them out of langs="
            )
        self._starts = {lang: starts for lang, (starts, _) in cut.items()}
        self._lengths = {lang: lengths for lang, (_, lengths) in cut.items()}
        num_items = {lang: len(lengths) for lang, lengths in self._lengths.items()}
        num_tokens = {lang: int(lengths.sum()) for lang, lengths in self._lengths.items()}
        super().__init__(cfg, split, name, num_items, num_tokens)

    def tokens_of(self, draw: mixer.Draw) -> Integer[np.ndarray, " draws"]:
        """Return the tokens of the drawn texts, cut to the room."""
        return np.minimum(draw.of_items(self._lengths.values()), self._room)

    def example_tokens(self, num: Integer[np.ndarray, " draws"]) -> Integer[np.ndarray, " draws"]:
        """Return the tokens of both sides of examples; noise may leave fewer."""
        return self._max_tokens_of(num)

    def text(self, index: int) -> tuple[Int[np.ndarray, " length"], int]:
        """Return the tokens at ``index``, cut to the room with a ``</s>`` at the end, and their language."""
        which, item = self.drawn(index)
        lang = list(self._streams)[which]
        start, length = int(self._starts[lang][item]), int(self._lengths[lang][item])
        tokens = self._streams[lang].tokens[start : start + min(length, self._room)].astype(np.int64)
        tokens[-1] = EOS
        return tokens, self._codes[which]

    def __getitem__(self, index: int) -> Example:
        tokens, lang = self.text(index)
        return self._build(Text(tokens, lang, self.generator(index))) | {"id": np.array([index])}

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Concatenate sources and targets into a batch."""
        return pack_seq2seq(samples)


def texts_of(
    shard: shards.Shard, room: int, join: bool
) -> tuple[Int[np.ndarray, " texts"], Int[np.ndarray, " texts"]]:
    """Return first token and length of each text of a monolingual shard, int64 (num_texts,) each.

    A sentence is an item; an item with only ``</s>`` ends a document. If joined, a text is as many sentences
    of a document as fit into ``room``; a longer sentence is a text of its own and is cut when it is read.
    """
    sizes, starts = shard.sizes.astype(np.int64), shard.starts()
    if not join:
        return starts[sizes > 1], sizes[sizes > 1]
    firsts_and_lengths = []
    first = used = 0
    for start, size in zip([*starts.tolist(), 0], [*sizes.tolist(), 0], strict=True):
        ends = size <= 1
        if used and (ends or used + size > room):
            firsts_and_lengths.append((first, used))
            used = 0
        if not ends:
            first = start if not used else first
            used += size
    texts = np.array(firsts_and_lengths, dtype=np.int64).reshape(-1, 2)
    return texts[:, 0], texts[:, 1]


class TranslationDataset(PairDataset):
    """Dataset of pairs as source and target, each up to the longest sequence.

    Args:
        directions: ``src-tgt`` directions to train; empty for both of every pair.
        back_translated: binarised directory whose pairs are also trained, only in their own direction; empty
            for none.
        back_share: their share of the tokens of an epoch.
        tag: id that their sources begin with; None for no tag.
        join: make items of neighbouring pairs of a document, see `xling.text.files.pair_documents`.
    """

    def __init__(
        self,
        *args: Any,
        directions: str = "",
        back_translated: str = "",
        back_share: float = 0.5,
        tag: int | None = None,
        join: bool = False,
    ) -> None:
        self._join = join
        self._directions, self._tag = [d for d in directions.split(",") if d], tag
        self._back_share, self._back = back_share, Path(back_translated) if back_translated else None
        super().__init__(*args)

    def open_pairs(self, data: Path, langs: list[str]) -> dict[str, list[Side]]:
        """Open genuine pairs and, in training, back-translated ones; only the latter if their share is 1."""
        if self._back is None or self._split != "train":
            return self._joined(data, super().open_pairs(data, langs))
        sides = self._joined(data, super().open_pairs(data, langs)) if self._back_share < 1 else {}
        for pair in shards.list_pairs(self._back):
            if set(split_pair(pair)) <= set(langs):
                two = {pair: [self.side(self._back, pair, lang, langs) for lang in split_pair(pair)]}
                sides[BACK + pair] = self._joined(self._back, two)[pair]
        return sides

    def _joined(self, data: Path, pairs: dict[str, list[Side]]) -> dict[str, list[Side]]:
        """Return the sides of each pair, with blocks as items if pairs are joined."""
        if not self._join:
            return pairs
        blocks_of_pair, room = {}, self.room(self._cfg.tokens_per_sample)
        for pair, sides in pairs.items():
            firsts = pair_documents.read(data, pair, self._split)
            blocks = pair_documents.joined([shard for _, shard in sides], firsts, room)
            blocks_of_pair[pair] = [(lang, block) for (lang, _), block in zip(sides, blocks, strict=True)]
        return blocks_of_pair

    def epoch_counts(self) -> dict[str, int]:
        """Return the items per pair: each kind sampled by alpha, and both kinds by their shares."""
        items, tokens = self.num_items_of, self.num_tokens_of
        shares: dict[str, float] = {}
        for back, share in ((False, 1 - self._back_share), (True, self._back_share)):
            mine = {pair: num for pair, num in tokens.items() if pair.startswith(BACK) == back}
            if mine:
                whole = 1.0 if len(mine) == len(tokens) else share
                shares |= {p: whole * s for p, s in alpha_shares(mine, self._cfg.alpha).items()}
        return mixer.counts_of(shares, items, tokens)

    def room(self, tokens_per_sample: int) -> int:
        """Return the longest text: all tokens but the language token, a tag and the end of a block."""
        return tokens_per_sample - 1 - (self._tag is not None) - self._join

    def num_added_tokens(self, pair: str) -> int:
        """Count the language token, the end of a block, and the tag of a back-translated source."""
        return super().num_added_tokens(pair) + self._join + (self._tag is not None and pair.startswith(BACK))

    def pair(self, index: int, generator: np.random.Generator) -> Pair:
        """Return the two sentences, the source tagged if it is back-translated."""
        sentences = super().pair(index, generator)
        if self._tag is None or not list(self._sides)[self.drawn(index)[0]].startswith(BACK):
            return sentences
        return replace(sentences, src=np.concatenate([[self._tag], sentences.src]))

    def is_swapped(self, pair: str, generator: np.random.Generator) -> bool:
        """Decide whether to swap: at random if both directions are trained."""
        if pair.startswith(BACK):
            return False
        there = (pair in self._directions, "-".join(reversed(split_pair(pair))) in self._directions)
        if not self._directions or all(there):
            return bool(generator.random() < 0.5)
        return there[1]

    def sort_keys(self, window: Window) -> tuple[Integer[np.ndarray, " draws"], ...]:
        """Return the lengths of the second side and of the first, so that a batch has few different ones."""
        return tuple(
            np.minimum(
                window.draw.of_items(sides[side][1].sizes for sides in self._sides.values()), self._room
            )
            for side in (1, 0)
        )

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Concatenate sources and targets into a batch."""
        return pack_seq2seq(samples)


class Seq2SeqObjective(Objective):
    """Base class of objectives whose model has a decoder."""

    decoder = True

    @property
    def symbols(self) -> Symbols:
        """Special tokens and language tokens of the vocabulary."""
        order = (self.shape.source_lang, self.shape.lang_first) if self.shape is not None else ()
        return Symbols.of_size(len(self.dictionary), self.langs, *order)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of every token that the decoder predicts."""
        return sequence_loss(model, sample)


def sequence_loss(model: Any, sample: dict[str, Any], smoothing: float = 0.0, **how: Any) -> Loss:
    """Return the cross-entropy of the targets of a batch; logged without smoothing.

    ``how`` is passed to the model.
    """
    states = model(**sample["net_input"], **how)
    total, rows = model.loss(states, sample["target"], smoothing)
    return Loss(total, len(rows), rows, sample["target_langs"])


def both_sides(pair: Pair, symbols: Symbols) -> Example:
    """Build an example from a sentence and its translation."""
    return example(pair.src, pair.tgt, pair.src_lang, pair.tgt_lang, symbols)

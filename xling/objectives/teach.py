"""Teaching: both sides of a sentence pair learn what another encoder makes of the English side.

The teacher reads the English sentence in its own vocabulary. For the student, which reads each side alone, there are
two losses:

- ``sentence``: one minus the cosine of the student's mean state and the teacher's;
- ``words``: the states of a word after each layer against those of the English word, squared error divided by the
  variance of the teacher's states in the batch, mean over words and layers. The states of a word are the mean over its
  pieces. An English word learns from itself, a word of the other side from the word that it is linked to by the
  vectors of the static encoder ``links``. Student layer m of M learns from teacher layer round(m L / M).

Source: Reimers and Gurevych 2020 (sentences, both sides); for words our choice, near MMKD (Li et al. 2022), which
teaches aligned words as well. The cosine replaces their squared error, so that both losses have about the size 1 at
the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.core import languages
from xling.data.packing import Example, pack, sequence
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderModel
from xling.objectives.base import BOS, EOS, FIRST_PIECE, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.distill import Lesson, states_of
from xling.objectives.pairs import Pair, PairDataset
from xling.objectives.xlco import OVERHEAD, pooled
from xling.static.word_links import WordLinks
from xling.text import vocab
from xling.text.tokenizers.wordpiece import marked
from xling.text.words.of_pieces import PieceWords

SIDES = {"both": ("src", "tgt"), "target": ("tgt",)}
MAX_SPELT = 200_000
"""Words whose pieces are kept in memory; all are forgotten when there are more."""


class Reader:
    """Words of pieces, and the teacher's pieces of words.

    Args:
        names: the student's pieces by id, from id 0, with the mark of a start of a word.
        teacher: folder of the teacher, which is read when the first example is made.
    """

    def __init__(self, names: Sequence[str], teacher: Path) -> None:
        self._names, self._teacher = names, teacher
        self._spelt: dict[str, list[int]] = {}

    @cached_property
    def _processor(self) -> Any:
        return vocab.load_processor(self._teacher)

    @cached_property
    def _longest(self) -> int:
        return model_weights.max_positions(self._teacher)

    @cached_property
    def words(self) -> PieceWords:
        """Words of the student's pieces."""
        return PieceWords(self._names, FIRST_PIECE)

    def teacher_tokens(
        self, words: Sequence[str]
    ) -> tuple[Int[np.ndarray, " length"], Int[np.ndarray, " length"]]:
        """Return the teacher's tokens of a text and the word of each, -1 for the first and the last."""
        if len(self._spelt) > MAX_SPELT:
            self._spelt.clear()
        if missing := [word for word in dict.fromkeys(words) if word not in self._spelt]:
            self._spelt.update(zip(missing, self._processor.encode(missing), strict=True))
        spelt = [[number + 1 if number else 3 for number in self._spelt[word]] for word in words]
        tokens = [token for each in spelt for token in each][: self._longest - 2]
        word_of = [place for place, each in enumerate(spelt) for _ in each][: self._longest - 2]
        return np.array([BOS, *tokens, EOS]), np.array([-1, *word_of, -1])


class TeachDataset(PairDataset):
    """Dataset of pairs as two packed batches: ``student`` has both sides of each pair, ``teacher`` the source's.

    ``student_words`` and ``teacher_words`` are the words of tokens, numbered over the batch. ``links`` (K, 3) are a
    word of the student, the word of the teacher that it learns from, and its row.
    """

    def __init__(
        self, reader: Reader, aligner: WordLinks | None, cfg: Any, data: Path, split: str, langs: list[str]
    ) -> None:
        self._reader, self._aligner = reader, aligner
        super().__init__(cfg, data, split, langs, "teach", self.example, OVERHEAD)

    def open_pairs(self, data: Path, langs: list[str]) -> dict[str, list[Any]]:
        """Open the two sides of each pair that the teacher can read, the source's first."""
        source = langs.index(languages.canonical(self._cfg.source))
        opened = super().open_pairs(data, langs)
        return {
            pair: sorted(sides, key=lambda side: side[0] != source)
            for pair, sides in opened.items()
            if any(lang == source for lang, _ in sides)
        }

    def is_swapped(self, pair: str, generator: np.random.Generator) -> bool:
        """Never: the source comes first."""
        return False

    def example(self, pair: Pair, generator: np.random.Generator) -> Example:
        """Return the tokens of both sides and of the teacher, the words of each, and the links between them."""
        sides = [np.concatenate([[BOS], side]) for side in (pair.src, pair.tgt)]
        (src_words, src_of), (tgt_words, tgt_of) = map(self._reader.words.find, sides)
        teacher, teacher_of = self._reader.teacher_tokens(src_words)
        known = np.zeros(len(src_words), bool)
        known[teacher_of[teacher_of >= 0]] = True
        own = np.flatnonzero(known)
        links = np.zeros((0, 2), np.int64)
        if self._aligner is not None:
            links = self._aligner.between(src_words, tgt_words)
            links = links[known[links[:, 0]]]
        return {
            "src": sides[0],
            "tgt": sides[1],
            "teacher": teacher,
            "src_words": src_of,
            "tgt_words": tgt_of,
            "teacher_words": teacher_of,
            "src_links": np.stack([own, own], 1),
            "tgt_links": links[:, ::-1],
            "pair_langs": np.array([pair.src_lang, pair.tgt_lang]),
        }

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Pack both sides of every pair, and the teacher's texts; number words and rows over the batch."""
        ours, theirs, links = [], [], []
        num_words = num_teacher_words = 0
        sides = SIDES[self._cfg.sides]
        for place, sample in enumerate(samples):
            theirs.append(_sequence(sample["teacher"], place, sample["teacher_words"], num_teacher_words, 0))
            for side, key in enumerate(sides):
                row = len(sides) * place + side
                words = sample[f"{key}_words"]
                lang = int(sample["pair_langs"][side - len(sides)])
                ours.append(_sequence(sample[key], row, words, num_words, lang))
                linked = sample[f"{key}_links"] + [num_words, num_teacher_words]
                links.append(np.concatenate([linked, np.full((len(linked), 1), row)], 1))
                num_words += int(words.max(initial=-1)) + 1
            num_teacher_words += 1 + max(
                int(sample[key].max(initial=-1)) for key in ("teacher_words", "src_words")
            )
        student, teacher = pack(ours), pack(theirs)
        return {
            "student": student,
            "teacher": teacher,
            "num_words": (num_words, num_teacher_words),
            "links": torch.from_numpy(np.concatenate(links).astype(np.int64)),
            "id": torch.tensor([int(sample["id"][0]) for sample in samples]),
            "target_langs": torch.tensor(
                [int(lang) for s in samples for lang in s["pair_langs"][-len(sides) :]]
            ),
            "ntokens": student["ntokens"],
            "nsentences": len(samples),
        }


def _sequence(
    tokens: Int[np.ndarray, " length"], row: int, words: Int[np.ndarray, " length"], first: int, lang: int
) -> Example:
    """Return a sequence to pack; its ``chosen`` tokens are those of words, with the words' numbers as ``target``."""
    chosen = np.flatnonzero(words >= 0)
    return sequence(tokens, lang, id=np.array([row]), chosen=chosen, target=words[chosen] + first)


@objective("teach")
class Teach(Objective):
    """The teaching objective: sentences and words of all languages go where a teacher puts their English."""

    trial = Trial({"teacher": "{teacher}"}, changes=("context", "both sides"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        cfg, teacher = self.cfg, Path(self.cfg.teacher)
        names = self.dictionary.symbols
        if (data / vocab.WORDPIECE).is_file():
            names = [marked(name) for name in names]
        reader = Reader(names, teacher)
        aligner = WordLinks(Path(cfg.links), cfg.least) if cfg.links and cfg.words else None
        return TeachDataset(reader, aligner, cfg, data, split, self.langs)

    def modules(self, model: Any) -> nn.Module:
        """Load the teacher and create the projection, which is used where the widths differ."""
        return Lesson(model, model_weights.load_model(Path(self.cfg.teacher))[0])

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the weighted losses of each side of each pair."""
        cfg, lesson = self.cfg, model.extras["teach"]
        teacher: EncoderModel = lesson.teacher.to(sample["links"].device)
        ours, last = states_of(model, sample["student"]["net_input"])
        with torch.no_grad():
            theirs, wanted = states_of(teacher, sample["teacher"]["net_input"])
        widths_differ = lesson.projection.in_features != lesson.projection.out_features
        project = lesson.projection if widths_differ else nn.Identity()
        num_sides = len(SIDES[cfg.sides])
        rows = torch.zeros(len(sample["target_langs"]), device=last.device)
        if cfg.sentence:
            vectors = pooled(project(last), sample["student"], "mean")
            targets = pooled(wanted, sample["teacher"], "mean")
            cosines = F.cosine_similarity(vectors.float(), targets.float().repeat_interleave(num_sides, 0))
            rows = rows + cfg.sentence * (1 - cosines)
        if cfg.words:
            num = len(ours) - 1, len(theirs) - 1
            for m in range(1, num[0] + 1):
                errors = word_errors(project(ours[m]), theirs[round(m * num[1] / num[0])], sample)
                rows = rows + cfg.words / num[0] * errors
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])


def word_errors(
    student: Float[Tensor, "tokens dim"], teacher: Float[Tensor, "teacher_tokens dim"], sample: dict[str, Any]
) -> Float[Tensor, " rows"]:
    """Return the mean squared error of the linked words of each row, (num_rows,), as a share of the variance.

    The variance is that of the teacher's linked words around their mean; a row without links has no error.
    """
    mine, theirs, row = sample["links"].unbind(1)
    num_rows = len(sample["target_langs"])
    if not len(row):
        return student.float().sum() * torch.zeros(num_rows, device=student.device)
    num_words, num_teacher_words = sample["num_words"]
    ours = _of_words(student, sample["student"], num_words)[mine]
    wanted = _of_words(teacher, sample["teacher"], num_teacher_words)[theirs]
    variance = (wanted - wanted.mean(0)).square().mean().clamp_min(1e-6)
    errors = (ours - wanted).square().mean(1) / variance
    per_row = torch.zeros(2, num_rows, device=student.device)
    sums, counts = per_row.index_add(1, row, torch.stack([errors, torch.ones_like(errors)]))
    return sums / counts.clamp_min(1)


def _of_words(states: Tensor, packed: dict[str, Any], num: int) -> Float[Tensor, "{num} dim"]:
    """Return the mean state of each word, float32 (num, D); zeros for words without a token."""
    chosen = F.pad(states[packed["chosen"]].float(), (0, 1), value=1.0)  # the last column counts tokens
    sums = chosen.new_zeros(num, chosen.shape[1]).index_add(0, packed["target"], chosen)
    return sums[:, :-1] / sums[:, -1:].clamp_min(1)

"""Training of one static encoder for every language of an n-way corpus: ``xling pretrain static``.

It starts from latent vectors (`xling.static.latent`) or from another encoder and learns by contrast. Each
update draws rows and two languages of each row. Each text must identify its translation among the texts of
the other rows. The encoder is linear in its table, so the gradient of a table row is summed explicitly and
its step is that of Adagrad with one sum per row: an update only touches the rows of its words.

Sources: loss: Feng et al. 2022, Language-agnostic BERT sentence embedding, section 2 (in-batch negatives,
additive margin, both directions); step: Duchi et al. 2011, with one sum of squares per row as the rowwise
Adagrad of FBGEMM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings.config import to_dict
from xling.static.encoder_files import FREQUENT, fresh_table, load, save
from xling.static.latent import latent_table
from xling.static.settings import StaticTraining
from xling.static.vectors import StaticEncoder, unit, word_hash
from xling.text.files.nway import RowSet, open_rows, read_words

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64, UInt32

STAGE = "pretrain static"
WARMUP_UPDATES = 50
START_SCALE = 0.1
"""Root mean square that an initial table is scaled to."""
STEP_ROWS = 4096
"""Number of table rows whose gradients are summed at a time."""
Sides: TypeAlias = tuple[list[np.ndarray], list[np.ndarray]]
"""The words of the two texts of every row of an update, uint32 (num_words,) each."""


class Batches:
    """Pairs of texts by update number, independent of earlier updates.

    Args:
        sets: aligned rows.
        cfg: shares, rows, languages.
    """

    def __init__(self, sets: Sequence[RowSet], cfg: StaticTraining) -> None:
        self.cfg = cfg
        self.sets = [each for each in sets if each.ends.shape[0] > 1]
        self._lengths = [np.diff(each.ends, axis=1) for each in self.sets]
        self._usable = [np.flatnonzero((lengths > 0).sum(0) > 1) for lengths in self._lengths]
        if not any(len(rows) for rows in self._usable):
            raise UserError(
                f"data={cfg.data} has no row in two languages",
                "text of xling corpus links in at least two of the languages",
                "check langs=",
            )
        self._shares = self._row_shares()

    def _row_shares(self) -> np.ndarray:
        """Return the share of each set in the rows of an update."""
        sizes = np.array([len(rows) ** 0.5 for rows in self._usable])
        names = np.array([each.source for each in self.sets])
        shares = np.zeros(len(names))
        for name in dict.fromkeys(names.tolist()):
            here = names == name
            if total := sizes[here].sum():
                given = self.cfg.shares.get(name, 1 / max(1, len(set(names.tolist()))))
                shares[here] = given * sizes[here] / total
        if not (total := shares.sum()):
            raise UserError(
                f"shares={self.cfg.shares}",
                f"a share above 0 for one of {', '.join(sorted(set(names.tolist())))}",
            )
        return np.asarray(shares / total)

    def draw(self, update: int) -> Sides:
        """Draw the words of the two texts of every row of an update."""
        random, cfg = rng("static", cfg_seed := self.cfg.seed, update), self.cfg
        assert cfg_seed >= 0
        sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        counts = random.multinomial(cfg.rows, self._shares)
        for which, count in enumerate(counts.tolist()):
            if not count:
                continue
            rows, usable = self.sets[which], self._usable[which]
            first_rows = random.integers(len(usable), size=-(-count // cfg.run_of_rows))
            places = (first_rows[:, None] + np.arange(cfg.run_of_rows)).ravel()[:count]
            chosen = usable[places % len(usable)]
            order = random.random((count, len(rows.langs)))
            if "en" in rows.langs and len(rows.langs) > 2:
                order[random.random(count) < cfg.english, rows.langs.index("en")] = 2
            order[self._lengths[which][:, chosen].T == 0] = -1
            first, second = np.argsort(-order, axis=1)[:, :2].T
            swap = random.random(count) < 0.5
            for row, a, b, turned in zip(chosen, first, second, swap, strict=True):
                for side, column in enumerate((b, a) if turned else (a, b)):
                    sides[side].append(self._thinned(rows.text(column, row), random))
        return sides

    def _thinned(self, text: np.ndarray, random: np.random.Generator) -> np.ndarray:
        kept = text[random.random(len(text)) >= self.cfg.drop]
        return kept if len(kept) else text


class Trainer:
    """The table, its sums of squares, and the update step.

    Args:
        cfg: settings.
        hashes: uint32, features of all words.
        ends: int64 (num_words + 1), offsets of each word's features.
        weights: float32 (num_words,), weight of each word in a sentence.
        table: float32 (num_table_rows, dim), the initial table; default: a random one.
    """

    def __init__(
        self,
        cfg: StaticTraining,
        hashes: UInt32[np.ndarray, " features"],
        ends: Int64[np.ndarray, " ends"],
        weights: Float32[np.ndarray, " words"],
        table: Float32[Tensor, "rows dim"] | None = None,
    ) -> None:
        self.cfg, self._ends = cfg, ends
        self._rows = (hashes % np.uint32(1 << cfg.model.bits)).astype(np.int32)
        self._weights = torch.from_numpy(weights)
        if table is None:
            table = fresh_table(cfg.model, torch.Generator().manual_seed(cfg.seed))
        self.table: Tensor = table
        self.squares = torch.zeros(len(self.table))

    def update(self, sides: Sides, lr: float) -> float:
        """Make one step and return the loss."""
        texts = [*sides[0], *sides[1]]
        lengths = np.array([len(text) for text in texts])
        words, place = np.unique(np.concatenate(texts), return_inverse=True)
        rows, counts = self._features(words)
        scale = self._weights[torch.from_numpy(words.astype(np.int64))] / torch.from_numpy(counts)
        offsets = torch.from_numpy(np.cumsum(counts) - counts)
        vectors = F.embedding_bag(rows, self.table, offsets, mode="sum") * scale[:, None].float()
        vectors.requires_grad_()
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)
        pooled = F.embedding_bag(torch.from_numpy(place.astype(np.int64)), vectors, starts, mode="sum")
        first, second = unit(pooled).chunk(2)
        loss = contrast(first, second, self.cfg.temperature, self.cfg.margin)
        loss.backward()
        assert vectors.grad is not None
        with torch.no_grad():
            gradient = vectors.grad * (scale[:, None] * len(sides[0])).float()
            owner = np.repeat(np.arange(len(words)), counts)
            self._step(rows.numpy(), torch.from_numpy(owner), gradient, lr)
        return float(loss.detach())

    def _features(self, words: np.ndarray) -> tuple[Tensor, np.ndarray]:
        """Return the table rows of all features of ``words``, and the number of features of each word."""
        begin = self._ends[words]
        counts = self._ends[words + 1] - begin
        ends = np.cumsum(counts)
        index = np.arange(ends[-1]) + np.repeat(begin - (ends - counts), counts)
        return torch.from_numpy(self._rows[index].astype(np.int64)), counts

    def _step(self, rows: np.ndarray, owner: Tensor, gradient: Tensor, lr: float) -> None:
        """Sum the gradient of each table row and make its step, in chunks of rows that fit the cache.

        Args:
            rows: int64 (F,), the row of each feature.
            owner: int64 (F,), the word of each feature.
            gradient: float32 (num_words, dim), gradient of each feature of a word.
            lr: learning rate.
        """
        order = np.argsort(rows, kind="stable")
        owner, rows = owner[torch.from_numpy(order)], rows[order]
        begin = np.flatnonzero(np.diff(rows, prepend=-1))
        end = np.append(begin, len(rows))
        for start in range(0, len(begin), STEP_ROWS):
            part = begin[start : start + STEP_ROWS]
            words = owner[part[0] : end[start + len(part)]]
            total = F.embedding_bag(words, gradient, torch.from_numpy(part - part[0]), mode="sum")
            here = torch.from_numpy(rows[part])
            squares = self.squares[here] + torch.linalg.vector_norm(total, dim=1).pow(2) / total.shape[1]
            self.squares[here] = squares
            self.table.index_add_(0, here, total.mul_((-lr / (squares.sqrt() + 1e-6))[:, None]))


def contrast(
    a: Float32[Tensor, "rows dim"], b: Float32[Tensor, "rows dim"], temperature: float, margin: float
) -> Float32[Tensor, ""]:
    """Return the mean cross-entropy of identifying row i of the other side from row i, in both directions.

    Args:
        a: (R, D), rows of length 1.
        b: (R, D), rows of length 1.
        temperature: divisor of the similarities.
        margin: subtracted from the similarity of the correct row.

    Returns:
        a scalar.

    Source: Feng et al. 2022, equations 1 and 2.
    """
    scores = (a @ b.T - margin * torch.eye(len(a))) / temperature
    right = torch.arange(len(a))
    return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2


def run(cfg: StaticTraining) -> manifest.Manifest:
    """Train and publish; a killed run continues from its last saved state.

    Raises:
        UserError: ``data`` is not an n-way corpus, or has nothing to train on.
    """
    inputs = [cfg.data, *([cfg.start.encoder] if cfg.start.encoder else [])]
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return done
    sets, hashes, ends, frequency = open_rows(cfg.data)
    weights = (cfg.model.smooth / (cfg.model.smooth + frequency)).astype(np.float32)
    batches = Batches(sets, cfg)
    with manifest.publish(cfg.out, STAGE, cfg, inputs) as publication:
        table = None if _State.is_kept(cfg) else _start(cfg, sets, hashes, ends, weights)
        trainer = Trainer(cfg, hashes, ends, weights, table)
        publication.counts |= _train(cfg, trainer, batches)
        frequent = np.flatnonzero(weights < 1 - FREQUENT)
        words = read_words(cfg.data)
        share = {word_hash(words[i]): float(frequency[i]) for i in frequent}
        save(StaticEncoder(cfg.model, trainer.table, share), publication.path)
    _state_path(cfg).unlink(missing_ok=True)
    return manifest.read(cfg.out)


def _start(
    cfg: StaticTraining, sets: Sequence[RowSet], hashes: np.ndarray, ends: np.ndarray, weights: np.ndarray
) -> Tensor | None:
    """Return the table of an encoder, or the latent one scaled like a fresh one, or None for a fresh one.

    Raises:
        UserError: the encoder has another shape.
    """
    if cfg.start.encoder:
        encoder = load(cfg.start.encoder)
        if encoder.cfg != cfg.model:
            raise UserError(
                f"start.encoder={cfg.start.encoder} has {encoder.cfg}, and this training has {cfg.model}",
                "an encoder with the same model.* settings",
                "give those of the encoder, or train without start.encoder",
            )
        return encoder.table
    if not cfg.start.rounds:
        return None
    shape = (1 << cfg.model.bits, cfg.model.dim)
    table = latent_table(sets, hashes, ends, weights, shape, cfg.start, cfg.seed)
    used = table[table.abs().sum(1) > 0]
    return table.mul_(START_SCALE / used.pow(2).mean().sqrt().clamp_min(1e-9))


def _train(cfg: StaticTraining, trainer: Trainer, batches: Batches) -> dict[str, float]:
    """Run updates until the budget is used up."""
    state = _State(cfg, trainer)
    losses: list[float] = []
    total = cfg.updates - state.updates if cfg.updates else None
    with Progress(f"{STAGE} ({cfg.minutes:g} min)" if not total else STAGE, total, "updates") as progress:
        while (part := state.part()) < 1:
            lr = cfg.lr * (1 - part) * min(1.0, (state.updates + 1) / WARMUP_UPDATES)
            losses.append(trainer.update(batches.draw(state.updates), lr))
            state.advance()
            left = "" if total else f", {cfg.minutes * (1 - state.part()):.1f} min left"
            progress.update(note=f"loss {np.mean(losses[-100:]):.3f}{left}")
    return {"updates": state.updates, "train_minutes": round(state.seconds / 60, 2)} | {
        "loss": round(float(np.mean(losses[-100:])), 4) if losses else float("nan")
    }


class _State:
    """Progress of a training, stored on disk for the next attempt."""

    def __init__(self, cfg: StaticTraining, trainer: Trainer, clock: Callable[[], float] = time.monotonic):
        self.cfg, self.trainer, self._clock = cfg, trainer, clock
        self.updates, self.seconds = 0, 0.0
        if kept := self._kept(cfg):
            self.updates, self.seconds = kept["updates"], kept["seconds"]
            trainer.table, trainer.squares = kept["table"], kept["squares"]
        self._began = self._last = clock()
        self._saved = self._began

    @staticmethod
    def _kept(cfg: StaticTraining) -> dict[str, Any]:
        """Return the saved state of an attempt with the same settings and corpus, or an empty dictionary."""
        path = _state_path(cfg)
        kept = torch.load(path, weights_only=True) if path.is_file() else {}
        return kept if kept.get("key") == _key(cfg) else {}

    @classmethod
    def is_kept(cls, cfg: StaticTraining) -> bool:
        """Return whether there is a saved state to continue from."""
        return bool(cls._kept(cfg))

    def part(self) -> float:
        """Return the share of the budget that is used up."""
        if self.cfg.updates:
            return self.updates / self.cfg.updates
        if not self.cfg.minutes:
            return 1.0
        return min(1.0, self.seconds / (60 * self.cfg.minutes))

    def advance(self) -> None:
        """Count an update, and save if it is due."""
        now = self._clock()
        self.updates += 1
        self.seconds += now - self._last
        self._last = now
        if now - self._saved >= 60 * self.cfg.save_minutes:
            self._saved = now
            self.save()

    def save(self) -> None:
        """Write the state of the training; a killed process leaves the old file or the new one."""
        path = _state_path(self.cfg)
        temporary = path.with_suffix(".tmp")
        torch.save(
            {
                "key": _key(self.cfg),
                "updates": self.updates,
                "seconds": self.seconds,
                "table": self.trainer.table,
                "squares": self.trainer.squares,
            },
            temporary,
        )
        temporary.replace(path)


def _key(cfg: StaticTraining) -> str:
    start = manifest.digest(cfg.start.encoder) if cfg.start.encoder else ""
    return repr((to_dict(cfg), manifest.digest(cfg.data), start))


def _state_path(cfg: StaticTraining) -> Path:
    return cfg.out.with_name(f".{cfg.out.name}.state.pt")

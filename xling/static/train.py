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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float, Float32, Int, Int64, UInt32
from xling.core.errors import UserError
from xling.core.output import manifest, sealed
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings.config import to_dict
from xling.static.encoder_files import MIN_WEIGHT_REDUCTION, load_encoder, random_table, save_encoder
from xling.static.latent import latent_table
from xling.static.settings import StaticTraining
from xling.static.teacher import TeacherVectors, imitation_loss, teacher_files
from xling.static.vectors import StaticEncoder, learned_weights, unit_length, word_hash
from xling.text.files.nway import RowSet, open_rows, read_words

STAGE = "pretrain static"
WARMUP_UPDATES = 50
INITIAL_SCALE = 0.1
"""Root mean square that an initial table is scaled to."""
LATENT_DIM = 192
"""Most numbers of a vector that start from latent vectors, which took 14 GB for 512; the others start random."""
ROTATION_BATCHES = 8
"""Number of updates whose texts tell where the student's vectors are before it learns from a teacher."""
ROWS_PER_STEP = 4096
"""Number of table rows whose gradients are summed at a time."""
TextPairs: TypeAlias = tuple[list[np.ndarray], list[np.ndarray]]
"""The words of the two texts of every row of an update, uint32 (num_words,) each."""
Targets: TypeAlias = tuple[Tensor, Tensor]


class BatchSampler:
    """Pairs of texts by update number, independent of earlier updates."""

    def __init__(self, sets: Sequence[RowSet], cfg: StaticTraining) -> None:
        self.cfg = cfg
        self._set_numbers = [number for number, each in enumerate(sets) if each.ends.shape[0] > 1]
        self.sets = [sets[number] for number in self._set_numbers]
        self._text_lengths = [np.diff(each.ends, axis=1) for each in self.sets]
        self._usable_rows = [np.flatnonzero((lengths > 0).sum(0) > 1) for lengths in self._text_lengths]
        if not any(len(rows) for rows in self._usable_rows):
            raise UserError(
                f"data={cfg.data} has no row in two languages",
                "text of xling corpus links in at least two of the languages",
                "check langs=",
            )
        self._set_shares = self._compute_set_shares()

    def _compute_set_shares(self) -> np.ndarray:
        sizes = np.array([len(rows) ** 0.5 for rows in self._usable_rows])
        names = np.array([each.source for each in self.sets])
        shares = np.zeros(len(names))
        for name in dict.fromkeys(names.tolist()):
            is_source = names == name
            if total := sizes[is_source].sum():
                source_share = self.cfg.shares.get(name, 1 / max(1, len(set(names.tolist()))))
                shares[is_source] = source_share * sizes[is_source] / total
        if not (total := shares.sum()):
            raise UserError(
                f"shares={self.cfg.shares}",
                f"a share above 0 for one of {', '.join(sorted(set(names.tolist())))}",
            )
        return np.asarray(shares / total)

    def draw(self, update: int) -> tuple[TextPairs, Int[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
        """Draw the words of the two texts of every row of an update; return the set and the row of each pair too."""
        generator, cfg = rng("static", self.cfg.seed, update), self.cfg
        sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        drawn_sets: list[np.ndarray] = []
        drawn_rows: list[np.ndarray] = []
        counts = generator.multinomial(cfg.rows, self._set_shares)
        for set_index, count in enumerate(counts.tolist()):
            if not count:
                continue
            row_set, usable = self.sets[set_index], self._usable_rows[set_index]
            chosen_rows = usable[generator.integers(len(usable), size=count)]
            drawn_rows.append(chosen_rows)
            drawn_sets.append(np.full(count, self._set_numbers[set_index]))
            lang_order = generator.random((count, len(row_set.langs)))
            if "en" in row_set.langs and len(row_set.langs) > 2:
                lang_order[generator.random(count) < cfg.english, row_set.langs.index("en")] = 2
            lang_order[self._text_lengths[set_index][:, chosen_rows].T == 0] = -1
            first_columns, second_columns = np.argsort(-lang_order, axis=1)[:, :2].T
            is_swapped = generator.random(count) < 0.5
            for row, a, b, swapped in zip(
                chosen_rows, first_columns, second_columns, is_swapped, strict=True
            ):
                for side, column in enumerate((b, a) if swapped else (a, b)):
                    sides[side].append(self._drop_words(row_set.text(column, row), generator))
        return sides, np.concatenate(drawn_sets), np.concatenate(drawn_rows)

    def _drop_words(self, text: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        kept = text[generator.random(len(text)) >= self.cfg.drop]
        return kept if len(kept) else text


@dataclass(frozen=True)
class _Batch:
    """The words of the texts of an update.

    Attributes:
        vectors: (num_words, dim), the mean of the features of each word.
        weights: (num_words,), weight of each word in a text by its frequency.
        weight_direction: (dim,), see `learned_weights`.
        word_indices: the words of all texts, as rows of ``vectors``.
        text_starts: (num_texts,), offset of each text in ``word_indices``.
        table_rows: the table rows of all features of all words.
        counts: (num_words,), number of features of each word.
    """

    vectors: Tensor
    weights: Tensor
    weight_direction: Tensor
    word_indices: Tensor
    text_starts: Tensor
    table_rows: Tensor
    counts: np.ndarray

    def pool(self, of_words: Float[Tensor, "words dim"]) -> Float[Tensor, "texts dim"]:
        """Return the weighted sums over the words of each text, of length 1, (num_texts, size of a word's vector)."""
        weights = self.weights * learned_weights(of_words, self.weight_direction)
        weighted = of_words * weights[:, None]
        return unit_length(F.embedding_bag(self.word_indices, weighted, self.text_starts, mode="sum"))


class Trainer:
    """The table, its sums of squares, and the update step.

    Args:
        hash_ends: int64 (num_words + 1), offsets of each word's features.
        table: float32 (num_table_rows, dim), the initial table; default: a random one.
        weight_direction: float32 (dim,), the initial direction of `learned_weights`; default: zeros.
    """

    def __init__(
        self,
        cfg: StaticTraining,
        hashes: UInt32[np.ndarray, " features"],
        hash_ends: Int64[np.ndarray, " ends"],
        weights: Float32[np.ndarray, " words"],
        table: Float32[Tensor, "rows dim"] | None = None,
        weight_direction: Float32[Tensor, " dim"] | None = None,
    ) -> None:
        self.cfg, self._feature_ends = cfg, hash_ends
        self._feature_rows = (hashes % np.uint32(1 << cfg.model.bits)).astype(np.int32)
        self._word_weights = torch.from_numpy(weights)
        if table is None:
            table = random_table(cfg.model, torch.Generator().manual_seed(cfg.seed))
        self.table: Tensor = table
        self.squared_sums = torch.zeros(len(self.table))
        self.weight_direction = torch.zeros(cfg.model.dim) if weight_direction is None else weight_direction
        self.direction_squares = torch.zeros(())
        self.rotation: Tensor | None = None

    def update(self, sides: TextPairs, lr: float, targets: Targets | None = None) -> float:
        """Make one step and return the loss.

        Args:
            sides: the words of the texts.
            lr: learning rate.
            targets: the pairs that have a teacher's vector, (num_known,), and these vectors, (num_known, dim).
        """
        batch = self._read(sides)
        vectors, direction = batch.vectors.requires_grad_(), batch.weight_direction.requires_grad_()
        pooled = batch.pool(vectors)
        cfg = self.cfg
        beginnings = [pooled, *(unit_length(pooled[:, :length]) for length in cfg.lengths)]
        sides_of = [each.chunk(2) for each in beginnings]
        losses = [contrastive_loss(src, tgt, cfg.temperature, cfg.margin) for src, tgt in sides_of]
        loss = torch.stack(losses).mean()
        if targets is not None and len(targets[0]):
            loss = self._with_imitation(loss, pooled, *targets)
        loss.backward()
        assert vectors.grad is not None
        assert direction.grad is not None
        with torch.no_grad():
            self.direction_squares += direction.grad.pow(2).mean()
            self.weight_direction -= lr * direction.grad / (self.direction_squares.sqrt() + 1e-6)
            gradient = vectors.grad * (len(sides[0]) / torch.from_numpy(batch.counts)[:, None]).float()
            word_of_feature = np.repeat(np.arange(len(batch.counts)), batch.counts)
            self._adagrad_step(batch.table_rows.numpy(), torch.from_numpy(word_of_feature), gradient, lr)
        return float(loss.detach())

    def _read(self, sides: TextPairs) -> _Batch:
        texts = [*sides[0], *sides[1]]
        lengths = np.array([len(text) for text in texts])
        words, word_indices = np.unique(np.concatenate(texts), return_inverse=True)
        table_rows, counts = self._table_rows_of(words)
        feature_starts = torch.from_numpy(np.cumsum(counts) - counts)
        sums = F.embedding_bag(table_rows, self.table, feature_starts, mode="sum")
        return _Batch(
            vectors=sums / torch.from_numpy(counts)[:, None],
            weights=self._word_weights[torch.from_numpy(words.astype(np.int64))],
            weight_direction=self.weight_direction.clone(),
            word_indices=torch.from_numpy(word_indices.astype(np.int64)),
            text_starts=torch.from_numpy(np.cumsum(lengths) - lengths),
            table_rows=table_rows,
            counts=counts,
        )

    def fit_rotation(self, batches: Iterable[tuple[TextPairs, Targets]]) -> None:
        """Turn the teacher's vectors to where the student's are already: only their angles to each other count."""
        product = torch.zeros(1, 1)
        for sides, (known, teacher_vectors) in batches:
            batch = self._read(sides)
            own = torch.stack(batch.pool(batch.vectors).chunk(2)).mean(0)[known]
            product = product + teacher_vectors.T @ own
        if product.numel() > 1:
            left, _, right = torch.linalg.svd(product, full_matrices=False)
            self.rotation = left @ right

    def _with_imitation(self, loss: Tensor, sums: Tensor, known: Tensor, teacher_vectors: Tensor) -> Tensor:
        cfg = self.cfg.teacher
        target = teacher_vectors if self.rotation is None else teacher_vectors @ self.rotation
        losses = [
            imitation_loss(side[known], target, cfg.temperature, cfg.distance) for side in sums.chunk(2)
        ]
        return (1 - cfg.weight) * loss + cfg.weight * (losses[0] + losses[1]) / 2

    def _table_rows_of(self, words: np.ndarray) -> tuple[Tensor, np.ndarray]:
        begin = self._feature_ends[words]
        counts = self._feature_ends[words + 1] - begin
        ends = np.cumsum(counts)
        index = np.arange(ends[-1]) + np.repeat(begin - (ends - counts), counts)
        return torch.from_numpy(self._feature_rows[index].astype(np.int64)), counts

    def _adagrad_step(self, rows: np.ndarray, word_of_feature: Tensor, gradient: Tensor, lr: float) -> None:
        """Sum the gradient of each table row and make its step, in chunks of rows that fit the cache."""
        order = np.argsort(rows, kind="stable")
        word_of_feature, rows = word_of_feature[torch.from_numpy(order)], rows[order]
        row_starts = np.flatnonzero(np.diff(rows, prepend=-1))
        row_ends = np.append(row_starts, len(rows))
        for start in range(0, len(row_starts), ROWS_PER_STEP):
            block_starts = row_starts[start : start + ROWS_PER_STEP]
            words = word_of_feature[block_starts[0] : row_ends[start + len(block_starts)]]
            total = F.embedding_bag(
                words, gradient, torch.from_numpy(block_starts - block_starts[0]), mode="sum"
            )
            table_rows = torch.from_numpy(rows[block_starts])
            squared_sums = (
                self.squared_sums[table_rows] + torch.linalg.vector_norm(total, dim=1).pow(2) / total.shape[1]
            )
            self.squared_sums[table_rows] = squared_sums
            self.table.index_add_(0, table_rows, total.mul_((-lr / (squared_sums.sqrt() + 1e-6))[:, None]))


def contrastive_loss(
    a: Float32[Tensor, "rows dim"], b: Float32[Tensor, "rows dim"], temperature: float, margin: float
) -> Float32[Tensor, ""]:
    """Return the mean cross-entropy of identifying row i of the other side from row i, in both directions.

    Args:
        margin: subtracted from the similarity of the correct row.

    Returns:
        a scalar.

    Source: Feng et al. 2022, equations 1 and 2.
    """
    scores = (a @ b.T - margin * torch.eye(len(a))) / temperature
    targets = torch.arange(len(a))
    return (F.cross_entropy(scores, targets) + F.cross_entropy(scores.T, targets)) / 2


def run(cfg: StaticTraining) -> manifest.Manifest:
    """Train and publish; a killed run continues from its last saved state.

    Raises:
        UserError: ``data`` is not an n-way corpus, or has nothing to train on.
    """
    inputs = [cfg.data, *([cfg.start.encoder] if cfg.start.encoder else []), *teacher_files(cfg.teacher)]
    if published := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        if _state_path(cfg).is_file() and _TrainingState.has_saved(
            cfg
        ):  # it was killed after the publication
            _delete_state(cfg)
        return published
    sets, hashes, hash_ends, frequency = open_rows(cfg.data)
    weights = (cfg.model.smooth / (cfg.model.smooth + frequency)).astype(np.float32)
    batch_sampler = BatchSampler(sets, cfg)
    teacher = TeacherVectors(cfg.teacher, cfg.data, cfg.model.dim) if cfg.teacher.encoder else None
    with manifest.publish(cfg.out, STAGE, cfg, inputs) as publication:
        table, weight_direction = (
            (None, None)
            if _TrainingState.has_saved(cfg)
            else _initial_weights(cfg, sets, hashes, hash_ends, weights)
        )
        trainer = Trainer(cfg, hashes, hash_ends, weights, table, weight_direction)
        publication.counts |= _train(cfg, trainer, batch_sampler, teacher)
        publication.counts |= teacher.counts if teacher else {}
        frequent_words = np.flatnonzero(weights < 1 - MIN_WEIGHT_REDUCTION)
        words = read_words(cfg.data)
        share = {word_hash(words[i]): float(frequency[i]) for i in frequent_words}
        save_encoder(
            StaticEncoder(cfg.model, trainer.table, share, trainer.weight_direction), publication.path
        )
    _delete_state(cfg)
    return manifest.read(cfg.out)


def _initial_weights(
    cfg: StaticTraining,
    sets: Sequence[RowSet],
    hashes: np.ndarray,
    hash_ends: np.ndarray,
    weights: np.ndarray,
) -> tuple[Tensor | None, Tensor | None]:
    """Return the table and direction of an encoder, or a latent table scaled like a fresh one; None for fresh ones.

    Raises:
        UserError: the encoder has another shape.
    """
    if cfg.start.encoder:
        encoder = load_encoder(cfg.start.encoder)
        if replace(encoder.cfg, dim=cfg.model.dim) != cfg.model or encoder.dim > cfg.model.dim:
            raise UserError(
                f"start.encoder={cfg.start.encoder} has {encoder.cfg}, and this training has {cfg.model}",
                "an encoder with the same model.* settings, or with a smaller model.dim",
                "give those of the encoder, or train without start.encoder",
            )
        padding = (0, cfg.model.dim - encoder.dim)
        return _widen(encoder.table, cfg), F.pad(encoder.weight_direction, padding)
    if not cfg.start.rounds:
        return None, None
    shape = (1 << cfg.model.bits, min(cfg.model.dim, LATENT_DIM))
    table = latent_table(sets, hashes, hash_ends, weights, shape, cfg.start, cfg.seed)
    used_rows = table[table.abs().sum(1) > 0]
    return _widen(table.mul_(INITIAL_SCALE / used_rows.pow(2).mean().sqrt().clamp_min(1e-9)), cfg), None


def _widen(table: Tensor, cfg: StaticTraining) -> Tensor:
    """Return a table of ``model.dim`` columns: the given ones, then random ones of half their root mean square."""
    num_new = cfg.model.dim - table.shape[1]
    if not num_new:
        return table
    scale = float(table.pow(2).mean().sqrt()) / 2
    new = torch.randn(len(table), num_new, generator=torch.Generator().manual_seed(cfg.seed))
    return torch.cat([table, new.mul_(scale)], 1)


def _train(
    cfg: StaticTraining, trainer: Trainer, batch_sampler: BatchSampler, teacher: TeacherVectors | None
) -> dict[str, float]:
    """Run updates until the budget is used up."""
    training_state = _TrainingState(cfg, trainer)
    losses: list[float] = []
    if teacher and not training_state.updates:
        draws = (batch_sampler.draw(update) for update in range(ROTATION_BATCHES))
        trainer.fit_rotation((sides, teacher.of_rows(*of_rows)) for sides, *of_rows in draws)
    num_updates = cfg.updates - training_state.updates if cfg.updates else None
    with Progress(
        f"{STAGE} ({cfg.minutes:g} min)" if not num_updates else STAGE, num_updates, "updates"
    ) as progress:
        while (budget_share := training_state.budget_used()) < 1:
            lr = cfg.lr * (1 - budget_share) * min(1.0, (training_state.updates + 1) / WARMUP_UPDATES)
            sides, drawn_sets, drawn_rows = batch_sampler.draw(training_state.updates)
            targets = teacher.of_rows(drawn_sets, drawn_rows) if teacher else None
            losses.append(trainer.update(sides, lr, targets))
            training_state.advance()
            time_left = (
                "" if num_updates else f", {cfg.minutes * (1 - training_state.budget_used()):.1f} min left"
            )
            progress.update(note=f"loss {np.mean(losses[-100:]):.3f}{time_left}")
    return {"updates": training_state.updates, "train_minutes": round(training_state.seconds / 60, 2)} | {
        "loss": round(float(np.mean(losses[-100:])), 4) if losses else float("nan")
    }


class _TrainingState:
    """Progress of a training, stored on disk for the next attempt."""

    def __init__(self, cfg: StaticTraining, trainer: Trainer, clock: Callable[[], float] = time.monotonic):
        self.cfg, self.trainer, self._clock = cfg, trainer, clock
        self.updates, self.seconds = 0, 0.0
        if saved_state := self._load_saved(cfg):
            self.updates, self.seconds = saved_state["updates"], saved_state["seconds"]
            trainer.table, trainer.squared_sums = saved_state["table"], saved_state["squares"]
            trainer.weight_direction = saved_state["weight_direction"]
            trainer.direction_squares = saved_state["direction_squares"]
            trainer.rotation = saved_state["rotation"]
        self._started_at = self._last_update_at = clock()
        self._last_save_at = self._started_at

    @staticmethod
    def _load_saved(cfg: StaticTraining) -> dict[str, Any]:
        """Return the saved state of an attempt with the same settings and corpus, or an empty dictionary."""
        path = _state_path(cfg)
        saved_state = torch.load(path, weights_only=True) if sealed.is_good(path) else {}
        return saved_state if saved_state.get("key") == _settings_key(cfg) else {}

    @classmethod
    def has_saved(cls, cfg: StaticTraining) -> bool:
        """Return whether there is a saved state to continue from."""
        return bool(cls._load_saved(cfg))

    def budget_used(self) -> float:
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
        self.seconds += now - self._last_update_at
        self._last_update_at = now
        if now - self._last_save_at >= 60 * self.cfg.save_minutes:
            self._last_save_at = now
            self.save()

    def save(self) -> None:
        """Write the state of the training; a killed process leaves the old file or the new one."""
        state = {
            "key": _settings_key(self.cfg),
            "updates": self.updates,
            "seconds": self.seconds,
            "table": self.trainer.table,
            "squares": self.trainer.squared_sums,
            "weight_direction": self.trainer.weight_direction,
            "direction_squares": self.trainer.direction_squares,
            "rotation": self.trainer.rotation,
        }
        with sealed.writing(_state_path(self.cfg)) as file:
            torch.save(state, file)


def _settings_key(cfg: StaticTraining) -> str:
    start = manifest.digest(cfg.start.encoder) if cfg.start.encoder else ""
    teacher = [manifest.content_digest(path) for path in teacher_files(cfg.teacher)]
    return repr((to_dict(cfg), manifest.digest(cfg.data), start, teacher))


def _delete_state(cfg: StaticTraining) -> None:
    """Delete the saved state, and what a process that was killed while it saved has left."""
    path = _state_path(cfg)
    for each in (path, *path.parent.glob(f".{path.name}.*.tmp")):
        each.unlink(missing_ok=True)


def _state_path(cfg: StaticTraining) -> Path:
    return cfg.out.with_name(f".{cfg.out.name}.state.pt")

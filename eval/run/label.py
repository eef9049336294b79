"""``xling label``: a model labels text of another language, for a model of that language alone to learn from.

The bootstrapping of MultiFiT (Eisenschlos et al. 2019, section 4, "zero-shot"): a cross-lingual teacher, fine-tuned on
labels of the source language, labels the target language's unlabelled rows; a student that knows only the target
language learns these labels. What the paper leaves open, and what is done here:

- Which rows: the training rows of the language without their labels, all of them. ``text`` adds lines of other text: of
  each class the ``per_class`` that the teacher is surest of, so that a class which is rare in that text is not lost.
  Lines are taken that are as long as the rows (between their 5th and 95th percentile in characters). A line equal to a
  dev or test row is left out.
- Rows of a parallel suite are translations of rows that the teacher has learned, with their labels, so it would label
  them better than any new text. With ``folds`` a row is labelled by a teacher that has not learned its translation.
- How the student is chosen: the dev rows are labelled by the teacher, too. No label of the target language is read,
  except for ``gold`` in the manifest, which says how many training labels are right and changes nothing.
- Labels are hard, as in the paper, and each row counts once. With ``soft`` a row has the teacher's probability of every
  class beside its label, and the student learns these (Hinton et al. 2015, at temperature 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.sampling import rng
from xling.core.settings.values import Lang
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.protocols import select, source_rows, training_suite
from xling.eval.rows.suite import ROWS, Example, Suite, data_folder, load, row_line, scored_split, suites
from xling.eval.run import unused
from xling.eval.run.settings import EvalConfig
from xling.eval.systems import FitConfig, scores_of
from xling.text.files import corpus_reader
from xling.transfer.encode import PROBABILITIES_FIELD

STAGE = "label"
SHORTEST, LONGEST = 5, 95
DIGITS = 4
"""Digits of a written probability."""


@dataclass(frozen=True)
class LabelConfig:
    """Settings of ``xling label``.

    Attributes:
        suite: whose rows are labelled; texts with one class.
        checkpoint: the teacher: any model that ``xling eval`` scores, fine-tuned already or not.
        lang: language to label.
        out: directory to publish: a data folder for ``data=`` with rows of the suite in ``lang``. The teacher has
            labelled those of training and dev; test rows and those of ``source`` are as they were. ``text.txt`` has
            the training texts.
        data: folder of the suites' files; default: what XLING_DATA names.
        source: language of the rows that the teacher learns from.
        text: files, globs or corpus directories of further text in ``lang``, a paragraph a line.
        per_class: lines of ``text`` taken for each class.
        lines: of ``text`` that the teacher reads, drawn by ``seed``.
        folds: teachers for training rows whose ids are ids of source rows too: each learns all but one part of the
            source rows, and labels the rows with the ids of that part. 1: the one teacher labels all rows.
        soft: write the probabilities of the classes with each training row; a student learns them in place of labels.
        seed: of the teacher's fine-tuning and of what is drawn.
        fit: settings of the teacher's fine-tuning.
    """

    suite: str
    checkpoint: Path
    lang: Lang
    out: Path
    data: Path | None = None
    source: Lang = "en"
    text: tuple[str, ...] = ()
    per_class: int = 100
    lines: int = 20_000
    folds: int = 1
    soft: bool = False
    seed: int = 1
    fit: FitConfig = field(default_factory=FitConfig)


def run(cfg: LabelConfig) -> manifest.Manifest:
    """Fine-tune the teacher, label and publish.

    Raises:
        UserError: a suite of another kind, rows, text or the checkpoint are missing, or a number is out of range.
    """
    data, suite = data_folder(cfg.data), suites()[cfg.suite]
    cfg = replace(cfg, lang=languages.canonical(cfg.lang), source=languages.canonical(cfg.source))
    _check(cfg, suite)
    train_suite, paths = training_suite(suite), corpus_reader.resolve_files(cfg.text)
    test_split = scored_split(suite, cfg.lang, data)
    inputs = [cfg.checkpoint, *paths, *_row_files(cfg, suite, test_split, data), *cfg.fit.files()]
    settings = replace(cfg, out=Path())
    if done := manifest.up_to_date(cfg.out, STAGE, settings, inputs):
        return done
    unlabelled = load(train_suite, cfg.lang, "train", data)
    test = load(suite, cfg.lang, test_split, data)
    dev = (
        load(train_suite, cfg.lang, "dev", data)
        if (test_split != "dev" or train_suite is not suite) and train_suite.has(cfg.lang, "dev", data)
        else []
    )
    source_train, source_dev = source_rows(suite, train_suite, cfg.source, data)
    from xling.transfer.backend import pretrained_system  # imports torch

    system = pretrained_system(EvalConfig((), cfg.out, checkpoint=cfg.checkpoint))
    teacher = _Teacher(cfg, suite, system, source_train, source_dev)
    probabilities = _out_of_fold(cfg, suite, teacher, source_train, source_dev, unlabelled)
    train = [
        teacher.with_label(row, distribution, cfg.soft)
        for row, distribution in zip(unlabelled, probabilities, strict=True)
    ]
    metric = METRICS[suite.metric]
    accuracy = evaluate(metric, unlabelled, [row.label for row in train], cfg.lang)[0]
    text_rows = list(
        _most_confident(cfg, teacher, _lines_like(cfg, unlabelled, {*_texts(dev), *_texts(test)}))
    )
    with manifest.publish(cfg.out, STAGE, settings, inputs) as output:
        folder = output.path / ROWS / suite.name
        folder.mkdir(parents=True)
        rows_of = {
            "train": [*train, *text_rows],
            "dev": teacher.labelled(dev) if dev else [],
            test_split: test,
        }
        files = {f"{cfg.lang}.{split}.jsonl": rows for split, rows in rows_of.items()}
        files |= {f"{cfg.source}.{split}.jsonl": rows for split, rows in _of_source(cfg, suite, data).items()}
        for name, rows in files.items():
            if rows:
                (folder / name).write_text("".join(map(row_line, rows)), encoding="utf-8")
        unlabelled_text = "".join(f"{' '.join(text.split())}\n" for text in _texts(unlabelled))
        (output.path / "text.txt").write_text(unlabelled_text, encoding="utf-8")
        classes = [sum(row.label == name for row in [*train, *text_rows]) for name in teacher.labels]
        output.counts |= {"rows": len(train), "of_text": len(text_rows), f"gold_{metric.name}": accuracy}
        output.counts |= {"by_class": dict(zip(teacher.labels, classes, strict=True))}
    return manifest.read(cfg.out)


def _row_files(cfg: LabelConfig, suite: Suite, test_split: str, data: Path) -> list[Path]:
    """Return the existing files of all rows that are read: those of the source and of the language."""
    train_suite, files = training_suite(suite), []
    splits = [(cfg.source, split) for split in ("train", "dev", "test")]
    splits += [(cfg.lang, split) for split in ("train", "dev", test_split)]
    for lang, split in dict.fromkeys(splits):
        split_suite = suite if (lang, split) == (cfg.lang, test_split) else train_suite
        if split in split_suite.splits:
            files += [path for path in split_suite.paths(lang, split, data) if path.is_file()]
    return files


def _of_source(cfg: LabelConfig, suite: Suite, data: Path) -> dict[str, list[Example]]:
    train_suite = training_suite(suite)
    return {
        split: load(split_suite, cfg.source, split, data)
        for split_suite, splits in ((train_suite, ("train", "dev")), (suite, ("test",)))
        for split in splits
        if split in split_suite.splits and split_suite.has(cfg.source, split, data)
    }


def _check(cfg: LabelConfig, suite: Suite) -> None:
    fitting = [name for name in suites() if suites()[name].has_one_class]
    if not suite.has_one_class:
        raise UserError(
            f"suite={suite.name} has {suite.kind} rows", f"texts with one class: {', '.join(fitting)}"
        )
    unused.check_fit(cfg, [suite], [cfg.checkpoint])
    if cfg.fit.text_to_text:
        raise UserError("fit.text_to_text=true in xling label", "a teacher with a head", "leave it out")
    if cfg.lang == cfg.source:
        raise UserError(
            f"lang={cfg.lang} and source={cfg.source}", "two languages", "the source has labels already"
        )
    for name in ("per_class", "lines", "folds"):
        if getattr(cfg, name) < 1:
            raise UserError(
                f"{name}={getattr(cfg, name)}",
                "a whole number from 1",
                "folds=1 is one teacher" if name == "folds" else "for no further text leave out text=",
            )


class _Teacher:
    """A model that has learned the labels of the source language."""

    def __init__(
        self, cfg: LabelConfig, suite: Suite, system: Any, train: Sequence[Example], dev: Sequence[Example]
    ) -> None:
        self._suite, self._lang, self.system = suite, cfg.lang, system
        models = self.system.fit(suite, train, dev, cfg.source, replace(cfg.fit, seed=cfg.seed))
        scores = scores_of(self.system, models, suite, dev, cfg.source) if len(models) > 1 else []
        self._model = select("source-dev", models, self.system.average, {"source-dev": scores})
        self.labels: tuple[str, ...] = self._model.labels

    def probabilities(self, rows: Sequence[Example]) -> Float32[np.ndarray, "rows labels"]:
        """Return the probability of each label, float32 (rows, labels)."""
        probabilities: Float32[np.ndarray, "rows labels"] = self.system.probabilities(
            self._model, self._suite, rows, self._lang
        )
        return probabilities

    def labelled(self, rows: Sequence[Example]) -> list[Example]:
        """Return the rows with the most likely label in place of theirs."""
        return [
            self.with_label(row, each, False)
            for row, each in zip(rows, self.probabilities(rows), strict=True)
        ]

    def with_label(self, row: Example, probabilities: Float32[np.ndarray, " labels"], soft: bool) -> Example:
        """Return a row with the most likely label, with ``soft`` also with the probabilities."""
        label = self.labels[int(probabilities.argmax())]
        if not soft:
            return replace(row, label=label)
        rounded = np.round(probabilities.astype(float), DIGITS).tolist()
        distribution = {name: share for name, share in zip(self.labels, rounded, strict=True) if share}
        return replace(row, label=label, fields={**row.fields, PROBABILITIES_FIELD: distribution})


def _out_of_fold(
    cfg: LabelConfig,
    suite: Suite,
    teacher: _Teacher,
    source_train: Sequence[Example],
    source_dev: Sequence[Example],
    rows: Sequence[Example],
) -> Float32[np.ndarray, "rows labels"]:
    """Return the probability of each label, by a teacher that has not learned the source row with the row's id."""
    fold_of_id = (
        {row.id: number % cfg.folds for number, row in enumerate(source_train)} if cfg.folds > 1 else {}
    )
    fold_of = np.array([fold_of_id.get(row.id, -1) for row in rows])
    probabilities = np.zeros((len(rows), len(teacher.labels)), dtype=np.float32)
    for fold in dict.fromkeys(fold_of.tolist()):
        other_folds = [row for row in source_train if fold_of_id.get(row.id) != fold]
        fold_teacher = teacher if fold < 0 else _Teacher(cfg, suite, teacher.system, other_folds, source_dev)
        indices = np.flatnonzero(fold_of == fold)
        probabilities[indices] = fold_teacher.probabilities([rows[index] for index in indices.tolist()])
    return probabilities


def _texts(rows: Sequence[Example]) -> list[str]:
    return [row.fields["text"] for row in rows]


def _lines_like(cfg: LabelConfig, rows: Sequence[Example], test_texts: set[str]) -> list[Example]:
    """Return at most ``cfg.lines`` lines of ``cfg.text``, about as long as the rows and not in ``test_texts``."""
    low, high = np.percentile([len(text) for text in _texts(rows)], [SHORTEST, LONGEST])
    excluded = test_texts | set(_texts(rows))
    lines = dict.fromkeys(
        line.strip()
        for document in corpus_reader.read_documents(cfg.text)
        for line in document
        if low <= len(line.strip()) <= high
    )
    kept = [line for line in lines if line not in excluded]
    order = rng("label", cfg.seed, len(kept)).permutation(len(kept))[: cfg.lines]
    return [Example(f"text/{i}", {"text": kept[i]}, "") for i in sorted(order.tolist())]


def _most_confident(cfg: LabelConfig, teacher: _Teacher, rows: Sequence[Example]) -> Iterator[Example]:
    """Yield of each class the rows that the teacher is surest of, with its label."""
    if not rows:
        return
    probabilities = teacher.probabilities(rows)
    best, confidence = probabilities.argmax(1), probabilities.max(1)
    for number in range(len(teacher.labels)):
        indices = np.flatnonzero(best == number)
        for i in sorted(indices[np.argsort(-confidence[indices], kind="stable")][: cfg.per_class].tolist()):
            yield teacher.with_label(rows[i], probabilities[i], cfg.soft)

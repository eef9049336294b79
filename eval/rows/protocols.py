"""Protocols as data: which rows a system is trained on, which it is chosen on, and which it is scored on.

Sources: zero-shot, translate-train, translate-test and translate-train-all: Conneau et al. 2018 (XNLI),
    section 4;
few-shot with fixed seeds: Zhao et al. 2021, A closer look at few-shot crosslingual transfer.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.core.sampling import rng
from xling.eval.rows.suite import Example, Suite, languages_at, load, scored_split, suites

Translator = Callable[[Sequence[str], str, str], list[str]]
"""(texts, from language, into language) -> translations, for example our own model."""

HELD_OUT_SHARE = 10
MAX_HELD_OUT = 2000
LEAST_OF_OTHERS = 3
"""Rows of another suite are repeated until they are a third as many as the suite's own."""


@dataclass(frozen=True)
class TransferProtocol:
    """A protocol of cross-lingual transfer: which rows a system learns from, and in which language it is scored.

    Args:
        name: registry name.
        train_on: ``source`` rows, the ``target``'s own rows, ``both``, source rows and a few of the target's
            (``shots``), source rows ``translated`` into the target, or into every target
            (``translated_all``).
        test_on: the ``target``'s rows, or those rows ``translated`` into the source language.
        per_target: whether each target language has its own model.
        retrieval_metrics: further metrics of texts that look for their translations, by plain cosine. A protocol that
            has some is for these suites alone.
    """

    name: str
    train_on: Literal["source", "target", "both", "shots", "translated", "translated_all"]
    test_on: Literal["target", "translated"] = "target"
    per_target: bool = False
    retrieval_metrics: tuple[str, ...] = ()

    @property
    def translates(self) -> bool:
        """Whether training or scored rows are translated."""
        return self.test_on == "translated" or self.train_on in ("translated", "translated_all")


PROTOCOLS: Registry[TransferProtocol] = Registry("protocol")
for _protocol in (
    TransferProtocol("zero_shot", "source"),
    TransferProtocol("translate_test", "source", test_on="translated"),
    TransferProtocol("translate_train", "translated", per_target=True),
    TransferProtocol("translate_train_all", "translated_all"),
    TransferProtocol("few_shot", "shots", per_target=True),
    TransferProtocol("in_language", "target", per_target=True),
    TransferProtocol("mteb", "source", retrieval_metrics=("retrieval_f1",)),
    TransferProtocol("both_languages", "both", per_target=True),
):
    PROTOCOLS.add(_protocol.name, _protocol)

SELECT = ("source-dev", "last", "averaged", "oracle")
"""How a checkpoint is chosen: best on the source's dev rows, the last one, the mean of all weights, or best
on the
target's own dev rows, which is not a zero-shot result and is marked in every table."""


@dataclass(frozen=True)
class TrainingRows:
    """Training and dev rows of a model, the dev rows' language, and a description of their origin."""

    train: list[Example]
    dev: list[Example]
    lang: str
    origin: str


@dataclass(frozen=True)
class RowsConfig:
    """Choice of a suite's training rows.

    Args:
        split: ``train``, or ``dev`` if there are no training rows.
        limit: maximum number of rows per language, drawn once; 0 for all.
        shots: target rows per class for `few_shot`.
        seed: seed of the choice of shots.
        others: suites with the same labels, whose rows in the source language are trained on too
            (`rows_of_others`).
    """

    split: str = "train"
    limit: int = 0
    shots: int = 10
    seed: int = 1
    others: tuple[str, ...] = ()


def training_rows(
    suite: Suite,
    protocol: TransferProtocol,
    source: str,
    targets: Sequence[str],
    data: Path,
    config: RowsConfig = RowsConfig(),
    translate: Translator | None = None,
) -> TrainingRows:
    """Return the training and dev rows of one model.

    Args:
        targets: languages that this model will be scored in; one for protocols with a model per target.
        translate: for translate_train if no translated rows exist.

    Raises:
        UserError: training rows are missing, or the protocol does not fit the suite.
    """
    train_suite = training_suite(suite)
    lang = targets[0] if protocol.train_on == "target" else source
    _refuse_translated(train_suite, protocol, source, targets[0], config.split)
    train, dev = source_rows(suite, train_suite, lang, data, config.split)
    train = capped(train, config.limit)
    origins = [f"{train_suite.name}/{lang}"]
    for name in config.others:
        other_rows, split = rows_of_others(suite, name, source, data)
        train = train + other_rows * -(-len(train) // (LEAST_OF_OTHERS * len(other_rows)))
        origins.append(f"{name}/{source} {split}")
    if protocol.train_on in ("translated", "translated_all"):
        if config.split != "train":
            raise UserError(
                f"protocol={protocol.name} with train_split={config.split}", "translated training rows"
            )
        translated_into = [t for t in targets if t != source]
        translations = [
            capped(translated(train_suite, train, source, target, data, translate), config.limit)
            for target in translated_into
        ]
        rows = [row for piece in translations for row in piece]
        keep_source = protocol.train_on == "translated_all" or not translated_into
        train, origins = (train + rows, origins) if keep_source else (rows, [])
        origins += [f"{train_suite.name}/{target} translated" for target in translated_into]
    if protocol.train_on in ("shots", "both") and targets[0] != source:
        target_rows, origin = _target_rows(suite, protocol, targets[0], data, config)
        train = train + target_rows
        origins.append(origin)
    return TrainingRows(train, dev, lang, " + ".join(origins))


def _target_rows(
    suite: Suite, protocol: TransferProtocol, target: str, data: Path, config: RowsConfig
) -> tuple[list[Example], str]:
    """Return the rows in a target language that are learned beside those of the source, and their origin."""
    train_suite = training_suite(suite)
    rows, origin = load(train_suite, target, config.split, data), f"{train_suite.name}/{target}"
    if protocol.train_on == "shots":
        rows = choose_shots(suite, rows, config.shots, config.seed)
        origin = f"{len(rows)} rows of {origin}, {config.shots} per class, draw {config.seed}"
    else:
        rows = capped(rows, config.limit)
    return _with_language_ids(rows, target), origin


def _refuse_translated(
    train_suite: Suite, protocol: TransferProtocol, source: str, target: str, split: str
) -> None:
    """Refuse machine-translated rows where a protocol needs rows written in the target language.

    Raises:
        UserError: the training rows in that language are translations.
    """
    needs_native = protocol.train_on == "target" or (
        protocol.train_on in ("shots", "both") and target != source
    )
    if needs_native and split == "train" and train_suite.translated_train and target != "en":
        raise UserError(
            f"the training rows of {train_suite.name} in {target!r} are machine translations",
            "protocol=translate_train for them, or train_split=dev for rows written in the language",
            f"{protocol.name} needs rows written in the language",
        )


def training_suite(suite: Suite) -> Suite:
    """Return the suite whose training rows this one uses."""
    return suites()[suite.train_from] if suite.train_from else suite


def source_rows(
    suite: Suite, train_suite: Suite, lang: str, data: Path, split: str = "train"
) -> tuple[list[Example], list[Example]]:
    """Return training and dev rows in one language, never the scored ones.

    Dev rows that are scored (without test rows) are not used for selection: that would choose on the test. A tenth
    of the training rows, at most 2,000, is held out instead, for every suite that trains on them, so that all of
    them can share a model.
    """
    if suite.train_from and suite.has(lang, split, data) and not train_suite.has(lang, split, data):
        path = suite.paths(lang, split, data)[0]
        raise UserError(
            f"{suite.name} trains on {train_suite.name}, which has no {split} rows in {lang!r}",
            fix=f"to train on {path}, name the files: {suite.shape.own_setting}=TEST_FILES train.{lang}={path}, "
            "see docs/guides/own_test_set.md",
        )
    train = load(train_suite, lang, split, data)
    has_dev = split == "train" and "dev" in train_suite.splits and train_suite.has(lang, "dev", data)
    if has_dev and (not train_suite.scores_dev or scored_split(train_suite, lang, data) != "dev"):
        return train, load(train_suite, lang, "dev", data)
    return hold_out(train, "no dev rows but the scored ones" if has_dev else "no dev rows")


def rows_of_others(suite: Suite, name: str, lang: str, data: Path) -> tuple[list[Example], str]:
    """Return additional training rows from another suite, and their split: train, or dev if there is no train.

    Raises:
        UserError: the labels differ, or the rows are missing or scored.
    """
    other, train_suite = suites()[name], training_suite(suite)
    if _label_set(other) != _label_set(train_suite):
        fitting = ", ".join(
            known.name for known in suites().values() if _label_set(known) == _label_set(train_suite)
        )
        raise UserError(f"train_with={name} has other labels than {train_suite.name}", fitting)
    for split in ("train", "dev"):
        if split in other.splits and other.has(lang, split, data):
            if other is suite and split == scored_split(suite, lang, data):
                break
            return load(other, lang, split, data), split
    raise UserError(
        f"train_with={name}: no rows in {lang!r} to train on below {data}",
        f"training or dev rows that are not scored, at {'  '.join(other.patterns)}",
    )


def _label_set(suite: Suite) -> tuple[str, tuple[str, ...], str]:
    return suite.task, tuple(suite.labels), suite.scheme


def capped(rows: list[Example], limit: int) -> list[Example]:
    """At most ``limit`` rows, drawn by their place alone, in order; 0 for all."""
    if not 0 < limit < len(rows):
        return rows
    kept = rng("training rows", len(rows)).permutation(len(rows))[:limit]
    return [rows[i] for i in sorted(kept.tolist())]


def hold_out(rows: Sequence[Example], why: str = "no dev rows") -> tuple[list[Example], list[Example]]:
    """Split off a tenth of the rows, at most 2,000 and at least one, by position; return the rest and that part.

    Raises:
        UserError: there are fewer than two rows.
    """
    if len(rows) < 2:
        raise UserError(
            f"{len(rows)} training row{'s' * (len(rows) != 1)} and {why}: one row is held out to choose on",
            "two training rows or more",
            "add rows, or a file of dev rows",
        )
    order = rng("hold out", len(rows)).permutation(len(rows))
    held_out = set(order[: max(1, min(len(rows) // HELD_OUT_SHARE, MAX_HELD_OUT))].tolist())
    return [r for i, r in enumerate(rows) if i not in held_out], [
        r for i, r in enumerate(rows) if i in held_out
    ]


def choose_shots(suite: Suite, rows: Sequence[Example], k: int, seed: int) -> list[Example]:
    """At least ``k`` rows of every class, in a drawn order that depends on the seed alone.

    For tags the classes are the span types (or the tags): a row is taken while it holds a type that fewer
    than ``k`` taken rows have.

    Raises:
        UserError: a class has fewer than ``k`` rows.
    """
    counts: Counter[Hashable] = Counter()
    chosen = []
    for index in rng("shots", seed, len(rows)).permutation(len(rows)):
        classes = suite.shape.classes(suite, rows[index])
        if any(counts[c] < k for c in classes):
            counts.update(classes)
            chosen.append(rows[index])
    for label in suite.labels if not suite.shape.may_be_rare else ():
        if 0 < counts[label] < k:
            raise UserError(f"class {label!r} has {counts[label]} rows", f"at least k={k} rows", "lower k=")
    return chosen


def translated(
    train_suite: Suite,
    rows: Sequence[Example],
    source: str,
    target: str,
    data: Path,
    translate: Translator | None,
) -> list[Example]:
    """Return training rows in ``target``: existing translations, else our own translation of ``rows``.

    Raises:
        UserError: neither is there, or the kind's labels do not survive translation.
    """
    if train_suite.translated_train and train_suite.has(target, "train", data):
        return _with_language_ids(load(train_suite, target, "train", data), target)
    if translate is None:
        raise UserError(
            f"no training rows of {train_suite.name} translated into {target!r}",
            fix=f"put them at {train_suite.paths(target, 'train', data)[0]}, or give translator=",
        )
    return _with_language_ids(translate_rows(train_suite, rows, source, target, translate), target)


def translate_rows(
    suite: Suite, rows: Sequence[Example], source: str, target: str, translate: Translator
) -> list[Example]:
    """Return rows with translated texts and unchanged labels.

    Raises:
        UserError: the labels are places in the text (tags, answer spans), which move in translation.
    """
    return suite.shape.translated(rows, lambda texts: translate(texts, source, target))


def scored_rows(
    suite: Suite,
    protocol: TransferProtocol,
    source: str,
    lang: str,
    rows: Sequence[Example],
    translate: Translator | None = None,
) -> list[Example]:
    """Return the rows as the system sees them: unchanged, or translated into the source language.

    Raises:
        UserError: translate_test without a translation model.
    """
    if protocol.test_on == "target" or lang == source:
        return list(rows)
    if translate is None:
        raise UserError(
            "protocol translate_test needs a translation model", fix="translator=DIR of `xling finetune mt`"
        )
    return translate_rows(suite, rows, lang, source, translate)


def select(
    mode: str,
    checkpoints: Sequence[Any],
    average: Callable[[Sequence[Any]], Any],
    dev_scores: Mapping[str, Sequence[float]],
) -> Any:
    """Return the checkpoint chosen by a selection method; the earliest one on a tie.

    Args:
        mode: one of `SELECT`.
        checkpoints: in training order.
        average: makes one checkpoint of all.
        dev_scores: ``source-dev`` and ``oracle`` -> score of each checkpoint; only the one asked for is read.
    """
    assert mode in SELECT, mode
    if mode == "last" or len(checkpoints) == 1:
        return checkpoints[-1]
    if mode == "averaged":
        return average(checkpoints)
    scores = dev_scores[mode]
    assert len(scores) == len(checkpoints), (len(scores), len(checkpoints))
    return checkpoints[max(range(len(scores)), key=lambda i: (scores[i], -i))]


def _with_language_ids(rows: Sequence[Example], lang: str) -> list[Example]:
    """Return rows with ids that are unique together with the source's."""
    return [replace(row, id=f"{lang}/{row.id}") for row in rows]


def files_at(suite: Suite, splits: Iterable[str], data: Path, langs: Collection[str] = ()) -> list[Path]:
    """Return the files with the rows of some splits in the data folder, of ``langs`` or of all languages."""
    return [
        path
        for split in splits
        for lang in languages_at(suite, split, data)
        if not langs or lang in langs
        for path in suite.paths(lang, split, data)
    ]

"""Analysis of what each layer of a checkpoint shares between languages, beside random weights.

``xling analyse``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings.values import Lang, LangOrPair
from xling.eval import systems
from xling.eval.analysis import measures
from xling.eval.kinds import nearest_neighbours
from xling.eval.report.stage import glossary
from xling.eval.report.why import COLUMNS, MEASURES_BY_LAYER, MEASURES_OF_TWO, TABLES_FILE, Row, figures, mean
from xling.eval.rows.protocols import files_at
from xling.eval.rows.suite import Example, Suite, data_folder, languages_at, load, suites
from xling.eval.run import plan
from xling.eval.run.settings import EvalConfig
from xling.models.files import model_folder
from xling.pages import figure, page, tabular
from xling.pages.tabular import Table
from xling.text import vocab
from xling.text.words.features import hash_features, split_tokens
from xling.text.words.units import split_units

SYSTEMS = ("pretrained", "random")


@dataclass(frozen=True)
class AnalyseConfig:
    """Settings of ``xling analyse``.

    Args:
        checkpoint: a pre-trained model, or a fine-tuned one, which has no random control.
        suites: retrieval suites, and suites of texts with a class; the latter are probed.
        out: directory to publish: ``analysis.html``, ``analysis.json`` and one CSV file per table.
        data: folder of the suites' files; default: what XLING_DATA names.
        langs: only these languages; default: all that are available.
        source: language that probes are trained on and others are compared with.
        rows: number of texts of each language.
        pooling: pooling of sentence vectors: ``mean``, ``max`` or ``cls``.
        other: a second model, trained apart, that reads the texts of ``source``, while ``checkpoint`` reads those of
            each language: what the layers of the two have in common (Wu et al. 2020).
    """

    checkpoint: Path
    suites: tuple[str, ...] = field(default=())
    out: Path = Path("analysis")
    data: Path | None = None
    langs: tuple[LangOrPair, ...] = ()
    source: Lang = "en"
    rows: int = 400
    pooling: str = "mean"
    other: Path | None = None


@dataclass(frozen=True)
class AlignedTexts:
    """Texts of one language aligned with those of the source; classes if the suite has any."""

    lang: str
    texts: list[str]
    source: list[str]
    classes: list[str]


def run(cfg: AnalyseConfig) -> Answer:
    """Measure every layer of the model and of its random control, and publish tables and pictures.

    Raises:
        UserError: no suite is named, or one of another kind or without rows; no layers.
    """
    if not cfg.suites:
        raise UserError("no suite is named", "suites=tatoeba,sib200", "see xling eval list")
    data = data_folder(cfg.data)
    texts_of_suites = {name: list(_read_texts(suites()[name], cfg, data)) for name in cfg.suites}
    langs = (*cfg.langs, cfg.source) if cfg.langs else ()
    inputs = [cfg.checkpoint, *([cfg.other] if cfg.other else [])]
    inputs += [path for name in cfg.suites for path in files_at(suites()[name], ["test"], data, langs)]
    if not manifest.up_to_date(cfg.out, "analyse", cfg, inputs, replaceable=True):
        rows = [row for name, texts in texts_of_suites.items() for row in _by_layer(name, texts, cfg)]
        surface = {} if cfg.other else _surface_measures(texts_of_suites, cfg)
        tables = [_layer_table(rows), _language_table(rows, surface)]
        tables = [_two_table(rows)] if cfg.other else tables
        with manifest.publish(cfg.out, "analyse", cfg, inputs) as out:
            for name, text in _files(rows, tables).items():
                (out.path / name).write_text(text, encoding="utf-8")
            out.counts |= {"measures": len(rows)}
    analysis = json.loads((cfg.out / "analysis.json").read_text(encoding="utf-8"))
    text = (cfg.out / "analysis.md").read_text(encoding="utf-8")
    return Answer(f"{text.rstrip()}\n\nwritten: {cfg.out / 'analysis.html'}", analysis)


def _read_texts(suite: Suite, cfg: AnalyseConfig, data: Path) -> Iterator[AlignedTexts]:
    """Yield the languages of a suite, each paired with the source; items are paired by their ids."""
    if not suite.shape.analysed_as:
        raise UserError(
            f"{suite.name} has rows of kind {suite.kind}", "suites of retrieval or of texts with a class"
        )
    langs = [
        x for x in languages_at(suite, "test", data) if not cfg.langs or x in cfg.langs or x == cfg.source
    ]
    num = 0
    source_texts = (
        {r.id: r.fields["text"] for r in load(suite, cfg.source, "test", data)}
        if suite.shape.analysed_as == "classes"
        else {}
    )
    for lang in langs:
        rows = load(suite, lang, "test", data)
        if suite.shape.analysed_as == "pairs":
            if plan.sides(suite, lang)[1] != cfg.source:
                continue
            rows = _spread_rows(rows, cfg.rows)
            yield AlignedTexts(
                lang, [r.fields["text_a"] for r in rows], [r.fields["text_b"] for r in rows], []
            )
        else:
            rows = _spread_rows([r for r in rows if r.id in source_texts], cfg.rows)
            texts, others = [r.fields["text"] for r in rows], [source_texts[r.id] for r in rows]
            yield AlignedTexts(lang, texts, others, [r.label for r in rows])
        num += 1
    if not num:
        raise UserError(
            f"no test rows of {suite.name} beside {cfg.source} below {data}", fix="see xling eval list"
        )


def _spread_rows(rows: Sequence[Example], max_rows: int) -> list[Example]:
    """At most so many rows, from all parts of a file: it may be sorted by topic."""
    positions = np.linspace(0, len(rows), min(max_rows, len(rows)), endpoint=False).astype(int)
    return [rows[place] for place in positions.tolist()]


def _by_layer(name: str, texts: Sequence[AlignedTexts], cfg: AnalyseConfig) -> Iterator[Row]:
    settings = EvalConfig(cfg.suites, cfg.out, checkpoint=cfg.checkpoint)
    tuned = any(model_folder.has_head(path) for path in (cfg.checkpoint, cfg.other) if path)
    for system in SYSTEMS[:1] if tuned else SYSTEMS:
        model: Any = systems.build(system, settings)
        other: Any = systems.build(system, replace(settings, checkpoint=cfg.other)) if cfg.other else model
        if cfg.other:
            if not all(hasattr(each, "control_seed") for each in (model, other)):
                raise UserError("a static encoder with other=", "two Transformers, see xling pretrain")
            other.control_seed = 2  # else random weights of one shape would be the same in both
        layers, theirs = list(_layers_of(model, cfg)), list(_layers_of(other, cfg))
        if layers != theirs:
            raise UserError(
                f"{len(layers) - 1} layers in {cfg.checkpoint} and {len(theirs) - 1} in {cfg.other}",
                "two models of as many layers",
            )
        for layer in layers:
            vectors = {t.lang: model.embed(t.texts, t.lang, layer, cfg.pooling) for t in texts}
            sources = {t.lang: other.embed(t.source, cfg.source, layer, cfg.pooling) for t in texts}
            measured = (
                _measure_two(vectors, sources, cfg.source)
                if cfg.other
                else _measure_layer(texts, vectors, sources, cfg.source)
            )
            for lang, measure, value in measured:
                yield system, name, layer, lang, measure, 100 * value


def _layers_of(model: systems.Backend, cfg: AnalyseConfig) -> Iterator[int]:
    """Yield layers from 0; a model raises an error when it has no more, and one at layer 0 is the user's."""
    for layer in range(1000):
        try:
            model.embed(["a"], cfg.source, layer, cfg.pooling)
        except UserError:
            if not layer:
                raise
            return
        yield layer


Vectors = Mapping[str, Any]


def _measure_two(vectors: Vectors, sources: Vectors, source: str) -> Iterator[tuple[str, str, float]]:
    """Yield language, measure and value from 0 to 1 of one layer of two models.

    The rotation is learned on every second row, and retrieval is tried on the others, before and after it. CKA of
    rows that are no translations says how much of it comes from few rows and many units alone.

    Source: Wu et al. 2020, sections 4 (rotation) and 5 (CKA).
    """
    for lang, ours in vectors.items():
        theirs, where = sources[lang], "" if lang != source else " of the source"
        yield lang, "cka" + where, measures.linear_cka(ours, theirs)
        others = np.roll(theirs, len(theirs) // 2, axis=0)
        yield lang, "cka of other rows" + where, measures.linear_cka(ours, others)
        mean, their_mean = ours[::2].mean(axis=0), theirs[::2].mean(axis=0)
        turn = measures.rotation(ours[::2] - mean, theirs[::2] - their_mean)
        turned = (ours[1::2] - mean) @ turn
        yield lang, "retrieval after rotation" + where, _share_found(turned, theirs[1::2] - their_mean)
        if ours.shape == theirs.shape:
            yield lang, "retrieval" + where, _share_found(ours[1::2], theirs[1::2])


def _share_found(vectors: np.ndarray, source_vectors: np.ndarray) -> float:
    """Return the share of rows whose nearest row of the source is their own."""
    hits = nearest_neighbours.nearest_rows(vectors, source_vectors, "cosine") == np.arange(len(vectors))
    return float(hits.mean())


def _measure_layer(
    texts: Sequence[AlignedTexts], vectors: Vectors, sources: Vectors, source: str
) -> Iterator[tuple[str, str, float]]:
    """Yield language, measure and value from 0 to 1 of one layer."""
    overall_mean = np.vstack(list(vectors.values())).mean(axis=0)
    classifiers: dict[tuple[str, ...], Any] = {}
    for t in texts:
        vectors_of_lang, source_vectors = vectors[t.lang], sources[t.lang]
        if t.lang != source:
            yield t.lang, "retrieval", _share_found(vectors_of_lang, source_vectors)
            yield t.lang, "cka", measures.linear_cka(vectors_of_lang, source_vectors)
            units = (measures.strongest_units(x, overall_mean) for x in (vectors_of_lang, source_vectors))
            yield t.lang, "units shared", measures.jaccard(*units)
        if t.classes:
            where = "" if t.lang != source else " of the source"
            yield from _probe(t, vectors_of_lang, source_vectors, where)
            yield (
                t.lang,
                "calibration error" + where,
                _miscalibration(t, vectors_of_lang, source_vectors, classifiers),
            )
    if len(vectors) > 1:
        yield "all", "identity", measures.language_identity(vectors, centred=False)
        yield "all", "identity without the mean", measures.language_identity(vectors, centred=True)


def _probe(
    t: AlignedTexts, vectors: Any, source_vectors: Any, suffix: str
) -> Iterator[tuple[str, str, float]]:
    """Train a probe on every second row of the source, and test it on a language: on other rows, and on the same.

    Nothing is known of the control task but the items that it was learned on. So both tasks are tried on these, in
    another language: a difference of the two then comes from the classes alone.
    """
    names = sorted(set(t.classes))
    classes = np.array([names.index(x) for x in t.classes], dtype=np.int64)
    control = measures.control_labels(t.source, classes)
    answers = measures.probe(source_vectors[::2], classes[::2], vectors)
    yield t.lang, "probe" + suffix, float((answers == classes)[1::2].mean())
    yield t.lang, "probe, learned items" + suffix, float((answers == classes)[::2].mean())
    answers = measures.probe(source_vectors[::2], control[::2], vectors[::2])
    yield t.lang, "control task" + suffix, float((answers == control[::2]).mean())


def _miscalibration(
    t: AlignedTexts, vectors: Any, source_vectors: Any, classifiers: dict[tuple[str, ...], Any]
) -> float:
    """Return the calibration error of a language, by a classifier learned like the probe.

    ``classifiers`` keeps them by the texts that they learned: those of the source are the same for most languages.
    """
    names = sorted(set(t.classes))
    classes = np.array([names.index(x) for x in t.classes], dtype=np.int64)
    learned_texts = tuple(t.source[::2])
    if learned_texts not in classifiers:
        learned_classes = np.unique(classes[::2])
        classifiers[learned_texts] = (
            learned_classes,
            measures.classifier(source_vectors[::2], classes[::2]) if len(learned_classes) > 1 else None,
        )
    learned_classes, probabilities = classifiers[learned_texts]
    if probabilities is None:
        return 0.0
    class_probabilities = np.zeros((len(vectors[1::2]), len(names)))
    class_probabilities[:, learned_classes] = probabilities(vectors[1::2])
    return measures.calibration_error(class_probabilities, classes[1::2])


def _surface_measures(
    texts_of_suites: Mapping[str, Sequence[AlignedTexts]], cfg: AnalyseConfig
) -> dict[str, tuple[float, float]]:
    """Language -> sub-words a word, or a character of a script without spaces; share of its kinds in the source's."""
    pieces_of = _pieces_of(cfg.checkpoint)
    texts_of_langs: dict[str, list[str]] = {}
    for texts in texts_of_suites.values():
        for t in texts:
            texts_of_langs.setdefault(t.lang, []).extend(t.texts)
            texts_of_langs.setdefault(cfg.source, []).extend(t.source)
    pieces_of_langs = {
        lang: {piece for text in texts for piece in pieces_of(text)} for lang, texts in texts_of_langs.items()
    }
    measured = {}
    for lang, read_texts in texts_of_langs.items():
        words = sum(len(split_units(text)) for text in read_texts) or 1
        pieces = sum(len(pieces_of(text)) for text in read_texts)
        measured[lang] = (
            pieces / words,
            100 * measures.jaccard(pieces_of_langs[lang], pieces_of_langs[cfg.source]),
        )
    return measured


def _pieces_of(checkpoint: Path) -> Callable[[str], Sequence[int]]:
    """Return what splits a text into the units that a model has vectors for; of a static encoder, features of words."""
    from xling.static.encoder_files import is_static_encoder  # imports torch

    if is_static_encoder(checkpoint):
        return lambda text: [
            feature for token in split_tokens(text) for feature in hash_features(token).tolist()
        ]
    encode: Callable[[str], Sequence[int]] = vocab.load_processor(checkpoint).encode
    return encode


def _layer_table(rows: Sequence[Row]) -> Table:
    """Return means over languages; selectivity is the probe's gain over the control task on the same items."""
    table = []
    for system, suite, layer in dict.fromkeys((r[0], r[1], r[2]) for r in rows):
        values = [mean(rows, system, suite, layer, measure) for measure in MEASURES_BY_LAYER]
        chosen = None if values[-2] is None or values[-1] is None else values[-2] - values[-1]
        table.append((suite, system, layer, *values, chosen))
    percents = [(measure, ".1f") for measure in (*MEASURES_BY_LAYER, "selectivity")]
    columns = (("suite", ""), ("system", ""), ("layer", "d"), *percents)
    notes = (
        "Percent, means over the languages other than the source; random: the same shape with fresh weights.",
        "probe: a linear classifier learned on every second row of the source, tried on the others of a language; "
        "learned items: on the same ones, in the other language. control task: the same items with classes drawn by a "
        "hash, as frequent as the true ones: what is right there was learned by heart. selectivity: the probe on "
        "learned items less the control task.",
        "calibration error: mean distance of confidence and accuracy of a logistic regression learned like the probe, "
        "in ten bins of confidence; the lower the better.",
    )
    return Table("layers", "By layer", columns, tuple(table), notes)


def _two_table(rows: Sequence[Row]) -> Table:
    """Return results of two models by suite, language, system and layer."""
    values = {(*row[:4], row[4].removesuffix(" of the source")): row[5] for row in rows}
    keys = dict.fromkeys((row[1], row[3], row[0], row[2]) for row in rows)
    table = [
        (suite, lang, system, layer, *(values.get((system, suite, layer, lang, m)) for m in MEASURES_OF_TWO))
        for suite, lang, system, layer in keys
    ]
    percents = [(measure, ".1f") for measure in MEASURES_OF_TWO]
    columns = (("suite", ""), ("language", ""), ("system", ""), ("layer", "d"), *percents)
    notes = (
        "Percent. The first model reads the texts of the language, the second those of the source; random: both with "
        "fresh weights, not the same. retrieval: the nearest text of the source is the translation; the rotation is "
        "learned on every second row and tried on the others. cka of other rows: each text beside the translation of "
        "another.",
    )
    return Table("two_models", "Two models by layer", columns, tuple(table), notes)


def _best_layer_value(rows: Sequence[Row], lang: str, measure: str) -> float | None:
    return max((r[5] for r in rows if (r[0], r[3], r[4]) == (SYSTEMS[0], lang, measure)), default=None)


def _correlation_with_best(rows: Sequence[Row], lang: str, measure: str, best_by: str) -> float | None:
    """Return a measure of the model at the layer and suite where ``best_by`` is highest."""
    model_rows = [r for r in rows if (r[0], r[3]) == (SYSTEMS[0], lang)]
    places = [(r[5], r[1], r[2]) for r in model_rows if r[4] == best_by]
    values = [r[5] for r in model_rows if places and (r[1], r[2], r[4]) == (*max(places)[1:], measure)]
    return values[0] if values else None


def _language_table(rows: Sequence[Row], surface: Mapping[str, tuple[float, float]]) -> Table:
    """Return results by language, at the best layer of the model."""
    shown_measures = ("retrieval", "cka", "units shared", "probe")
    beside = {lang: _correlation_with_best(rows, lang, "calibration error", "probe") for lang in surface}
    table = [
        (lang, *surface[lang], *(_best_layer_value(rows, lang, m) for m in shown_measures), beside[lang])
        for lang in sorted(surface)
    ]
    percents = [(name, ".1f") for name in ("vocabulary shared %", *shown_measures, "calibration error")]
    columns = (("language", ""), ("fertility", ".2f"), *percents)
    note = "Measures at the best layer of the model; calibration error at the layer of the best probe."
    return Table("languages", "By language", columns, tuple(table), (note,))


def _files(rows: Sequence[Row], tables: Sequence[Table]) -> dict[str, str]:
    title = "Why does it transfer?"
    pictures = figure.arrange_figures(figures(rows))
    body = [pictures, *map(tabular.html_table, tables)]
    body = [f"<h1>{title}</h1>", glossary("\n".join(body)), *body]
    told = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return {
        "analysis.html": page.html_document(title, "\n".join(body)),
        "analysis.md": f"# {title}\n\n" + "\n".join(map(tabular.to_markdown, tables)),
        "analysis.json": json.dumps(told, ensure_ascii=False, indent=1) + "\n",
        TABLES_FILE: json.dumps([asdict(s) for s in tables], ensure_ascii=False) + "\n",
        **{f"{s.name}.csv": tabular.to_csv(s) for s in tables},
    }

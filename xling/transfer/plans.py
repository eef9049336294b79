"""Plans of ``xling finetune mt`` and ``xling umt``, made and checked without torch: training, inputs, test sets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.models import parts
from xling.models import shape as shapes
from xling.models.files import model_folder
from xling.models.model_setting import DECODER
from xling.models.shape import ModelConfig
from xling.text import word_translation
from xling.text.files import corpus_reader, shards
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.training import checks, trackers
from xling.training.plan import phases_of
from xling.training.settings import PretrainConfig
from xling.transfer.settings import MtConfig, UmtConfig

TranslationConfig = TypeVar("TranslationConfig", MtConfig, UmtConfig)
LinePair = tuple[list[str], list[str]]
TestSets = Mapping[str, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True)
class TranslationPlan(Generic[TranslationConfig]):
    """The parts of one of the two stages that the other does not share.

    Attributes:
        stage: its name, in manifests.
        inputs: returns the paths that it reads, in the order of the manifest.
        sets: returns setting -> ``src-tgt`` -> two line-aligned files; those of ``test`` are scored.
        pretraining: returns the settings of the training that publishes into a folder.
    """

    stage: str
    inputs: Callable[[TranslationConfig], list[Path]]
    sets: Callable[[TranslationConfig], TestSets]
    pretraining: Callable[[TranslationConfig, Path], PretrainConfig]


def check(cfg: MtConfig | UmtConfig) -> None:
    """Check the settings of a stage and what they name.

    Raises:
        UserError: as the ``run`` of the stage, or the output is finished and was made with other settings.
    """
    trackers.check(cfg.log)
    plan = PLANS[type(cfg)]
    sets = plan.sets(cfg)
    check_files(sets)
    if manifest.is_finished(Path(cfg.out), plan.stage, replace(cfg, log="none"), plan.inputs(cfg)):
        return
    for pair, paths in cfg.test.items():
        read_aligned(pair, Path(paths[0]), Path(paths[1]))
    training = plan.pretraining(cfg, Path(cfg.out))
    check_langs(sets, training.langs)
    _, phases = phases_of(training, training.train)
    checks.check_settings(training, phases)


def list_mt_inputs(cfg: MtConfig) -> list[Path]:
    """Return all that ``xling finetune mt`` reads, in the order of the manifest."""
    return _paths(cfg.data, *_starts(cfg), cfg.back_translated, *test_files(cfg.test))


def list_umt_inputs(cfg: UmtConfig) -> list[Path]:
    """Return all that ``xling umt`` reads, in the order of the manifest."""
    words = word_translation.input_paths(cfg.back.get("dictionaries", ""))
    return _paths(cfg.data, *_starts(cfg), cfg.parallel_data, *test_files(cfg.oracle, cfg.test), *words)


def _starts(cfg: MtConfig | UmtConfig) -> tuple[str, ...]:
    return cfg.checkpoint, cfg.encoder, cfg.decoder, *parts.frozen_encoders(cfg.model).values()


def _paths(*names: str | Path) -> list[Path]:
    return [Path(name) for name in names if name]


def plan_mt(cfg: MtConfig, out: Path) -> PretrainConfig:
    """Return the settings of the training for `xling.training.train`.

    Raises:
        UserError: a direction or language is missing from the data.
    """
    data = Path(cfg.data)
    available = shards.list_pairs(data)
    directions = ",".join(cfg.directions)
    pairs = shards.pairs_of_directions(directions, available) if directions else ",".join(available)
    needed_langs = {lang for pair in pairs.split(",") if pair for lang in split_pair(pair)}
    back_pairs = shards.list_pairs(Path(cfg.back_translated)) if cfg.back_translated else []
    needed_langs |= {lang for pair in back_pairs for lang in split_pair(pair)}
    objective_settings = {
        "pairs": pairs,
        "directions": directions,
        "alpha": str(cfg.alpha),
        "label_smoothing": str(cfg.label_smoothing),
        "tokens_per_sample": str(cfg.tokens_per_sample),
        "back_translated": cfg.back_translated,
        "back_share": str(cfg.back_share),
        "tag": str(cfg.tag),
        "join": str(cfg.join),
    }
    model, langs = cfg.model, sorted(needed_langs)
    if cfg.checkpoint or cfg.encoder:
        model, checkpoint_langs = read_starts(cfg)
        langs = [*checkpoint_langs, *(lang for lang in langs if lang not in checkpoint_langs)]
    objectives = {"translation": objective_settings}
    return replace(_training(cfg, out, objectives, langs, model), freeze=cfg.freeze)


def plan_umt(cfg: UmtConfig, out: Path) -> PretrainConfig:
    """Return the settings of the training for `xling.training.train`.

    Raises:
        UserError: no pair is given, a language is given twice or has no text, or the checkpoint was not
            trained on it.
    """
    available = shards.list_languages(Path(cfg.data))
    if not cfg.pairs:
        raise UserError("no pair is named", "pairs=SRC-TGT,SRC-TGT", "for example pairs=en-fr")
    needed_langs = sorted({lang for pair in cfg.pairs for lang in split_pair(pair)})
    for lang in needed_langs:
        languages.get(lang)
        if lang not in available:
            raise UserError(
                f"no text in {lang} in {cfg.data}",
                ", ".join(available),
                f"run xling binarize with corpora.{lang}=FILE",
            )
    model, langs = cfg.model, needed_langs
    if cfg.checkpoint or cfg.encoder:
        model, langs = read_starts(cfg)
        if missing := [lang for lang in needed_langs if lang not in langs]:
            raise UserError(
                f"{cfg.checkpoint or f'{cfg.encoder} and {cfg.decoder}'} was not trained on {missing[0]!r}",
                ", ".join(langs),
                "pre-train it on text of that language too",
            )
    length_setting = {"tokens_per_sample": str(cfg.tokens_per_sample)}
    objectives = {"umt": {**length_setting, "pairs": ",".join(cfg.pairs), **cfg.back}}
    if cfg.denoise != "none":
        objectives[cfg.denoise] = {**length_setting, **cfg.denoise_settings}
    if cfg.parallel_data:
        objectives["translation"] = {**length_setting, "data": cfg.parallel_data}
    return replace(_training(cfg, out, objectives, langs, model), mix="sum")


PLANS: Mapping[type, TranslationPlan[Any]] = {
    MtConfig: TranslationPlan("finetune mt", list_mt_inputs, lambda cfg: {"test": cfg.test}, plan_mt),
    UmtConfig: TranslationPlan(
        "umt", list_umt_inputs, lambda cfg: {"oracle": cfg.oracle, "test": cfg.test}, plan_umt
    ),
}


def _training(
    cfg: TranslationConfig,
    out: Path,
    objectives: dict[str, dict[str, str]],
    langs: list[str],
    model: ModelConfig,
) -> PretrainConfig:
    """Return the settings of a training with what both stages take over from theirs."""
    same = {name: getattr(cfg, name) for name in ("data", "train", "seed", "encoder", "decoder", "cross")}
    return PretrainConfig(
        out=str(out), objectives=objectives, langs=tuple(langs), model=model, init=cfg.checkpoint, **same
    )


def read_starts(cfg: MtConfig | UmtConfig) -> tuple[ModelConfig, list[str]]:
    """Return shape and languages of the one or the two models that a training starts from.

    Of two, the shape is the encoder's, with as many layers in the decoder as the other has, and its settings of a
    decoder if it has one.
    """
    if cfg.checkpoint:
        return read_start(Path(cfg.checkpoint), cfg.model)
    model, langs = read_start(Path(cfg.encoder), cfg.model)
    state = model_folder.read(Path(cfg.decoder), *model_folder.OURS)
    theirs, has_decoder = model_folder.shape_of(state), state["format"] == model_folder.SEQ2SEQ
    source = theirs if has_decoder else cfg.model
    shape = {name: getattr(source, name) for name in shapes.names(ModelConfig, only=[DECODER], own=False)}
    shape["decoder_layers"] = (theirs.decoder_layers if has_decoder else 0) or theirs.layers
    model = replace(model, **shape | {"decoder_embeddings": parts.value(cfg.model, "decoder_embeddings")})
    return model, [*langs, *(lang for lang in state["langs"] if lang not in langs)]


def read_start(directory: Path, requested: ModelConfig) -> tuple[ModelConfig, list[str]]:
    """Return shape and languages of a checkpoint.

    Run-specific settings, and an encoder's decoder, are as ``requested``.

    Raises:
        UserError: another shape is requested than that of the checkpoint.
    """
    state = model_folder.read(directory, *model_folder.OURS)
    shape_settings = shapes.names(ModelConfig, own=False)
    shape = {name: value for name, value in state["shape"].items() if name in shape_settings}
    for name, value in shape.items():
        if getattr(requested, name) not in (value, getattr(shapes.DEFAULT, name)):
            raise UserError(
                f"model.{name}={getattr(requested, name)} with {directory}, a model with {value}",
                fix="leave it out",
            )
    return replace(requested, **shape), state["langs"]


def check_files(sets: TestSets) -> None:
    """Raise UserError where a pair of a set does not name two files."""
    for setting, pairs in sets.items():
        for pair, names in pairs.items():
            if len(names) != 2:
                problem = f"{setting}.{pair}: {len(names)} files"
                raise UserError(problem, "two: sources and references", f"{setting}.{pair}=SRC,REF")


def check_langs(sets: TestSets, langs: tuple[str, ...]) -> None:
    """Raise UserError where a pair of a set has a language that is not trained."""
    for setting, pair in ((setting, pair) for setting, pairs in sets.items() for pair in pairs):
        if missing := [lang for lang in split_pair(pair) if lang not in langs]:
            raise UserError(
                f"{setting}.{pair}: {missing[0]} is not among the languages of the training",
                ", ".join(langs),
                f"leave {setting}.{pair} out",
            )


def test_files(*sets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """List the files of test sets in order."""
    return [name for each in sets for paths in each.values() for name in paths]


def read_aligned(pair: str, source: Path, reference: Path) -> LinePair:
    """Read the lines of two aligned files.

    Raises:
        UserError: one is missing, or they differ in length.
    """
    line_lists = []
    for path in (source, reference):
        if not path.is_file():
            raise UserError(f"test {pair}: no file at {path}", fix="check the path")
        line_lists.append(list(corpus_reader.read_lines(path, MAX_CELL_BYTES)))
    if len(line_lists[0]) != len(line_lists[1]):
        raise UserError(
            f"test {pair}: {len(line_lists[0])} lines in {source}, {len(line_lists[1])} in {reference}",
            "as many lines in both",
            "check that both belong together",
        )
    return line_lists[0], line_lists[1]


def read_rows(path: Path) -> list[tuple[str, str]]:
    """Read the rows ``source<TAB>target`` of a file.

    Raises:
        UserError: the file does not exist or is empty, or a row does not have exactly one tab.
    """
    if not path.is_file():
        raise UserError(f"no file at {path}", "a text file with lines SOURCE<TAB>TARGET", "check the path")
    rows = []
    for number, line in enumerate(corpus_reader.read_lines(path, MAX_CELL_BYTES), 1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target or not source.strip() or not target.strip():
            raise UserError(
                f"{path} line {number}: {line[:40]!r}",
                "SOURCE<TAB>TARGET, both with text",
                "correct the line",
            )
        rows.append((source, target))
    return rows

"""``xling finetune mt``: train a translation model, from scratch or from a checkpoint, and score it with sacreBLEU.

Training is `xling.training.train` on the objective ``translation`` (several directions at once, label smoothing,
back-translated text beside the genuine), so it resumes exactly after a kill. Then the test sets are translated and
scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from xling.core import languages, manifest
from xling.core.languages import split_pair
from xling.core.progress import Progress
from xling.models import checkpoint
from xling.models import shape as shapes
from xling.models.shape import ModelConfig
from xling.objectives.seq2seq import pairs_of_directions
from xling.text import shards
from xling.training.settings import PretrainConfig
from xling.transfer import trained
from xling.transfer.settings import MtConfig
from xling.transfer.translate import Translator


def pretraining(cfg: MtConfig, out: Path) -> PretrainConfig:
    """The training as `xling.training.train` knows it.

    Raises:
        UserError: a direction or language that is not there.
    """
    data = Path(cfg.data)
    there = shards.pairs_in(data)
    directions = ",".join(cfg.directions)
    pairs = pairs_of_directions(directions, there) if directions else ",".join(there)
    spoken = {lang for pair in pairs.split(",") if pair for lang in split_pair(pair)}
    spoken |= {lang for pair in _back_pairs(cfg) for lang in split_pair(pair)}
    objective = {
        "pairs": pairs,
        "directions": directions,
        "alpha": str(cfg.alpha),
        "label_smoothing": str(cfg.label_smoothing),
        "tokens_per_sample": str(cfg.tokens_per_sample),
        "back_translated": cfg.back_translated,
        "back_share": str(cfg.back_share),
        "tag": str(cfg.tag),
    }
    model, langs = cfg.model, sorted(spoken)
    if cfg.checkpoint:
        model, known = start_of(Path(cfg.checkpoint), cfg.model)
        langs = [*known, *(lang for lang in langs if lang not in known)]
    return PretrainConfig(
        data=cfg.data,
        out=str(out),
        objectives={"translation": objective},
        langs=tuple(langs),
        model=model,
        train=cfg.train,
        seed=cfg.seed,
        init=cfg.checkpoint,
        freeze=cfg.freeze,
    )


def start_of(directory: Path, wanted: ModelConfig) -> tuple[ModelConfig, list[str]]:
    """Shape and languages of a checkpoint; how it computes and, of an encoder, the decoder are as wanted."""
    state = checkpoint.read_published(directory / "model.pt", *checkpoint.SHAPES)
    taken = shapes.names(ModelConfig, own=False)
    shape = {name: value for name, value in state["shape"].items() if name in taken}
    return replace(wanted, **shape), state["langs"]


def score(
    translator: Translator, pair: str, sources: Sequence[str], references: Sequence[str], folder: Path
) -> dict[str, object]:
    """BLEU and chrF of a test set with sacreBLEU's signature; writes the translations to ``folder``.

    Words are 13a's, for Chinese sacreBLEU's own, for other scripts without spaces characters.
    """
    src, tgt = split_pair(pair)
    parts = [
        translator.split(text) for text in sources
    ]  # of a line that the model has no room for there are several
    with Progress(f"translate {pair}", sum(map(len, parts)), "parts") as progress:
        made = translator.write(parts, src, tgt, lambda num, _: progress.update(num))
    (folder / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in made), encoding="utf-8")
    return scores_of(made, references, tgt)


def scores_of(made: Sequence[str], references: Sequence[str], lang: str) -> dict[str, object]:
    """BLEU and chrF of texts in a language, 0 to 100, with sacreBLEU's signature of the former."""
    bleu = BLEU(tokenize=tokeniser(lang))
    return {
        "bleu": bleu.corpus_score(list(made), [list(references)]).score,
        "chrf": CHRF().corpus_score(list(made), [list(references)]).score,
        "lines": len(made),
        "signature": str(bleu.get_signature()),
    }


def tokeniser(lang: str) -> str:
    """Words for most, characters for scripts without spaces, sacreBLEU's own for Chinese."""
    known = languages.get(lang)
    if known.base == "zh":
        return "zh"
    return "13a" if known.spaces else "char"


def _back_pairs(cfg: MtConfig) -> list[str]:
    return shards.pairs_in(Path(cfg.back_translated)) if cfg.back_translated else []


def run(cfg: MtConfig) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill goes on where the training stood.

    Raises:
        UserError: no parallel text, an unknown direction, a checkpoint of another vocabulary or shape, a test set that
            is missing or whose sides differ in length.
    """
    return trained.run(STAGE, cfg)


def scores_of_tests(
    cfg: MtConfig, model: Path, tests: Mapping[str, trained.Sides], folder: Path
) -> dict[str, Any]:
    """The scores of every test set; writes the translations to ``folder``."""
    translator = Translator(model, cfg.search, precision=cfg.precision)
    return {pair: score(translator, pair, *two, folder) for pair, two in tests.items()}


def report(scores: dict[str, Any]) -> str:
    """The scores in lines."""
    return "\n".join(
        f"{pair}: BLEU {found['bleu']:.2f}, chrF {found['chrf']:.2f} ({found['signature']})"
        for pair, found in scores.items()
    )


STAGE = trained.Stage[MtConfig](
    "finetune mt",
    inputs=lambda cfg: (cfg.data, cfg.checkpoint, cfg.back_translated, *trained.files(cfg.test)),
    sets=lambda cfg: {"test": cfg.test},
    pretraining=pretraining,
    scores=scores_of_tests,
    report=report,
)

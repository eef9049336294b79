"""Training of a translation model, from scratch or from a checkpoint, scored with sacreBLEU: ``xling finetune mt``.

Training is `xling.training.train` on the objective ``translation`` (several directions at once, label
smoothing, back-translated text beside the genuine), so it resumes exactly after a kill. Then the test sets
are translated and scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from xling.core import manifest
from xling.core.languages import split_pair
from xling.core.progress import Progress
from xling.models import checkpoint
from xling.models import shape as shapes
from xling.models.shape import ModelConfig
from xling.objectives.seq2seq import pairs_of_directions
from xling.text import shards
from xling.text.tokenisers import bleu_tokeniser
from xling.training.settings import PretrainConfig
from xling.transfer import trained
from xling.transfer.settings import MtConfig
from xling.transfer.translate import Translator


def pretraining(cfg: MtConfig, out: Path) -> PretrainConfig:
    """Return the settings of the training for `xling.training.train`.

    Raises:
        UserError: a direction or language is missing from the data.
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
    """Return shape and languages of a checkpoint.

    Run-specific settings, and an encoder's decoder, are as ``wanted``.
    """
    state = checkpoint.read_published(directory / "model.pt", *checkpoint.SHAPES)
    taken = shapes.names(ModelConfig, own=False)
    shape = {name: value for name, value in state["shape"].items() if name in taken}
    return replace(wanted, **shape), state["langs"]


def score(
    translator: Translator, pair: str, sources: Sequence[str], references: Sequence[str], folder: Path
) -> dict[str, object]:
    """Score a test set by BLEU and chrF with sacreBLEU's signature; write the translations to ``folder``.

    Words are split as `xling.text.tokenisers.bleu_tokeniser` says.
    """
    src, tgt = split_pair(pair)
    parts = [
        translator.split(text) for text in sources
    ]  # a line that exceeds the model's positions has several parts
    with Progress(f"translate {pair}", sum(map(len, parts)), "parts") as progress:
        outputs = translator.write(parts, src, tgt, lambda num, _: progress.update(num))
    (folder / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in outputs), encoding="utf-8")
    return scores_of(outputs, references, tgt)


def scores_of(outputs: Sequence[str], references: Sequence[str], lang: str) -> dict[str, object]:
    """Return BLEU and chrF of texts in a language, 0 to 100, with sacreBLEU's signature of the former."""
    bleu = BLEU(tokenize=bleu_tokeniser(lang))
    return {
        "bleu": bleu.corpus_score(list(outputs), [list(references)]).score,
        "chrf": CHRF().corpus_score(list(outputs), [list(references)]).score,
        "lines": len(outputs),
        "signature": str(bleu.get_signature()),
    }


def _back_pairs(cfg: MtConfig) -> list[str]:
    return shards.pairs_in(Path(cfg.back_translated)) if cfg.back_translated else []


def run(cfg: MtConfig) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill resumes the training.

    Raises:
        UserError: there is no parallel text, a direction is unknown, a checkpoint has another vocabulary or
            shape, or a test set is missing or its sides differ in length.
    """
    return trained.run(STAGE, cfg)


def scores_of_tests(
    cfg: MtConfig, model: Path, tests: Mapping[str, trained.Sides], folder: Path
) -> dict[str, Any]:
    """Return the scores of every test set; write the translations to ``folder``."""
    translator = Translator(model, cfg.search, precision=cfg.precision)
    return {pair: score(translator, pair, *two, folder) for pair, two in tests.items()}


def report(scores: dict[str, Any]) -> str:
    """Format the scores of the test sets, one per line."""
    return "\n".join(
        f"{pair}: BLEU {result['bleu']:.2f}, chrF {result['chrf']:.2f} ({result['signature']})"
        for pair, result in scores.items()
    )


STAGE = trained.Stage[MtConfig](
    "finetune mt",
    inputs=lambda cfg: (cfg.data, cfg.checkpoint, cfg.back_translated, *trained.files(cfg.test)),
    sets=lambda cfg: {"test": cfg.test},
    pretraining=pretraining,
    scores=scores_of_tests,
    report=report,
)

"""``xling finetune mt``: train a translation model, from scratch or from a checkpoint, and score it with sacreBLEU.

Training is `xling.training.train` on the objective ``translation`` (several directions at once, label smoothing,
back-translated text beside the genuine), so it resumes exactly after a kill. Then the test sets are translated and
scored.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from xling.core import languages, manifest
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.progress import Progress
from xling.models import checkpoint, ddp
from xling.models import shape as shapes
from xling.models.shape import ModelConfig
from xling.objectives.seq2seq import pairs_of_directions
from xling.text import shards
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer.settings import MtConfig
from xling.transfer.translate import Translator

STAGE = "finetune mt"


def run(cfg: MtConfig) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill goes on where the training stood.

    Raises:
        UserError: no parallel text, an unknown direction, a checkpoint of another vocabulary or shape, a test set that
            is missing or whose sides differ in length.
    """
    log, cfg = cfg.log, replace(cfg, log="none")
    out = Path(cfg.out)
    tests = {pair: [Path(name) for name in names] for pair, names in cfg.test.items()}
    for pair, names in tests.items():
        if len(names) != 2:
            raise UserError(
                f"test {pair}: {len(names)} files", "source and reference", f"test.{pair}=SRC,REF"
            )
    inputs = [Path(name) for name in (cfg.data, cfg.checkpoint, cfg.back_translated) if name]
    inputs += [name for names in tests.values() for name in names]
    if done := manifest.up_to_date(out, STAGE, cfg, inputs):
        return done
    sides = {pair: aligned(pair, *names) for pair, names in tests.items()}
    trained = out.with_name(f"{out.name}.train")
    settings = replace(pretraining(cfg, trained), log=log)
    for pair in sides:
        if missing := [lang for lang in split_pair(pair) if lang not in settings.langs]:
            raise UserError(f"test {pair}: nothing is trained in {missing[0]}", ", ".join(settings.langs))
    model = train.run(settings)
    if not ddp.is_first():
        assert isinstance(model, manifest.Manifest)
        return model
    with manifest.publish(out, STAGE, cfg, inputs) as made:
        for path in trained.iterdir():
            if path.name != manifest.FILE_NAME:
                shutil.copy(path, made.path / path.name)
        translator = Translator(trained, cfg.search, precision=cfg.precision)
        scores = {pair: score(translator, pair, two[0], two[1], made.path) for pair, two in sides.items()}
        (made.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        made.counts |= {"langs": list(settings.langs), "updates": cfg.train.updates, "scores": scores}
    shutil.rmtree(trained)
    for pair, found in scores.items():
        print(
            f"{pair}: BLEU {found['bleu']:.2f}, chrF {found['chrf']:.2f} ({found['signature']})", flush=True
        )
    return manifest.read(out)


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


def aligned(pair: str, source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """The lines of two aligned files.

    Raises:
        UserError: one is missing, or they differ in length.
    """
    sides = []
    for path in (source, reference):
        if not path.is_file():
            raise UserError(f"test {pair}: no file at {path}", fix="check the path")
        sides.append(path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"test {pair}: {len(sides[0])} lines in {source}, {len(sides[1])} in {reference}", "as many"
        )
    return sides[0], sides[1]

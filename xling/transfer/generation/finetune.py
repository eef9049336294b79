"""Fine-tuning of text generation in one language with zero-shot use in others: ``xling finetune generate``.

The task is question generation, summarisation and the like, as in XNLG. Rows of ``source<TAB>target`` in the
source language train the model. Test rows of any language of the checkpoint are then answered, with that
language's token at the decoder's start. A frozen decoder cannot forget the languages it is not trained in.

Source: Chi et al. 2020 (XNLG), sections 3.3 and 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings.ranges import SEQUENCE
from xling.data.packing import Example, pack_seq2seq
from xling.models.files import model_weights
from xling.models.generate.decode import EOS
from xling.models.optim.adamw import AdamWConfig, NotFiniteError, XlingAdamW
from xling.objectives.seq2seq import example, sequence_loss
from xling.text import vocab
from xling.training import track
from xling.training.assemble import freeze
from xling.transfer.plans import read_rows
from xling.transfer.settings import FitConfig, GenerateConfig, Side
from xling.transfer.translation.supervised import scores_of
from xling.transfer.translation.translate import Translator

if TYPE_CHECKING:
    from jaxtyping import Int

STAGE = "finetune generate"


def run(cfg: GenerateConfig) -> manifest.Manifest:
    """Fine-tune a model to write texts, score its outputs and publish both.

    Raises:
        UserError: a file is missing, a row has no tab, the checkpoint was not trained on a language or has no
            decoder.
    """
    track.check(cfg.log)
    log, cfg = cfg.log, replace(cfg, log="none")
    if cfg.max_length and not SEQUENCE.holds(cfg.max_length):
        raise UserError(f"max_length={cfg.max_length}", f"{SEQUENCE}, or 0 for the model's own")
    out, directory = Path(cfg.out), Path(cfg.checkpoint)
    files = {lang: Path(name) for lang, name in cfg.test.items()}
    inputs = [directory, Path(cfg.train), *files.values()]
    if done := manifest.up_to_date(out, STAGE, cfg, inputs):
        return done
    rows = read_rows(Path(cfg.train))
    tests = {lang: read_rows(path) for lang, path in files.items()}
    torch.manual_seed(cfg.seed)
    translator = Translator(directory, cfg.search, precision=cfg.fit.precision, cut=True)
    for lang in (cfg.lang, *tests):
        translator.lang(lang)
    if cfg.max_length:
        translator.room = min(translator.room, cfg.max_length - 2)
    examples = [
        example_of(translator, translator.cut_pieces(source), target, cfg.lang) for source, target in rows
    ]
    with track.shown(log, out, cfg) as show:
        losses = track.Losses(show)
        fit(translator, examples, cfg.fit, cfg.freeze, cfg.seed, f"fine-tune {cfg.out}", told=losses.tell)
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        vocab.copy_vocabulary(directory, publication.path)
        (publication.path / "log.jsonl").write_text(losses.text(), encoding="utf-8")
        langs = list(translator.symbols.langs)
        model_weights.save_model(publication.path / "model.pt", translator.model, langs, directory)
        scores = {
            lang: write_and_score(translator, lang, test, publication.path) for lang, test in tests.items()
        }
        (publication.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        publication.counts |= {"rows": len(rows), "langs": langs, "scores": scores}
    for lang, result in scores.items():
        print(f"{lang}: ROUGE-L {result['rouge_l']:.2f}, BLEU {result['bleu']:.2f} ({result['signature']})")
    return manifest.read(out)


def fit(
    translator: Translator,
    examples: Sequence[Example],
    how: FitConfig,
    freeze_side: Side,
    seed: int,
    what: str,
    epoch_done: Callable[[], None] = lambda: None,
    told: Callable[[int, int, float], None] = lambda update, epoch, loss: None,
) -> None:
    """Train the model of a translator on rows of source and target text.

    Args:
        translator: its model is trained.
        examples: from `example_of`.
        how: settings.
        freeze_side: frozen side.
        seed: seed of the order of rows.
        what: name on the progress bar.
        epoch_done: called after every epoch.
        told: called after every update with its number, the epoch from 0 and the mean loss.

    Raises:
        UserError: the loss is not finite, there are no examples, or a setting is out of range.
    """
    _check_fit(how, examples, what)
    model = translator.model
    model.train()
    _set_dropout(translator, how.dropout)
    if freeze_side != "none":
        freeze(model, freeze_side)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = XlingAdamW(AdamWConfig(lr=[how.lr], weight_decay=how.weight_decay), learned)
    per_epoch = -(-len(examples) // how.batch_rows)
    total = per_epoch * how.epochs
    batches = (b for epoch in range(how.epochs) for b in _epoch(examples, how.batch_rows, seed, epoch))
    warmup = max(1, int(how.warmup * total))
    device = model.encoder.tokens.weight.device
    with Progress(what, total, "updates") as progress:
        for step, batch in enumerate(batches):
            rising, falling = (step + 1) / warmup, (total - step) / max(1, total - warmup)
            optimizer.set_lr(how.lr * min(rising, falling))
            optimizer.zero_grad()
            loss = sequence_loss(model, to_device(pack_seq2seq(batch), device), how.label_smoothing)
            loss.total.backward()
            optimizer.multiply_grads(1 / loss.num)
            try:
                optimizer.clip_grad_norm(how.clip)
            except NotFiniteError:
                raise UserError("the gradients became infinite", fix=f"lower fit.lr={how.lr}") from None
            optimizer.step()
            mean = float(loss.rows.mean())
            progress.update(1, f"loss {mean:.3f}")
            told(step + 1, step // per_epoch, mean)
            if (step + 1) % per_epoch == 0:
                epoch_done()
    model.requires_grad_(False).eval()


def _check_fit(how: FitConfig, examples: Sequence[Example], what: str) -> None:
    for name in ("epochs", "batch_rows"):
        if getattr(how, name) < 1:
            raise UserError(f"fit.{name}={getattr(how, name)}", "a whole number from 1")
    if not examples:
        raise UserError(f"{what}: no training rows", fix="check the training split")


def to_device(value: object, device: torch.device) -> dict[str, object]:
    """Move the tensors of a batch to a device."""

    def moved(part: object) -> object:
        if isinstance(part, dict):
            return {key: moved(inner) for key, inner in part.items()}
        return part.to(device) if isinstance(part, torch.Tensor) else part

    assert isinstance(value, dict)
    return {key: moved(part) for key, part in value.items()}


def write_and_score(
    translator: Translator, lang: str, rows: Sequence[tuple[str, str]], folder: Path
) -> dict[str, object]:
    """Generate outputs for the test rows of a language, save and score them: ROUGE-L, BLEU and chrF.

    ROUGE-L uses words split at spaces, or characters if the language has no spaces.
    """
    from rouge_score.rouge_scorer import RougeScorer  # imported here because it takes two seconds

    sources, references = zip(*rows, strict=True)
    with Progress(f"write {lang}", len(rows), "rows") as progress:
        outputs = translator(sources, lang, lang, lambda num, _: progress.update(num))
    (folder / f"test.{lang}.txt").write_text("".join(f"{line}\n" for line in outputs), encoding="utf-8")
    scorer = RougeScorer(["rougeL"], tokenizer=_Words(not languages.get(lang).spaces))
    rouge = [scorer.score(ref, out)["rougeL"].fmeasure for ref, out in zip(references, outputs, strict=True)]
    return {"rouge_l": 100 * float(np.mean(rouge)), **scores_of(outputs, references, lang)}


class _Words:
    """Tokeniser for ROUGE: lower-cased words between spaces, or characters."""

    def __init__(self, characters: bool) -> None:
        self._characters = characters

    def tokenize(self, text: str) -> list[str]:
        return list(text.replace(" ", "")) if self._characters else text.lower().split()


def example_of(translator: Translator, source: Int[np.ndarray, " length"], target: str, lang: str) -> Example:
    """Build a training example from a source and a target text in one language."""
    ids = [np.array([*part, EOS]) for part in (source, translator.cut_pieces(target))]
    code = translator.lang(lang)
    return example(ids[0], ids[1], code, code, translator.symbols) | {"id": np.array([0])}


def _epoch(examples: Sequence[Example], batch_rows: int, seed: int, epoch: int) -> Iterator[list[Example]]:
    """Yield batches of rows of similar length in random order."""
    generator = rng(seed, "generate", epoch)
    order = generator.permutation(len(examples))
    lengths = np.array([len(examples[i]["tokens"]) for i in order])
    order = order[np.argsort(lengths, kind="stable")]
    batches = [order[start : start + batch_rows] for start in range(0, len(order), batch_rows)]
    for number in generator.permutation(len(batches)):
        yield [examples[i] for i in batches[number]]


def _set_dropout(translator: Translator, prob: float) -> None:
    model = translator.model
    model.cfg.dropout = prob
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = prob  # type: ignore[assignment]

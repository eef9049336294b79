"""Fine-tuning of text generation in one language with zero-shot use in others: ``xling finetune generate``.

The task is question generation, summarisation and the like, as in XNLG. Rows of ``source<TAB>target`` in the
source language train the model. Test rows of any language of the checkpoint are then answered, with that
language's token at the decoder's start. A frozen decoder cannot forget the languages it is not trained in.

Source: Chi et al. 2020 (XNLG), sections 3.3 and 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.array_types import Int
from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import SEQUENCE
from xling.data.packing import Example, pack_seq2seq, to_device
from xling.models.files import model_weights
from xling.models.generate.decode import EOS
from xling.models.optim.adamw import AdamWConfig, NotFiniteError, XlingAdamW
from xling.objectives.seq2seq import example, sequence_loss
from xling.text import vocab
from xling.training import trackers
from xling.training.assemble import freeze
from xling.transfer.plans import read_rows
from xling.transfer.schedule import batches_by_length, learning_rate
from xling.transfer.settings import FitConfig, FrozenSide, GenerateConfig
from xling.transfer.translation.supervised import bleu_and_chrf
from xling.transfer.translation.translate import Translator

STAGE = "finetune generate"


def run(cfg: GenerateConfig) -> manifest.Manifest:
    """Fine-tune a model to write texts, score its outputs and publish both.

    Raises:
        UserError: a file is missing, a row has no tab, the checkpoint was not trained on a language or has no
            decoder.
    """
    trackers.check(cfg.log)
    curves_setting, cfg = cfg.log, replace(cfg, log="none")
    if cfg.max_length and not SEQUENCE.holds(cfg.max_length):
        raise UserError(f"max_length={cfg.max_length}", f"{SEQUENCE}, or 0 for the model's own")
    out, directory = Path(cfg.out), Path(cfg.checkpoint)
    files = {lang: Path(name) for lang, name in cfg.test.items()}
    inputs = [directory, Path(cfg.train), *files.values()]
    if published := manifest.up_to_date(out, STAGE, cfg, inputs):
        return published
    rows = read_rows(Path(cfg.train))
    tests = {lang: read_rows(path) for lang, path in files.items()}
    torch.manual_seed(cfg.seed)
    translator = Translator(directory, cfg.search, precision=cfg.fit.precision, truncates=True)
    for lang in (cfg.lang, *tests):
        translator.lang_index(lang)
    if cfg.max_length:
        translator.max_pieces = min(translator.max_pieces, cfg.max_length - 2)
    examples = [
        make_example(translator, translator.truncated_pieces(source), target, cfg.lang)
        for source, target in rows
    ]
    with trackers.shown(curves_setting, out, cfg) as show_curve:
        losses = trackers.Losses(show_curve)
        fine_tune(
            translator, examples, cfg.fit, cfg.freeze, cfg.seed, f"fine-tune {cfg.out}", on_update=losses.tell
        )
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


def fine_tune(
    translator: Translator,
    examples: Sequence[Example],
    cfg: FitConfig,
    freeze_side: FrozenSide,
    seed: int,
    title: str,
    on_epoch_end: Callable[[], None] = lambda: None,
    on_update: Callable[[int, int, float], None] = lambda update, epoch, loss: None,
) -> None:
    """Train the model of a translator on rows of source and target text.

    Args:
        examples: from `make_example`.
        on_epoch_end: called after every epoch.
        on_update: called after every update with its number, the epoch from 0 and the mean loss.

    Raises:
        UserError: the loss is not finite, there are no examples, or a setting is out of range.
    """
    values.check(cfg, "fit.")
    if not examples:
        raise UserError(f"{title}: no training rows", fix="check the training split")
    model = translator.model.train()
    model.cfg.dropout = cfg.dropout
    module: Any
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = cfg.dropout
    if freeze_side != "none":
        freeze(model, freeze_side)
    trained_parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = XlingAdamW(AdamWConfig(lr=[cfg.lr], weight_decay=cfg.weight_decay), trained_parameters)
    updates_per_epoch = -(-len(examples) // cfg.batch_rows)
    num_updates = updates_per_epoch * cfg.epochs
    lengths = [len(each["tokens"]) for each in examples]
    batches = (
        [examples[i] for i in batch]
        for epoch in range(cfg.epochs)
        for batch in batches_by_length(lengths, cfg.batch_rows, len(lengths), rng(seed, "generate", epoch))
    )
    device = model.encoder.tokens.weight.device
    with Progress(title, num_updates, "updates") as progress:
        for step, batch in enumerate(batches):
            optimizer.set_lr(learning_rate(cfg.lr, cfg.warmup, step, num_updates))
            optimizer.zero_grad()
            loss = sequence_loss(model, to_device(pack_seq2seq(batch), device), cfg.label_smoothing)
            loss.total.backward()
            optimizer.multiply_grads(1 / loss.num)
            try:
                optimizer.clip_grad_norm(cfg.clip)
            except NotFiniteError:
                raise UserError("the gradients became infinite", fix=f"lower fit.lr={cfg.lr}") from None
            optimizer.step()
            mean = float(loss.rows.mean())
            progress.update(1, f"loss {mean:.3f}")
            on_update(step + 1, step // updates_per_epoch, mean)
            if (step + 1) % updates_per_epoch == 0:
                on_epoch_end()
    model.requires_grad_(False).eval()


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
    scorer = RougeScorer(["rougeL"], tokenizer=_RougeTokenizer(not languages.get(lang).spaces))
    rouge = [scorer.score(ref, out)["rougeL"].fmeasure for ref, out in zip(references, outputs, strict=True)]
    return {"rouge_l": 100 * float(np.mean(rouge)), **bleu_and_chrf(outputs, references, lang)}


class _RougeTokenizer:
    """Tokeniser for ROUGE: lower-cased words between spaces, or characters."""

    def __init__(self, characters: bool) -> None:
        self._characters = characters

    def tokenize(self, text: str) -> list[str]:
        return list(text.replace(" ", "")) if self._characters else text.lower().split()


def make_example(
    translator: Translator, source: Int[np.ndarray, " length"], target: str, lang: str
) -> Example:
    """Build a training example from a source and a target text in one language."""
    ids = [np.array([*part, EOS]) for part in (source, translator.truncated_pieces(target))]
    code = translator.lang_index(lang)
    return example(ids[0], ids[1], code, code, translator.symbols) | {"id": np.array([0])}

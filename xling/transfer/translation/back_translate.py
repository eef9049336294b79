"""Back-translation of monolingual text into training pairs: ``xling back-translate``.

The text is divided into parts that are translated in parallel, here or as elements of a Slurm array. The
result has the file names of `xling corpus parallel`, whose filters read them (``source=moses:DIR/train.fr+
DIR/train.en``) and which `xling binarize` accepts directly. A round of iterative back-translation is this
stage for each direction, the filters, and `xling finetune mt` with ``back_translated=``.

Source: Sennrich et al. 2016; Hoang et al. 2018 (rounds); Edunov et al. 2018 (``search.sample`` instead of a
beam).
"""

import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.progress import Progress
from xling.text.files import corpus_reader
from xling.transfer.settings import BACK_TRANSLATE_STAGE, BackTranslateConfig
from xling.transfer.translation.translate import Translator

STAGE = BACK_TRANSLATE_STAGE


def phases(cfg: BackTranslateConfig) -> Sequence[Phase]:
    """Return the phases: ``translate`` in parts of ``part_lines``, then ``publish``."""
    if cfg.is_published():
        return (Phase("publish"),)
    return (Phase("translate", -(-len(read_sentences(cfg)) // cfg.part_lines)), Phase("publish"))


def run_part(cfg: BackTranslateConfig, phase: str, index: int) -> Answer | None:
    """Translate one part, or publish.

    Returns:
        A summary from ``publish``, else None.

    Raises:
        UserError: the model has no decoder or was not trained on a language, or there is no text.
    """
    if phase == "publish":
        return _publish(cfg)
    if not cfg.workspace().part(phase, index).is_dir():
        if cfg.threads:
            torch.set_num_threads(cfg.threads)
        translator = Translator(Path(cfg.checkpoint), cfg.search, cfg.batch_tokens)
        lines = read_sentences(cfg)[index * cfg.part_lines : (index + 1) * cfg.part_lines]
        with cfg.workspace().write_part(phase, index) as folder:
            with Progress(f"translate {cfg.src}-{cfg.tgt}", len(lines), "lines") as progress:
                translations = translator(
                    lines, cfg.src, cfg.tgt, lambda num, _: progress.update(num), cfg.via
                )
            for lang, side in ((cfg.src, lines), (cfg.tgt, translations)):
                (folder / f"train.{lang}").write_text("".join(f"{x}\n" for x in side), encoding="utf-8")
    return None


def read_sentences(cfg: BackTranslateConfig) -> list[str]:
    """Return the lines to translate.

    Raises:
        UserError: there are none.
    """
    # Readers of the pairs would take a lone carriage return as the end of a line.
    stripped = (
        line.replace("\r", " ").strip() for path in cfg.files for line in corpus_reader.read_lines(path)
    )
    lines = list(islice(filter(None, stripped), cfg.lines or None))
    if not lines:
        raise UserError(f"no text in {', '.join(cfg.text)}", "a sentence a line")
    return lines


def _publish(cfg: BackTranslateConfig) -> Answer:
    out = Path(cfg.out)
    if cfg.is_published():
        return _format_answer(out, "up to date, nothing to do")
    parts = sorted((cfg.workspace().root / "translate").glob("[0-9]*"))
    if len(parts) != -(-len(read_sentences(cfg)) // cfg.part_lines):
        raise UserError(f"{len(parts)} parts of {out} exist", fix="run the phase translate first")
    lines_by_side = [
        [line for part in parts for line in (part / f"train.{lang}").read_text("utf-8").split("\n")[:-1]]
        for lang in (cfg.src, cfg.tgt)
    ]
    translated_pairs = [
        (text, publication) for text, publication in zip(*lines_by_side, strict=True) if publication
    ]
    with manifest.publish(out, STAGE, cfg.content(), cfg.inputs()) as publication:
        for side, lang in enumerate((cfg.src, cfg.tgt)):
            (publication.path / f"train.{lang}").write_text(
                "".join(f"{row[side]}\n" for row in translated_pairs), "utf-8"
            )
        publication.counts |= {
            "pairs": len(translated_pairs),
            "empty_translations": len(lines_by_side[0]) - len(translated_pairs),
            "copies": sum(text == translation for text, translation in translated_pairs),
        }
    shutil.rmtree(cfg.workspace().root.parent, ignore_errors=True)
    return _format_answer(out)


def _format_answer(out: Path, text: str = "") -> Answer:
    counts = manifest.read(out).counts
    return Answer(f"{out}: {text or manifest.summary(counts)}", {"out": str(out), **counts})

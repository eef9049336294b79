"""Training of a translation model, from scratch or from a checkpoint, scored with sacreBLEU: ``xling finetune mt``.

Training is `xling.training.train` on the objective ``translation`` (several directions at once, label
smoothing, back-translated text beside the genuine), so it resumes exactly after a kill. Then the test sets
are translated and scored.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.text.tokenizers.bleu_words import bleu_tokeniser
from xling.transfer import plans
from xling.transfer.settings import MtConfig
from xling.transfer.translation import documents, train_and_score
from xling.transfer.translation.translate import Translator


def score_test_set(
    translator: Translator,
    pair: str,
    sources: Sequence[str],
    references: Sequence[str],
    folder: Path,
    block: int = 0,
) -> dict[str, object]:
    """Score a test set by BLEU and chrF with sacreBLEU's signature; write the translations to ``folder``.

    Words are split as `xling.text.tokenizers.bleu_words.bleu_tokeniser` says.
    """
    src, tgt = split_pair(pair)
    of_documents = documents.DocumentTranslator(translator, block) if block else None
    lines_of_documents = (
        documents.documents_of(pair, sources, references) if block or not all(map(str.strip, sources)) else []
    )
    if of_documents:
        outputs = of_documents(sources, src, tgt)
    else:
        # A line that exceeds the model's positions has several parts.
        source_parts = [translator.split_text(text) for text in sources]
        with Progress(f"translate {pair}", sum(map(len, source_parts)), "parts") as progress:
            outputs = translator.translate_parts(source_parts, src, tgt, lambda num, _: progress.update(num))
    (folder / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in outputs), encoding="utf-8")
    scores = bleu_and_chrf(outputs, references, tgt)
    scores |= _of_documents(outputs, references, lines_of_documents, tgt)
    return scores | (
        {"blocks": of_documents.blocks, "uneven_blocks": of_documents.uneven} if of_documents else {}
    )


def _of_documents(
    outputs: Sequence[str], references: Sequence[str], lines_of_documents: Sequence[Sequence[int]], lang: str
) -> dict[str, object]:
    """Return d-BLEU and the number of documents, and BLEU and chrF of the lines with text; empty without documents."""
    if not lines_of_documents:
        return {}
    numbers = [number for lines in lines_of_documents for number in lines]
    sentences = bleu_and_chrf([outputs[n] for n in numbers], [references[n] for n in numbers], lang)
    bleu = documents.document_bleu(outputs, references, lines_of_documents, lang)
    return sentences | {"document_bleu": bleu, "documents": len(lines_of_documents)}


def bleu_and_chrf(outputs: Sequence[str], references: Sequence[str], lang: str) -> dict[str, object]:
    """Return BLEU and chrF of texts in a language, 0 to 100, with sacreBLEU's signature of the former."""
    bleu = BLEU(tokenize=bleu_tokeniser(lang))
    return {
        "bleu": bleu.corpus_score(list(outputs), [list(references)]).score,
        "chrf": CHRF().corpus_score(list(outputs), [list(references)]).score,
        "lines": len(outputs),
        "signature": str(bleu.get_signature()),
    }


def run(cfg: MtConfig) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill resumes the training.

    Raises:
        UserError: there is no parallel text, a direction is unknown, a checkpoint has another vocabulary or
            shape, or a test set is missing or its sides differ in length.
    """
    return train_and_score.run_stage(cfg, score_tests, format_scores)


def score_tests(
    cfg: MtConfig, model: Path, tests: Mapping[str, plans.LinePair], folder: Path
) -> dict[str, Any]:
    """Return the scores of every test set; write the translations to ``folder``."""
    translator = Translator(model, cfg.search, precision=cfg.precision)
    block = cfg.tokens_per_sample if cfg.join else 0
    return {pair: score_test_set(translator, pair, *two, folder, block) for pair, two in tests.items()}


def format_scores(scores: dict[str, Any]) -> str:
    """Format the scores of the test sets, one per line."""
    lines = []
    for pair, result in scores.items():
        line = f"{pair}: BLEU {result['bleu']:.2f}, chrF {result['chrf']:.2f}"
        if "documents" in result:
            line += f", d-BLEU {result['document_bleu']:.2f} of {result['documents']} documents"
            line += (
                f", {result['uneven_blocks']} of {result['blocks']} blocks uneven"
                if "blocks" in result
                else ""
            )
        lines.append(f"{line} ({result['signature']})")
    return "\n".join(lines)

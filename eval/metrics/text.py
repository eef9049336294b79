"""Metrics of generated text.

BLEU, chrF++ and TER by sacrebleu, ROUGE-L, METEOR (with nltk), share in the language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float64
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.stages.langid import identify
from xling.eval.metrics.base import METRICS, Array, Metric, mean, with_count
from xling.eval.metrics.ngrams import bleu_scores, chrf_scores, ter_scores
from xling.eval.rows.suite import Example
from xling.text.tokenizers.bleu_words import MECAB_TOKENIZERS, bleu_tokeniser
from xling.text.words.units import combining_marks

SPM_MODEL = "flores200sacrebleuspm"
"""File of sacreBLEU's SentencePiece model of FLORES-200, in the folder ``models`` of its own folder."""

_WORDS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
    rf"|[^\W_]+(?:[{combining_marks()}]+[^\W_]*)*"
)


@cache
def target_language(lang: str) -> str:
    """Return the plain language code of a text: itself, or the second of a pair such as ``en-zh-CN``.

    A code that is in no list, or in two, stays as it is.
    """
    target_lang = lang.partition("-")[2]
    for code in filter(None, (lang, target_lang)):
        try:
            return languages.get(code).base
        except UserError:
            continue
    return target_lang or lang


@cache
def scorer(name: str, lang: str) -> Any:
    """Return the sacrebleu metric for a target language, with its tokeniser."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "bleu":
        return BLEU(tokenize=bleu_tokeniser(lang))
    if name == "spbleu":
        check_spm()
        return BLEU(tokenize="flores200")
    return CHRF(word_order=2) if name == "chrf" else TER(asian_support=lang in ("zh", "ja", "ko"))


def check_spm() -> None:
    """Check that sacreBLEU's SentencePiece model of FLORES-200 is present; nothing is downloaded.

    Raises:
        UserError: it is not.
    """
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    path = Path(SACREBLEU_DIR) / "models" / SPM_MODEL
    if not path.is_file():
        raise UserError(
            f"spBLEU needs sacreBLEU's SentencePiece model of FLORES-200, and {path} does not exist",
            fix=f"download {SPM_MODELS['flores200']['url']} to it, or set the variable SACREBLEU to the folder above "
            "models/; the suite flores has BLEU and chrF++ without it",
        )


def tokens(name: str, lang: str) -> str:
    """Return what a metric of sacreBLEU counts in a language: scores of other words do not belong in one average."""
    target = target_language(lang)
    if name == "ter":
        return "characters" if target in ("zh", "ja", "ko") else "words"
    tokeniser = bleu_tokeniser(target)
    return (
        f"{tokeniser} (MeCab is not installed)"
        if tokeniser == "char" and target in MECAB_TOKENIZERS
        else tokeniser
    )


def sacre_stats(
    name: str, examples: Sequence[Example], predictions: Sequence[str], lang: str
) -> Float64[np.ndarray, "rows stats"]:
    """Return Sacrebleu's own sentence statistics (num_rows, num_stats), whose sum it scores."""
    metric, references = scorer(name, target_language(lang)), [e.label for e in examples]
    if name == "ter":
        return _ter_stats(metric, predictions, references)
    num_stats = 3 * metric.order if name == "chrf" else 2 + 2 * metric.max_ngram_order
    rows = metric._extract_corpus_statistics(predictions, [references]) if references else []
    return np.array(rows, dtype=np.float64).reshape(-1, num_stats)


def _ter_stats(metric: Any, predictions: Sequence[str], references: Sequence[str]) -> Array:
    """Return (edits, words of the reference); equal texts need no search."""
    different_rows = [i for i, (a, b) in enumerate(zip(predictions, references, strict=True)) if a != b]
    rows = np.zeros((len(references), 2))
    rows[:, 1] = [len(metric._preprocess_segment(text).split()) for text in references]
    if different_rows:
        rows[different_rows] = metric._extract_corpus_statistics(
            [predictions[i] for i in different_rows], [[references[i] for i in different_rows]]
        )
    return rows


def sacre_reduce(name: str, sums: Float64[np.ndarray, " *rows stats"]) -> Float64[np.ndarray, " *rows"]:
    """Corpus scores from sums of sentence statistics, one of them by sacrebleu itself; tokenisers play no part here."""
    metric = scorer("bleu" if name == "spbleu" else name, "en")
    if sums.ndim == 1:
        return np.asarray(
            metric._aggregate_and_compute([[int(x) if x == int(x) else float(x) for x in sums]]).score,
            dtype=np.float64,
        )
    many = {"bleu": bleu_scores, "spbleu": bleu_scores, "chrf": chrf_scores, "ter": ter_scores}[name]
    return many(metric, sums.reshape(-1, sums.shape[-1])).reshape(sums.shape[:-1])


def sacre_signature(name: str, lang: str) -> str:
    """Return Sacrebleu's signature."""
    metric = scorer(name, target_language(lang))
    metric.corpus_score(["a"], [["a"]])
    return f"{name}|{metric.get_signature()}"


def words(text: str) -> list[str]:
    """Lower-cased words of any script with their marks, in NFC; single characters where no spaces are written."""
    return _WORDS.findall(unicodedata.normalize("NFC", text.lower()))


class UnicodeTokenizer:
    """Tokeniser of lower-cased words in any script for rouge-score, whose own keeps only ASCII letters.

    Scripts written without spaces give a token per character.
    """

    def tokenize(self, text: str) -> list[str]:
        """Return tokens of a text."""
        return words(text)


def rouge_l(
    examples: Sequence[Example], predictions: Sequence[str], lang: str
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (F-measure of the longest common subsequence, 1) by rouge-score."""
    from rouge_score.rouge_scorer import RougeScorer

    judge = RougeScorer(["rougeL"], tokenizer=UnicodeTokenizer())
    pairs = zip(examples, predictions, strict=True)
    return with_count([judge.score(e.label, p)["rougeL"].fmeasure for e, p in pairs])


class _NoSynonyms:
    """Replacement of WordNet, which exists only for English and is not installed by a package."""

    def synsets(self, word: str) -> list[Any]:
        return []


def meteor(
    examples: Sequence[Example], predictions: Sequence[str], lang: str
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (METEOR, 1) by nltk with exact and, in English, stem matches; no synonyms.

    Raises:
        UserError: nltk is not installed.
    """
    try:
        from nltk.stem.porter import PorterStemmer
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError:
        raise UserError("METEOR needs nltk", fix="pip install nltk, or choose bleu or rouge_l") from None

    class OneValueMetric:
        def stem(self, word: str) -> str:
            return word

    stemmer = PorterStemmer() if target_language(lang) == "en" else OneValueMetric()
    pairs = zip(examples, predictions, strict=True)
    values = [
        single_meteor_score(words(e.label), words(p), stemmer=stemmer, wordnet=_NoSynonyms())
        for e, p in pairs
    ]
    return with_count(values)


def for_language(
    examples: Sequence[Example], predictions: Sequence[str], lang: str
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (identified as the requested language, 1); an empty text is in no language.

    What is left to 100 is the off-target rate of zero-shot translation (Zhang et al. 2020).
    """
    wanted = languages.get(target_language(lang)).base
    return with_count([float(identify(text)[0].partition("_")[0] == wanted) for text in predictions])


def _language_signature(lang: str) -> str:
    return f"in_language:1|fasttext:lid.176|py3langid:{version('py3langid')}"


def _meteor_signature(lang: str) -> str:
    stems = "porter" if target_language(lang) == "en" else "none"
    return f"meteor:2|nltk:{version('nltk')}|stemmer:{stems}|synonyms:none|tok:unicode"


def _rouge_signature(lang: str) -> str:
    return f"rouge_l:2|rouge-score:{version('rouge-score')}|tok:unicode|stemmer:none"


for _name in ("bleu", "spbleu", "chrf", "ter"):
    _signature: Callable[[str], str] = partial(sacre_signature, _name)
    _metric = Metric(
        _name,
        partial(sacre_stats, _name),
        partial(sacre_reduce, _name),
        _signature,
        _name != "ter",
        tokens=partial(tokens, _name) if _name in ("bleu", "ter") else None,
        check=check_spm if _name == "spbleu" else None,
    )
    METRICS.add(_name, _metric)
METRICS.add("rouge_l", Metric("rouge_l", rouge_l, mean, _rouge_signature))
METRICS.add("meteor", Metric("meteor", meteor, mean, _meteor_signature))
METRICS.add("in_language", Metric("in_language", for_language, mean, _language_signature))

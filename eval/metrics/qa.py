"""Question answering: token F1 and exact match under the normalisation rules of SQuAD 1.1 and of MLQA.

Sources: Rajpurkar et al. 2016 and the rules of its ``evaluate-v1.1.py``; Lewis et al. 2020 (MLQA) and the
    rules of
its ``mlqa_evaluation_v1.py``. XTREME scores XQuAD and TyDiQA with the first and MLQA with the second.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from xling.array_types import Float64
from xling.core.errors import unknown
from xling.eval.metrics.base import METRICS, Metric, mean, with_count
from xling.eval.rows.suite import Example

Normaliser = Callable[[str, str], str]

_ENGLISH_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MLQA_ARTICLES = {
    "en": _ENGLISH_ARTICLES,
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "hi": None,
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    # The first branch can never match (``^`` after a letter), but the official rules contain it.
    "ar": re.compile(r"\sال^|ال"),
    "zh": None,
}
_HAN = re.compile("([\u4e00-\u9fa5])")


def normalise_squad(text: str, lang: str = "en") -> str:
    """Lower case, ASCII punctuation and English articles out, single spaces, whatever the language."""
    return " ".join(_ENGLISH_ARTICLES.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split())


def normalise_mlqa(text: str, lang: str) -> str:
    """Lower case, Unicode punctuation and the language's articles out; Chinese split by character.

    Raises:
        UserError: a language that MLQA has no rules for.
    """
    if lang not in _MLQA_ARTICLES:
        raise unknown("language of MLQA's scorer", lang, _MLQA_ARTICLES)
    text = text.lower().translate(_unicode_punctuation())
    if articles := _MLQA_ARTICLES[lang]:
        text = articles.sub(" ", text)
    if lang == "zh":
        text = _HAN.sub(r" \1 ", text)
    return " ".join(text.split())


@cache
def _unicode_punctuation() -> dict[int, None]:
    marks = (i for i in range(sys.maxunicode) if unicodedata.category(chr(i)).startswith("P"))
    return dict.fromkeys((*marks, *map(ord, string.punctuation)))


def token_f1(prediction: str, answer: str) -> float:
    """Return F1 of the multisets of tokens of two normalised texts; 0 for two empty ones, as the scripts do."""
    predicted, gold = prediction.split(), answer.split()
    shared = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * shared / (len(predicted) + len(gold)) if shared else 0.0


def exact_match(prediction: str, answer: str) -> float:
    """Return 1 when two normalised texts are equal."""
    return float(prediction == answer)


def best_over_answers(
    normalise: Normaliser,
    score: Callable[[str, str], float],
    examples: Sequence[Example],
    predictions: Sequence[str],
    lang: str,
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (score, 1), where a row's score is the best over its accepted answers."""
    values = []
    for example, prediction in zip(examples, predictions, strict=True):
        normalised = normalise(prediction, lang)
        values.append(max(score(normalised, normalise(answer, lang)) for answer, _ in example.label))
    return with_count(values)


def _add_metric(name: str, normalise: Normaliser, score: Callable[[str, str], float], rules: str) -> None:
    stats = partial(best_over_answers, normalise, score)
    METRICS.add(name, Metric(name, stats, mean, lambda lang: f"{name}:1|rules:{rules}|lang:{lang}"))


_add_metric("squad_f1", normalise_squad, token_f1, "squad-1.1")
_add_metric("squad_em", normalise_squad, exact_match, "squad-1.1")
_add_metric("mlqa_f1", normalise_mlqa, token_f1, "mlqa-1.0")
_add_metric("mlqa_em", normalise_mlqa, exact_match, "mlqa-1.0")

"""STS22: how alike two news articles of one or two languages are, in eighteen pairs."""

from xling.eval.rows.readers import json_lines
from xling.eval.rows.suite import SUITES, Example, Layout, Suite
from xling.eval.suites.sts17 import rated_pair

_ALONE = ("ar", "de", "en", "es", "fr", "it", "pl", "ru", "tr", "zh")
_PAIRS = ("de-en", "de-fr", "de-pl", "es-en", "es-it", "fr-pl", "pl-en", "zh-en")
_CODES = {f"{lang}-{lang}": lang for lang in _ALONE}


def is_of_language(row: Example, lang: str) -> bool:
    """Return whether a row is of a language, which only the file of all languages says."""
    return row.fields.get("lang", lang) in (lang, _CODES.get(lang))


SUITES.add(
    "sts22",
    Suite(
        name="sts22",
        kind="similarity",
        languages=(*(f"{lang}-{lang}" for lang in _ALONE), *_PAIRS),
        splits=("test",),
        reader=json_lines(rated_pair),
        patterns=("sts22-crosslingual-sts/test/{code}.jsonl",),
        codes=_CODES,
        official=(Layout(("sts22-crosslingual-sts/data/{split}.jsonl",)),),
        of_language=is_of_language,
        licence="that of the newspapers; the ratings are SemEval's",
        citation="Chen et al. 2022, SemEval-2022 Task 8: Multilingual news article similarity",
        url="https://huggingface.co/datasets/mteb/sts22-crosslingual-sts",
        protocol=(
            "correlation of the cosine of vectors with ratings, higher for more alike as MTEB turned them: Spearman as"
            " at MTEB, Pearson as at SemEval; `de-de` is its `de`; texts are cut at the model's length"
        ),
    ),
)

"""Bilingual lexicon induction: the translation of a word among target words."""

from xling.eval.rows.readers import dictionary
from xling.eval.rows.suite import SUITES, Suite, recorded_files

SUITES.add(
    "bli",
    Suite(
        name="bli",
        kind="bli",
        languages=("en-de", "en-fi", "en-fr", "en-hr", "en-it", "en-ru", "en-tr", "de-fr", "fi-hr", "tr-ru"),
        splits=("train", "test"),
        reader=dictionary,
        patterns=("bli/{lang}.{split}.tsv",),
        split_codes={"train": "train5k", "test": "test2k"},
        files=recorded_files(__name__),
        metrics=("bli_p1",),
        licence="none stated; cite the paper",
        citation="Glavas et al. 2019, How to (properly) evaluate cross-lingual word embeddings",
        url="https://github.com/codogogo/xling-eval",
        protocol=(
            "P@1 among the target words of the pair's train and test dictionaries (the paper ranks all "
            "200,000 words of its embeddings, which is harder)"
        ),
    ),
)

"""BUCC 2018: mining of translations from comparable corpora, in the format of its files."""

from xling.eval.rows.readers import comparable
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "bucc",
    Suite(
        name="bucc",
        kind="mining",
        languages=("de", "fr", "ru", "zh"),
        splits=("train", "dev", "test"),
        reader=comparable,
        patterns=(
            "bucc2018/{lang}-en.{split}.{lang}",
            "bucc2018/{lang}-en.{split}.en",
            "bucc2018/{lang}-en.{split}.gold",
        ),
        split_codes={"train": "training", "dev": "sample"},
        metrics=("mining_f1",),
        licence="research use; Wikipedia and News Commentary text",
        citation="Zweigenbaum et al. 2018, Overview of the third BUCC shared task",
        url="https://comparable.limsi.fr/bucc2018",
        protocol=(
            "F1 of mined pairs; the threshold is fitted on the training split only; the test split's gold"
            " pairs were never published, so bring your own or score dev"
        ),
    ),
)

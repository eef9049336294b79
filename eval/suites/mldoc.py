"""MLDoc: news topics, in the format of its files."""

from xling.eval.rows.readers import labelled_lines
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "mldoc",
    Suite(
        name="mldoc",
        kind="classify",
        languages=("en", "de", "es", "fr", "it", "ja", "ru", "zh"),
        splits=("train", "dev", "test"),
        labels=("CCAT", "ECAT", "GCAT", "MCAT"),
        reader=labelled_lines,
        patterns=("mldoc/{lang}.{split}",),
        split_codes={"train": "train.1000"},
        metrics=("accuracy",),
        licence="Reuters RCV1 and RCV2, by agreement with NIST",
        citation="Schwenk and Li 2018, A corpus for multilingual document classification in eight languages",
        url="https://github.com/facebookresearch/MLDoc",
        protocol="accuracy over four topics; 1,000 training documents",
    ),
)

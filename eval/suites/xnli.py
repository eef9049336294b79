"""XNLI: natural language inference in 15 languages, and four later test sets of the same task."""

from xling.eval.rows.readers import table
from xling.eval.rows.suite import SUITES, Example, Online, Suite, recorded_files

LABELS = ("entailment", "neutral", "contradiction")
READER = table(
    {"text_a": "premise", "text_b": "hypothesis"}, "label", names={"contradictory": "contradiction"}
)

SUITES.add(
    "xnli",
    Suite(
        name="xnli",
        kind="pair",
        languages=("en", "fr", "es", "de", "el", "bg", "ru", "tr", "ar", "vi", "th", "zh", "hi", "sw", "ur"),
        extra=("ko",),
        splits=("train", "dev", "test"),
        labels=LABELS,
        reader=READER,
        patterns=("nli/xnli.{split}.{lang}.tsv",),
        files=recorded_files(__name__),
        translated_train=True,
        online=Online(
            "facebook/xnli",
            "{lang}",
            lambda r, i: Example(str(i), {"text_a": r["premise"], "text_b": r["hypothesis"]}, r["label"]),
            revision="b8dd5d7af51114dbda02c0e3f6133f332186418e",
        ),
        metrics=("accuracy",),
        licence="CC BY-NC 4.0 (XNLI); MultiNLI terms (train); ko CC BY-SA 4.0",
        is_parallel=True,
        citation="Conneau et al. 2018, XNLI: Evaluating cross-lingual sentence representations",
        url="https://github.com/facebookresearch/XNLI",
        protocol="accuracy; trained on MultiNLI (train.fr is its machine translation)",
    ),
)

"""PAWS-X: paraphrase identification."""

from xling.eval.rows.readers import table
from xling.eval.rows.suite import SUITES, Example, Online, Suite, recorded_files

SUITES.add(
    "pawsx",
    Suite(
        name="pawsx",
        kind="pair",
        languages=("en", "de", "es", "fr", "ja", "ko", "zh"),
        splits=("train", "dev", "test"),
        labels=("0", "1"),
        reader=table({"text_a": "sentence1", "text_b": "sentence2"}, "label"),
        patterns=("pawsx/{split}.{lang}.tsv",),
        files=recorded_files(__name__),
        translated_train=True,
        online=Online(
            "google-research-datasets/paws-x",
            "{lang}",
            lambda r, i: Example(str(i), {"text_a": r["sentence1"], "text_b": r["sentence2"]}, r["label"]),
            revision="4cd8187c404bda33cb1f62b49b001115862acf37",
        ),
        metrics=("accuracy",),
        licence="may be freely used for any purpose; attribution to Google appreciated",
        is_parallel=True,
        citation=(
            "Yang et al. 2019, PAWS-X: A cross-lingual adversarial dataset for paraphrase identification"
        ),
        url="https://github.com/google-research-datasets/paws",
        protocol="accuracy; 1 means paraphrase",
    ),
)

"""MasakhaPOS: parts of speech in African languages."""

from xling.eval.rows.readers import columns
from xling.eval.rows.suite import SUITES, Suite
from xling.eval.suites.udpos import LABELS

SUITES.add(
    "masakhapos",
    Suite(
        name="masakhapos",
        kind="tag",
        languages=(
            "bm", "bbj", "ee", "fon", "ha", "ig", "rw", "lg", "luo", "mos",
            "ny", "pcm", "sn", "sw", "tn", "tw", "wo", "xh", "yo", "zu",
        ),
        splits=("train", "dev", "test"),
        labels=LABELS,
        reader=columns(separator=None),
        patterns=("masakhane-pos/data/{code}/{split}.txt",),
        metrics=("tag_accuracy", "tag_f1"),
        licence="CC BY-NC 4.0",
        citation="Dione et al. 2023, MasakhaPOS: Part-of-speech tagging for typologically diverse African languages",
        url="https://github.com/masakhane-io/masakhane-pos",
        protocol="accuracy over words, the published measure; trained on udpos where the source has no rows here",
        train_from="udpos",
    ),
)  # fmt: skip

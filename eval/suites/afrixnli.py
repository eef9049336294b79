"""AfriXNLI: XNLI's test rows translated by hand into African languages."""

from xling.eval.rows.readers import table
from xling.eval.rows.suite import SUITES, Suite
from xling.eval.suites.xnli import LABELS

SUITES.add(
    "afrixnli",
    Suite(
        name="afrixnli",
        kind="pair",
        languages=(
            "am",
            "ee",
            "ha",
            "ig",
            "rw",
            "ln",
            "lg",
            "om",
            "sn",
            "st",
            "sw",
            "tw",
            "wo",
            "xh",
            "yo",
            "zu",
        ),
        extra=("en", "fr"),
        splits=("dev", "test"),
        labels=LABELS,
        reader=table(
            {"text_a": "premise", "text_b": "hypothesis"},
            "label",
            names=dict(zip("012", LABELS, strict=True)),
            quoted=True,
        ),
        patterns=("afrixnli/data/{code}/{split}.tsv",),
        licence="Apache-2.0",
        citation=(
            "Adelani et al. 2024, IrokoBench: A new benchmark for African languages in the age of large language "
            "models"
        ),
        url="https://huggingface.co/datasets/masakhane/afrixnli",
        protocol="accuracy; XNLI's task in 16 African languages; en and fr are the sources; trained on xnli",
        train_from="xnli",
        is_parallel=True,
    ),
)

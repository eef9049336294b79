"""FarsTail: natural language inference in Persian."""

from xling.eval.rows.readers import table
from xling.eval.rows.suite import SUITES, Suite
from xling.eval.suites.indonli import FIRST_LETTERS
from xling.eval.suites.xnli import LABELS

SUITES.add(
    "farstail",
    Suite(
        name="farstail",
        kind="pair",
        languages=("fa",),
        splits=("train", "dev", "test"),
        labels=LABELS,
        reader=table(
            {"text_a": "premise", "text_b": "hypothesis"}, "label", names=FIRST_LETTERS, quoted=True
        ),
        patterns=("FarsTail/data/{split}-word.csv",),
        split_codes={"train": "Train", "dev": "Val", "test": "Test"},
        licence="Apache-2.0",
        citation="Amirkhani et al. 2023, FarsTail: a Persian natural language inference dataset",
        url="https://github.com/dml-qom/FarsTail",
        protocol="accuracy; native Persian pairs from exam questions; trained on xnli",
        train_from="xnli",
    ),
)

"""IndoNLI: native Indonesian natural language inference."""

from xling.eval.suite import SUITES, Suite, recorded_files
from xling.eval.suites.xnli import LABELS, READER

SUITES.add(
    "indonli",
    Suite(
        name="indonli",
        kind="pair",
        languages=("id",),
        splits=("dev",),
        labels=LABELS,
        reader=READER,
        patterns=("nli/indonli.{split}.{lang}.tsv",),
        files=recorded_files(__name__),
        metrics=("accuracy",),
        licence="CC BY-SA (premises) or IndoSum terms; annotations: none stated",
        citation="Mahendra et al. 2021, IndoNLI: A natural language inference dataset for Indonesian",
        url="https://github.com/ir-nlp-csui/indonli",
        protocol="accuracy; native Indonesian pairs, not a translation of XNLI; trained on xnli",
        train_from="xnli",
    ),
)

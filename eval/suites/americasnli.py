"""AmericasNLI: natural language inference in indigenous languages of the Americas."""

from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files
from xling.eval.suites.xnli import LABELS, READER

SUITES.add(
    "americasnli",
    Suite(
        name="americasnli",
        kind="pair",
        languages=(
            "ay",
            "bzd",
            "cni",
            "gn",
            "hch",
            "nah",
            "oto",
            "qu",
            "shp",
            "tar",
        ),
        splits=("dev", "test"),
        labels=LABELS,
        reader=READER,
        patterns=("nli/americasnli.{split}.{code}.tsv",),
        codes={"ay": "aym", "qu": "quy"},
        official=(
            Layout(("americasnli/data/anli_final/{split}/{code}.tsv",), codes={"ay": "aym", "qu": "quy"}),
        ),
        files=recorded_files(__name__),
        metrics=("accuracy",),
        is_parallel=True,
        licence="CC BY-SA 4.0",
        citation=(
            "Ebrahimi et al. 2022, AmericasNLI: Evaluating zero-shot natural language understanding in "
            "truly low-resource languages"
        ),
        url="https://github.com/abteen/americasnli",
        protocol="accuracy; XNLI's task in indigenous languages of the Americas; trained on xnli",
        train_from="xnli",
    ),
)

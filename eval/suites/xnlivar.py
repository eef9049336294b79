"""XNLIvar: native Basque natural language inference."""

from xling.eval.rows.suite import SUITES, Suite, recorded_files
from xling.eval.suites.xnli import LABELS, READER

SUITES.add(
    "xnlivar",
    Suite(
        name="xnlivar",
        kind="pair",
        languages=("eu",),
        splits=("test",),
        labels=LABELS,
        reader=READER,
        patterns=("nli/xnli_native.{lang}.tsv",),
        files=recorded_files(__name__),
        metrics=("accuracy",),
        licence="CC BY-NC 4.0",
        citation="Native Basque XNLI pairs (XNLIvar)",
        url="https://github.com/hitz-zentroa/XNLIvar",
        protocol=(
            "accuracy; native Basque premises and hypotheses, not a translation of XNLI; trained on xnli"
        ),
        train_from="xnli",
    ),
)

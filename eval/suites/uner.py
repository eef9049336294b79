"""Universal NER: gold named entities on Universal Dependencies treebanks."""

from pathlib import Path

from xling.eval.rows.readers import columns
from xling.eval.rows.suite import SUITES, Suite, recorded_files
from xling.eval.suites.panx import ENTITIES

FILES = recorded_files(__name__)

SUITES.add(
    "uner",
    Suite(
        name="uner",
        kind="tag",
        languages=("en", "pt", "da", "sv", "zh", "sk", "hr", "sr", "nb", "ceb", "tl"),
        splits=("train", "dev", "test"),
        labels=ENTITIES,
        scheme="IOB2",
        # Only hr and sr have OTH, which the other treebanks do not annotate.
        reader=columns(rename={"B-OTH": "O", "I-OTH": "O"}),
        patterns=("ner/uner/{code}.{split}.tsv",),
        codes={f.lang: Path(f.path).name.split(".")[0] for f in FILES},
        files=FILES,
        metrics=("span_f1",),
        licence="CC BY-SA 4.0",
        citation=(
            "Mayhew et al. 2024, Universal NER: A gold-standard multilingual named entity recognition "
            "benchmark"
        ),
        url="https://www.universalner.org",
        protocol=(
            "span F1, seqeval default mode; OTH counts as outside; trained on panx unless train_from says"
            " other"
        ),
        train_from="panx",
    ),
)

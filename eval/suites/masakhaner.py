"""MasakhaNER 2.0: gold named entities in African languages."""

from pathlib import Path

from xling.eval.rows.readers import columns
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files

FILES = recorded_files(__name__)

SUITES.add(
    "masakhaner",
    Suite(
        name="masakhaner",
        kind="tag",
        languages=(
            "bm",
            "bbj",
            "ee",
            "fon",
            "ha",
            "ig",
            "rw",
            "lg",
            "luo",
            "mos",
            "ny",
            "pcm",
            "sn",
            "sw",
            "tn",
            "tw",
            "wo",
            "xh",
            "yo",
            "zu",
        ),
        splits=("train", "dev", "test"),
        labels=("PER", "ORG", "LOC", "DATE"),
        scheme="IOB2",
        reader=columns(),
        patterns=("ner/masakhaner2/{code}.{split}.tsv",),
        codes={f.lang: Path(f.path).name.split(".")[0] for f in FILES},
        official=(
            Layout(
                ("masakhane-ner/MasakhaNER2.0/data/{code}/{split}.txt",),
                reader=columns(separator=None, short_ends=True),
            ),
        ),
        files=FILES,
        metrics=("span_f1",),
        licence="CC BY-NC 4.0",
        citation=(
            "Adelani et al. 2022, MasakhaNER 2.0: Africa-centric transfer learning for named entity "
            "recognition"
        ),
        url="https://github.com/masakhane-io/masakhane-ner",
        protocol=(
            "span F1, seqeval default mode, four entity types; without training rows in the source "
            "language it trains on panx, which has no DATE"
        ),
        train_from="panx",
    ),
)

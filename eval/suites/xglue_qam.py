"""XGLUE's question and answer matching (QAM): whether a passage answers a question."""

from xling.eval.rows.readers import ends_with, headless
from xling.eval.rows.suite import SUITES, Suite

LABELS = ("0", "1")

SUITES.add(
    "xglue_qam",
    Suite(
        name="xglue_qam",
        kind="pair",
        languages=("de", "en", "fr"),
        splits=("train", "dev", "test"),
        labels=LABELS,
        has_answers=ends_with(LABELS),
        reader=headless(("question",), ("passage",)),
        patterns=("xglue_full_dataset/QAM/xglue.qam.{lang}.{split}",),
        metrics=("accuracy",),
        licence="non-commercial research, by the terms of XGLUE",
        citation="Liang et al. 2020, XGLUE: A new benchmark dataset for cross-lingual pre-training",
        url="https://github.com/microsoft/XGLUE",
        protocol=("accuracy of two classes, from question and passage"),
    ),
)

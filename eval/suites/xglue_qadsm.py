"""XGLUE's query and advertisement matching (QADSM): whether an advertisement fits a query."""

from xling.eval.rows.readers import ends_with, headless
from xling.eval.rows.suite import SUITES, Suite

LABELS = ("Good", "Bad")

SUITES.add(
    "xglue_qadsm",
    Suite(
        name="xglue_qadsm",
        kind="pair",
        languages=("de", "en", "fr"),
        splits=("train", "dev", "test"),
        labels=LABELS,
        has_answers=ends_with(LABELS),
        reader=headless(("query",), ("title", "description")),
        patterns=("xglue_full_dataset/QADSM/xglue.qadsm.{lang}.{split}",),
        metrics=("accuracy",),
        licence="non-commercial research, by the terms of XGLUE",
        citation="Liang et al. 2020, XGLUE: A new benchmark dataset for cross-lingual pre-training",
        url="https://github.com/microsoft/XGLUE",
        protocol=("accuracy of two classes, from the query and the title and text of the advertisement"),
    ),
)

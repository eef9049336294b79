"""XGLUE's web page ranking (WPR): how well a page fits a query, in seven languages."""

from xling.eval.rows.readers import ends_with, headless
from xling.eval.rows.suite import SUITES, Suite

LABELS = ("0", "1", "2", "3", "4")

SUITES.add(
    "xglue_wpr",
    Suite(
        name="xglue_wpr",
        kind="pair",
        languages=("de", "en", "es", "fr", "it", "pt", "zh"),
        splits=("train", "dev", "test"),
        labels=LABELS,
        has_answers=ends_with(LABELS),
        reader=headless(("query",), ("title", "snippet")),
        patterns=("xglue_full_dataset/WPR/xglue.wpr.{lang}.{split}",),
        metrics=("ndcg",),
        licence="non-commercial research, by the terms of XGLUE",
        citation="Liang et al. 2020, XGLUE: A new benchmark dataset for cross-lingual pre-training",
        url="https://github.com/microsoft/XGLUE",
        protocol=(
            "nDCG of the pages of each query by their predicted rating; queries with one page are not scored"
        ),
    ),
)

"""XGLUE's news classification (NC): the category of an article, in five languages."""

from xling.eval.rows.readers import ends_with, headless
from xling.eval.rows.suite import SUITES, Suite

LABELS = (
    "foodanddrink",
    "sports",
    "news",
    "entertainment",
    "health",
    "video",
    "finance",
    "travel",
    "lifestyle",
    "autos",
)

SUITES.add(
    "xglue_nc",
    Suite(
        name="xglue_nc",
        kind="pair",
        languages=("de", "en", "es", "fr", "ru"),
        splits=("train", "dev", "test"),
        labels=LABELS,
        has_answers=ends_with(LABELS),
        reader=headless(("title",), ("body",), more=1),
        patterns=("xglue_full_dataset/NC/xglue.nc.{lang}.{split}",),
        metrics=("accuracy",),
        licence="non-commercial research, by the terms of XGLUE",
        citation="Liang et al. 2020, XGLUE: A new benchmark dataset for cross-lingual pre-training",
        url="https://github.com/microsoft/XGLUE",
        protocol=("accuracy of one category of ten, from title and body"),
    ),
)

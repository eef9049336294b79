"""Machine translation on any pair of line-aligned files."""

from xling.eval.rows.readers import translation
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "mt",
    Suite(
        name="mt",
        kind="mt",
        languages=(),
        splits=("train", "dev", "test"),
        reader=translation,
        patterns=("mt/{lang}.{split}.{src}", "mt/{lang}.{split}.{tgt}"),
        metrics=("bleu", "chrf", "ter", "in_language"),
        licence="that of your files",
        citation="your own test set",
        url="docs/eval.md",
        protocol="sacreBLEU on raw references: mt/en-sw.test.en beside mt/en-sw.test.sw",
    ),
)

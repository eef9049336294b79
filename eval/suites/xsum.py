"""XGiga summaries: a headline from the first sentence, in the format of XNLG's files."""

from xling.eval.rows.readers import translation
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "xsum",
    Suite(
        name="xsum",
        kind="generation",
        languages=("en", "fr", "zh"),
        splits=("train", "dev", "test"),
        reader=translation,
        patterns=("xgiga/{split}.x.{lang}", "xgiga/{split}.y.{lang}"),
        metrics=("rouge_l", "bleu", "meteor", "in_language"),
        licence="Gigaword, LDC; by agreement",
        citation="Chi et al. 2020, Cross-lingual natural language generation via pre-training",
        url="https://github.com/CZWin32768/XNLG",
        protocol="ROUGE-L, BLEU and METEOR of the headline",
    ),
)

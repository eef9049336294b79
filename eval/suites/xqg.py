"""XQG: question generation from evidence and answer, in the format of XNLG's files."""

from xling.eval.rows.readers import aligned
from xling.eval.rows.suite import SUITES, Example, Suite

READER = aligned(
    lambda row, index: Example(str(index), {"text": row[0], "answer": row[1]}, row[2]),
)

SUITES.add(
    "xqg",
    Suite(
        name="xqg",
        kind="generation",
        languages=("en", "zh"),
        splits=("train", "dev", "test"),
        reader=READER,
        patterns=("xqg/{split}.e.{lang}.lc", "xqg/{split}.a.{lang}.lc", "xqg/{split}.q.{lang}.lc"),
        metrics=("bleu", "rouge_l", "meteor", "in_language"),
        licence="none stated; SQuAD 1.1 and WebQA text",
        citation="Chi et al. 2020, Cross-lingual natural language generation via pre-training",
        url="https://github.com/CZWin32768/XNLG",
        protocol="BLEU, ROUGE-L and METEOR of the question written from an evidence text and an answer",
    ),
)

"""Universal Dependencies: parts of speech."""

from xling.eval.rows.readers import columns, conllu
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files

_CODES = "en af ar bg de el es et eu fa fi fr he hi hu id it ja kk ko mr nl pt ru ta te th tl tr ur vi yo zh"
LABELS = (
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
)

SUITES.add(
    "udpos",
    Suite(
        name="udpos",
        kind="tag",
        languages=tuple(_CODES.split()),
        extra=("wo",),
        splits=("train", "dev", "test"),
        labels=LABELS,
        reader=columns(),
        patterns=("ud/{lang}.{split}.tsv",),
        official=(
            Layout(("UD_*-PUD/{code}_pud-ud-{split}.conllu",), reader=conllu),
            Layout(("UD_English-EWT/{code}_ewt-ud-{split}.conllu",), reader=conllu),
        ),
        files=recorded_files(__name__),
        metrics=("tag_accuracy", "tag_f1"),
        licence="CC BY-SA 3.0 and 4.0; eu CC BY-NC-SA 3.0",
        citation=(
            "Zeman et al., Universal Dependencies; parallel treebanks: Zeman et al. 2017, CoNLL shared task"
        ),
        url="https://universaldependencies.org",
        protocol=(
            "accuracy over words, and F1 over runs of one tag by seqeval, which XTREME prints; test rows are the "
            "parallel PUD treebanks"
        ),
    ),
)

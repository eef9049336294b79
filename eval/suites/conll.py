"""Named entities of the CoNLL 2002 and 2003 shared tasks, in the format of their files."""

from xling.eval.rows.readers import columns
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "conll",
    Suite(
        name="conll",
        kind="tag",
        languages=("en", "de", "es", "nl"),
        splits=("train", "dev", "test"),
        labels=("PER", "ORG", "LOC", "MISC"),
        scheme="IOB2",
        reader=columns(separator=None, iob1=True),
        patterns=("conll/{code}.{split}",),
        codes={"en": "eng", "de": "deu", "es": "esp", "nl": "ned"},
        split_codes={"dev": "testa", "test": "testb"},
        metrics=("span_f1",),
        licence="research use; English and German texts from Reuters and ECI",
        citation=(
            "Tjong Kim Sang 2002; Tjong Kim Sang and De Meulder 2003, language-independent named entity "
            "recognition"
        ),
        url="https://www.clips.uantwerpen.be/conll2003/ner",
        protocol="span F1, seqeval default mode, which equals conlleval; bring the files as UTF-8",
    ),
)

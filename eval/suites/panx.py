"""PAN-X (WikiANN): silver named entities from Wikipedia links."""

from xling.eval.rows.readers import columns
from xling.eval.rows.suite import SUITES, Example, Online, Suite, recorded_files

ENTITIES = ("PER", "ORG", "LOC")
_CODES = (
    "en af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr ms my nl pt ru sw "
    "ta te th tl tr ur vi yo zh"
)
XTREME_40 = tuple(_CODES.split())

SUITES.add(
    "panx",
    Suite(
        name="panx",
        kind="tag",
        languages=XTREME_40,
        splits=("train", "dev", "test"),
        labels=ENTITIES,
        scheme="IOB2",
        reader=columns(),
        patterns=("ner/panx/{lang}.{split}.tsv",),
        files=recorded_files(__name__),
        online=Online(
            "unimelb-nlp/wikiann",
            "{lang}",
            lambda r, i: Example(str(i), {"tokens": tuple(r["tokens"])}, tuple(r["ner_tags"])),
            revision="f0a3be6dc5564c0cc4150bb660144800a1f539d4",
        ),
        metrics=("span_f1",),
        licence="none stated for WikiANN (Wikipedia text CC BY-SA); evaluation use",
        citation=(
            "Pan et al. 2017, Cross-lingual name tagging and linking for 282 languages; splits: Rahimi et"
            " al. 2019"
        ),
        url="https://github.com/google-research/xtreme",
        protocol="span F1, seqeval default mode; the dev split if test has no labels",
    ),
)

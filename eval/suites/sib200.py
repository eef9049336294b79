"""SIB-200: topic classification of FLORES sentences."""

from xling.core.languages import LANGUAGES
from xling.eval.rows.readers import table
from xling.eval.rows.suite import SUITES, Example, Layout, Online, Suite, recorded_files

CODES = {lang.code: lang.flores for lang in LANGUAGES.values() if lang.flores}
"""The languages of FLORES-200, and N'Ko, by their codes in file names."""

SUITES.add(
    "sib200",
    Suite(
        name="sib200",
        kind="classify",
        languages=tuple(dict.fromkeys(["en", *CODES])),
        splits=("train", "dev", "test"),
        labels=(
            "science/technology",
            "travel",
            "politics",
            "sports",
            "health",
            "entertainment",
            "geography",
        ),
        reader=table({"text": "text"}, "category", "index_id"),
        reading="cells in quotes",
        patterns=("sib200/{code}.{split}.tsv",),
        codes=CODES,
        official=(
            Layout(("sib-200/data/annotated/{code}/{split}.tsv",), codes=CODES),
            Layout(("sib200/data/{code}/{split}.tsv",), codes=CODES),
        ),
        files=recorded_files(__name__),
        online=Online(
            "Davlan/sib200",
            "{code}",
            lambda r, i: Example(str(r["index_id"]), {"text": r["text"]}, r["category"]),
            revision="38977a667f6fc264d5c26ec57a01e16db040b358",
        ),
        metrics=("accuracy",),
        licence="CC BY-SA 4.0 (sentences), Apache-2.0 (labels)",
        is_parallel=True,
        citation=(
            "Adelani et al. 2024, SIB-200: A simple, inclusive, and big evaluation dataset for topic "
            "classification"
        ),
        url="https://github.com/dadelani/sib-200",
        protocol="accuracy over 7 topics; the same sentences in every language",
    ),
)

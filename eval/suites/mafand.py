"""MAFAND-MT: news translation into and out of African languages."""

from xling.eval.rows.readers import translation
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files

SUITES.add(
    "mafand",
    Suite(
        name="mafand",
        kind="mt",
        languages=("en-sw", "sw-en", "fr-wo", "wo-fr"),
        splits=("train", "dev", "test"),
        reader=translation,
        patterns=("mafand/{lang}.{split}.{src}", "mafand/{lang}.{split}.{tgt}"),
        official=(
            Layout(
                tuple(f"lafand-mt/data/text_files/{{src}}-{{tgt}}/{{split}}.{{{x}}}" for x in ("src", "tgt"))
            ),
            Layout(
                tuple(f"lafand-mt/data/text_files/{{tgt}}-{{src}}/{{split}}.{{{x}}}" for x in ("src", "tgt"))
            ),
        ),
        files=recorded_files(__name__),
        metrics=("bleu", "chrf", "ter", "in_language"),
        licence="CC BY-NC 4.0; the articles carry their publishers' terms",
        citation=(
            "Adelani et al. 2022, A few thousand translations go a long way! Leveraging pre-trained "
            "models for African news translation"
        ),
        url="https://github.com/masakhane-io/lafand-mt",
        protocol="sacreBLEU on raw references; without test rows, dev rows are scored",
    ),
)

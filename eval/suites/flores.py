"""FLORES-200: translation between any two of its 204 languages."""

from xling.eval.rows.readers import translation
from xling.eval.rows.suite import SUITES, Layout, Suite

FLORES = Suite(
    name="flores",
    kind="mt",
    languages=(),
    splits=("dev", "test"),
    reader=translation,
    patterns=("flores/{lang}.{split}.{src}", "flores/{lang}.{split}.{tgt}"),
    official=(
        Layout(
            tuple(f"flores200_dataset/{{split}}/{{{x}}}.{{split}}" for x in ("src", "tgt")),
            split_codes={"test": "devtest"},
        ),
    ),
    metrics=("bleu", "chrf", "in_language"),
    licence="CC BY-SA 4.0",
    citation="NLLB team 2022, No language left behind: Scaling human-centered machine translation",
    url="https://github.com/facebookresearch/flores",
    protocol="sacreBLEU and chrF++ on raw references of devtest; pairs by langs=en-sw; spBLEU: suite flores_spbleu",
)
SUITES.add(FLORES.name, FLORES)

